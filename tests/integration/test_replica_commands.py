"""``isotone replica`` on real processes: what its commands say and do, from the first start to new addresses."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from isotone.host.answers import Maybe
from tests.integration.replica_cluster import ReplicaCluster, isotone, replica_cluster, run, told


async def write(cluster: ReplicaCluster, count: int, *names: str) -> int:
    async with cluster.client(*names) as log:
        for number in range(count):
            end = await log.append(b"record %d" % number)
        return end


async def minority_append(cluster: ReplicaCluster, record: bytes) -> str:
    """Answered *maybe*; the name of the message that brings it, once it is on disk."""
    async with cluster.client("a") as log, aclosing(log.red()) as reds:
        red = asyncio.ensure_future(anext(reds))
        await log.status()  # the server has heard who listens
        with pytest.raises(Maybe) as caught:
            await log.append(record, within_s=0.2)
        message = await red
        assert message.records == (record,)
        assert caught.value.message in {str(message), ""}, "no name if the disk is slower than that"
        return str(message)


def test_from_the_first_start_to_new_addresses(tmp_path: Path) -> None:
    async def main() -> None:
        async with replica_cluster(tmp_path) as cluster:
            assert await write(cluster, 10) == 10
            for name in cluster.names:
                async with cluster.client(name) as log:
                    async for entry in log.follow(10):
                        assert entry.record == b"record 9"
                        break
            status = told("replica", "status", cluster.settings)
            assert [each["is_primary"] for each in status["servers"]] == [True] * 3 and not status["silent"]
            assert "regular" in isotone("replica", "status", cluster.settings).out
            assert isotone("explain", "primary", cluster.settings).code == 0

            await cluster.kill("b", "c")
            await cluster.until_status("a", lambda status: status["waits_for"] == [["b"], ["c"]])
            done = isotone("explain", "primary", cluster.settings, "--json")
            assert done.code == 1
            answer = json.loads(done.out)
            assert "waits for b, or c" in answer["why"]["a"] and sorted(answer["silent"]) == ["b", "c"]
            assert isotone("replica", "status", cluster.settings).code == 1
            name = await minority_append(cluster, b"in a minority")
            done = isotone("explain", "green", name, "--address", cluster.port("a"))
            assert done.code == 1 and "waits for b, or c" in done.out
            cluster.start("b")
            await cluster.primary("a", "b")
            async with cluster.client("b") as log:
                await log.wait_for(11)
            assert isotone("explain", "green", name, "--address", cluster.port("a")).code == 0

            for name in ("a", "b"):
                await cluster.stop(name)
            for name in cluster.names:
                cluster.move(name)
            cluster.start()
            await cluster.primary()
            assert await write(cluster, 1, "c") == 12
            assert (await cluster.records("c"))[9:11] == [b"record 9", b"in a minority"]

            verified = told("replica", "log", "verify", cluster.settings, "--name", "c")
            assert not verified["problems"] and verified["logs"][0]["log"] == "log"
            lines = isotone("replica", "log", "dump", cluster.settings, "--name", "a", "--first", "9", "--json")
            rows = [json.loads(line) for line in lines.out.splitlines()]
            assert [row["position"] for row in rows][:3] == [9, 10, 11] and rows[0]["colour"] == "green"
            steps = isotone("replica", "log", "dump", cluster.settings, "--name", "a", "--steps")
            assert "Established" in steps.out

    run(main())


def test_a_server_is_added_when_it_has_caught_up_and_another_one_removed(tmp_path: Path) -> None:
    async def main() -> None:
        async with replica_cluster(tmp_path, start=False) as cluster:
            cluster.joins("d")
            cluster.start("a", "b", "c")
            await cluster.primary("a", "b", "c")
            await write(cluster, 30, "a")
            done = isotone("replica", "add", "d", cluster.settings)
            assert done.code == 1 and "not here" in done.out
            cluster.start("d")
            await cluster.until_status("d", lambda status: status["green_position"] == 30)
            await cluster.until_done(lambda: isotone("replica", "add", "d", cluster.settings).code == 0)
            await cluster.primary("a", "b", "c", "d")
            assert isotone("replica", "remove", "a", cluster.settings).code == 0
            await cluster.until_status("b", lambda status: status["servers"] == ["b", "c", "d"])
            assert await write(cluster, 1, "d") == 31
            disjoint = ("--rule", "monarch:b", "--rule", "majority", "--combine", "any")
            refused = isotone("replica", "rule", cluster.settings, *disjoint)
            assert refused.code == 1 and "both b and c, d would be quorums" in refused.out
            assert isotone("replica", "rule", cluster.settings, "--rule", "votes", "--votes", "b=3").code == 0
            await cluster.until_status("d", lambda status: status["quorum"] == "more than half of 5 votes")
            assert await cluster.records("d") == await cluster.records("b")

    run(main())


def test_settings_with_two_disjoint_quorums_are_refused(tmp_path: Path) -> None:
    rules = 'combine = "any"\n[[replica.rule]]\nkind = "monarch"\nserver = "a"\n[[replica.rule]]\nkind = "majority"'
    cluster = ReplicaCluster(tmp_path, replica=rules)
    cluster.settings.write_text(cluster.text())
    done = isotone("replica", "quorum", cluster.settings)
    assert done.code == 2 and "both a and b, c would be quorums" in done.err
    cluster.replica = '[[replica.rule]]\nkind = "tie-breaker"\nserver = "a"'
    cluster.settings.write_text(cluster.text())
    answer = told("replica", "quorum", cluster.settings)
    assert answer["stopped_by"] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert answer["survives"] == [["a"], ["b"], ["c"]]
    assert "goes on after the loss of" in isotone("replica", "quorum", cluster.settings).out


def test_a_server_as_a_client_of_its_daemon(tmp_path: Path) -> None:
    async def main() -> None:
        async with replica_cluster(tmp_path, "ab", replica='attach = "client"', start=False) as cluster:
            cluster.start("a")
            log = cluster.client("a")
            log.patience.connect_within_us = 60_000_000  # its process begins
            async with log:
                while "no session with a daemon: 127.0.0.1:" not in (why := await log.explain()):
                    assert "no session with a daemon" in why
                assert (await log.status())["why_no_primary"].startswith("a orders nothing: it has no session")
            cluster.start_daemons()
            cluster.start("b")
            await cluster.primary()
            assert await write(cluster, 5) == 5
            cluster.signal("b", signal.SIGKILL)
            await cluster.ended("b")
            cluster.start("b")
            await cluster.primary()
            async with cluster.client("b") as log:
                assert await log.end() == 5
            for name in cluster.names:
                await cluster.stop(name)

    run(main())
