"""``isotone replica recover`` after the loss of a quorum, and copies, by their commands on real files."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli import running
from tests.integration.replica_cluster import ReplicaCluster, isotone, replica_cluster, run, told

SECTOR = 512


async def write(cluster: ReplicaCluster, server: str, *records: bytes) -> int:
    """One after another, until every server that is here has them green on disk."""
    async with cluster.client(server) as log:
        for record in records:
            end = await log.append(record)
    return end


async def stop_all(cluster: ReplicaCluster, *names: str) -> None:
    for name in names:
        await cluster.stop(name)


def test_what_it_showed_is_exactly_what_is_lost_and_the_old_side_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with replica_cluster(tmp_path) as cluster:
            kept = [b"kept %d" % number for number in range(5)]
            lost = [b"lost %d" % number for number in range(4)]
            await write(cluster, "a", *kept)
            await cluster.stop("c")
            await cluster.primary("a", "b")
            await write(cluster, "b", *lost)
            done = isotone("replica", "recover", cluster.settings, "--survivor", "c", "--yes")
            assert done.code == 3 and "the store of a is in use" in done.err, "not while they run"
            shown = told("replica", "recover", cluster.settings, "--survivor", "c", "--dry-run")
            assert shown["running"] == ["a", "b"], "as their ports say"
            await stop_all(cluster, "a", "b")
            words = ("replica", "recover", cluster.settings, "--survivor", "a", "--survivor", "b", "--yes")
            assert isotone(*words).code == 2, "a quorum needs no force"
            shutil.rmtree(tmp_path / "state" / "b.replica" / "logs")  # b's disk is gone, a's can still be read

            before = await orders(cluster, "a", "c")
            shown = told("replica", "recover", cluster.settings, "--survivor", "c", "--dry-run")
            assert shown["survivors"] == ["c"] and shown["unread"] == ["b"]
            assert not shown["moved"] and all(each["colour"] == "green" for each in shown["lost"])
            assert isotone("replica", "recover", cluster.settings, "--survivor", "c").code != 0, "nobody said yes"
            assert told("replica", "recover", cluster.settings, "--survivor", "c", "--yes")["done"]

            cluster.start("c")
            await cluster.primary("c")
            await write(cluster, "c", b"after")
            records = await cluster.records("c")
            assert records == [*kept, b"after"]
            gone = [each["name"] for each in shown["lost"]]
            assert gone == [each for each in before["a"] if each not in before["c"]]
            assert sum(each["records"] for each in shown["lost"]) == len(lost)

            cluster.start("a")  # the old side is back
            await cluster.until_status("a", lambda status: status["standing"] == "fenced")
            done = isotone("explain", "primary", "--address", cluster.port("a"))
            assert done.code == 1 and "forced" in done.out
            await write(cluster, "c", b"not disturbed")
            await cluster.stop("a")
            order = told_lines(isotone("replica", "log", "dump", cluster.settings, "--name", "a", "--json").out)
            assert len(order) == len(kept) + len(lost), "it took nothing of the new order"

    run(main())


async def orders(cluster: ReplicaCluster, *names: str) -> dict[str, list[str]]:
    """The messages that stores hold, in order."""
    found = {}
    for name in names:
        done = isotone("replica", "log", "dump", cluster.settings, "--name", name, "--json")
        found[name] = list(dict.fromkeys(row["message"] for row in told_lines(done.out)))
    return found


def told_lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_backup_and_restore_to_a_position_by_the_words_that_it_prints(tmp_path: Path) -> None:
    """And the trace of all of it shows no violation: what is given up by a restore is not lost by a server."""

    async def main() -> None:
        async with replica_cluster(tmp_path, start=False) as cluster:
            traces = cluster.traced()
            cluster.start()
            await cluster.primary()
            await write(cluster, "a", *(b"record %d" % number for number in range(9)))
            await cluster.until_status("b", lambda status: status["white_position"] == 9)
            copied = told("replica", "backup", cluster.settings, tmp_path / "copy", "--name", "b")
            assert copied["position"] == 9
            await write(cluster, "b", b"after the copy")
            await stop_all(cluster, *cluster.names)
            for name in cluster.names:
                cluster.store(name).rename(tmp_path / f"old-{name}")
            words = ("replica", "restore", tmp_path / "copy", cluster.settings, "--name")
            first = isotone(*words, "a", "--position", "6")
            assert first.code == 0, first.err
            hint = re.search(r"restore b, c from the same copy with (--position 6 --fence \d+)\n", first.out)
            assert hint is not None, first.out
            again = isotone(*words, "a")
            assert again.code == 2 and "not empty" in again.err
            told(*words, "b", *hint[1].split())
            (tmp_path / "old-c").rename(cluster.store("c"))
            cluster.start()
            await cluster.until_status("c", lambda status: status["standing"] == "fenced")
            await cluster.until_status("a", lambda status: "begins when all its servers have met" in status["reason"])
            await cluster.stop("c")
            cluster.store("c").rename(tmp_path / "old-c")
            told(*words, "c", *hint[1].split())
            cluster.start("c")
            await cluster.primary(*cluster.names)
            assert await write(cluster, "b", b"another story") == 7
            assert (await cluster.records("a"))[5:] == [b"record 5", b"another story"]
            await stop_all(cluster, *cluster.names)
            judged = told("check", traces)["properties"]
            assert {judged[label]["holds"] for label in ("COR-GREEN", "COR-AGREED", "COR-YELLOW", "COR-DURABLE")} == {1}
            assert not [label for label, verdicts in judged.items() if verdicts["violated"]]

    run(main())


async def log_of_nine(cluster: ReplicaCluster) -> Path:
    """The one file of the log of c, which is stopped, with nine records that every server has."""
    await write(cluster, "a", *(b"record %d" % number for number in range(9)))
    await cluster.until_status("c", lambda status: status["white_position"] == 9)
    await cluster.stop("c")
    (segment,) = (cluster.store("c") / "logs" / "log").glob("*.segment")
    return segment


def test_damage_stops_a_server_and_scrub_repairs_it_if_another_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the one bit that its checksum alone would put right."""

    async def main() -> None:
        async with replica_cluster(tmp_path) as cluster:
            segment = await log_of_nine(cluster)
            damaged = segment.read_bytes().replace(b"record 4", b"\x00\xff" * 4)
            segment.write_bytes(damaged)
            done = isotone("replica", "log", "verify", cluster.settings, "--name", "c")
            assert done.code == 1 and "isotone replica scrub" in done.out
            cluster.start("c")
            assert await cluster.ended("c") == 3
            assert "damaged" in cluster.log("c") and "repaired from another server" in cluster.log("c")

            await stop_all(cluster, "a", "b")
            monkeypatch.setattr("isotone.host.peers.WITHIN_S", 0.1)
            words = ("replica", "scrub", str(cluster.settings), "--name", "c")
            alone = await asyncio.to_thread(running.told, *words, code=1)
            assert not alone["repaired"] and len(alone["left"]) == 1
            assert segment.read_bytes() == damaged, "nothing is guessed"
            assert "isotone replica remove, isotone replica add" in alone["reasons"][0]
            assert alone["peers"].keys() == {"a", "b"}

            cluster.start("a", "b")
            await cluster.primary("a", "b")
            await write(cluster, "b", b"without c")
            assert told("replica", "scrub", cluster.settings, "--name", "c")["repaired"] == alone["left"]
            cluster.start("c")
            await cluster.primary()
            async with cluster.client("c") as log:
                await log.wait_for(10)
            assert await cluster.records("c") == await cluster.records("a")

    run(main())


def test_a_server_that_lost_a_sector_over_heads_of_records_is_replaced(tmp_path: Path) -> None:
    """By the commands that the guide names, while the others go on."""

    async def main() -> None:
        async with replica_cluster(tmp_path) as cluster:
            segment = await log_of_nine(cluster)
            data = segment.read_bytes()
            begin = data.index(b"record 4") // SECTOR * SECTOR
            segment.write_bytes(data[:begin] + bytes(SECTOR) + data[begin + SECTOR :])
            await cluster.primary("a", "b")
            done = isotone("replica", "scrub", cluster.settings, "--name", "c")
            assert done.code == 1 and "not even the checksum is left" in done.out
            assert "isotone replica remove, isotone replica add" in done.out and "still damaged" in done.out

            told("replica", "backup", cluster.settings, tmp_path / "copy", "--name", "a")
            shutil.move(cluster.store("c"), tmp_path / "damaged")
            done = isotone("replica", "restore", tmp_path / "copy", cluster.settings, "--name", "c")
            assert done.code == 3 and "a restore is for the whole log" in done.err, "a and b are a quorum, and order"

            assert isotone("replica", "remove", "c", cluster.settings).code == 0
            cluster.joins("d")
            cluster.start("d")
            await cluster.until_done(lambda: isotone("replica", "add", "d", cluster.settings).code == 0)
            await cluster.primary("a", "b", "d")
            assert await write(cluster, "d", b"with d") == 10
            assert await cluster.records("d") == await cluster.records("a")

    run(main())
