"""COReL's green order behind the `OrderedLog` interface, on real files beside real nodes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import OrderedLog
from isotone.corel import explain
from isotone.corel.events import AppendWanted, Standing
from isotone.corel.quorum import Majority
from isotone.corel.replica import Replica
from isotone.corel.settings import ReplicaSettings
from isotone.host import replica_log
from isotone.host.answers import Maybe, NotYet
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from isotone.host.replica_log import ReplicaLog
from isotone.host.session import SessionService
from tests.host.replicas import red_name, replicas, run

LONG_US = 600_000_000


def test_positions_are_dense_and_the_same_everywhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            log: OrderedLog = group.logs["a"]
            assert await log.end() == 0 and await log.read(1, 5) == []
            positions = await asyncio.gather(
                *(group.logs["abc"[i % 3]].append(b"%d" % i) for i in range(30)),
            )
            assert sorted(positions) == list(range(1, 31))
            for name in group.names:
                await group.logs[name].wait_for(30)
                assert group.records(name) == group.records("a")
            entries = await group.logs["b"].read(positions[7], positions[7])
            assert [(entry.position, entry.record) for entry in entries] == [(positions[7], b"7")]
            assert len(await log.read(29, 99)) == 2

    run(main)


def test_a_replica_over_a_session_adopts_its_id_and_connects_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, kind="session") as group:
            assert await group.logs["a"].append(b"one") == 1
            await group.logs["c"].wait_for(1)
            await group.restart_node("c")
            await group.primary()
            assert await group.logs["c"].append(b"two") == 2
            await group.logs["b"].wait_for(2)
            assert group.records("b") == [b"one", b"two"]

    run(main)


def test_red_green_and_white(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            log = group.logs["c"]
            reds: list[bytes] = []

            async def listen() -> None:
                async for message in log.red():
                    reds.extend(message.records)

            listening = asyncio.create_task(listen())
            await asyncio.sleep(0)
            for word in (b"one", b"two"):
                await group.logs["a"].append(word)
            green = []
            async for entry in log.follow(1):
                green.append(entry.record)
                if len(green) == 2:
                    break
            async for position in log.white():
                if position == 2:
                    break
            assert green == [b"one", b"two"] == reds
            listening.cancel()

    run(main)


def test_a_minority_answers_maybe_and_the_record_is_ordered_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            assert await group.logs["a"].append(b"first") == 1
            await group.stop("b", "c")
            log = group.logs["a"]
            await log.until(lambda: "No quorum" in log.why_no_primary())
            named = asyncio.create_task(red_name(log, b"kept"))
            with pytest.raises(Maybe, match="b, c are not") as caught:
                await log.append(b"kept", within_s=0.3)
            name = await named
            assert caught.value.message in {name, ""}, "no name if the disk is slower than that"
            assert "No quorum" in log.why_not_green(name)
            with pytest.raises(NotYet, match="ends at 1"):
                await log.wait_for(2, within_s=0.01)
            await group.start("b")
            await log.wait_for(2)
            assert group.records("a") == [b"first", b"kept"]
            assert not log.why_not_green(name)

    run(main)


async def many_answers(log: ReplicaLog, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Replica], list[object]]:
    """Who was asked why, and what a hundred appends were told at their deadlines; nobody looks for their places."""
    asked: list[Replica] = []

    def why(replica: Replica) -> str:
        asked.append(replica)
        return explain.why_no_primary(replica)

    def place(replica: Replica, name: object, *, no_primary: str) -> str:
        raise AssertionError(f"nobody looks for {name} in {replica}, {no_primary}")

    monkeypatch.setattr(replica_log, "why_no_primary", why)
    monkeypatch.setattr(replica_log, "why_not_green", place)
    appends = [log.append(b"%d" % number, within_s=number / 10_000) for number in range(1, 101)]
    return asked, await asyncio.gather(*appends, return_exceptions=True)


def test_many_answers_of_maybe_ask_once_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why there is no primary takes a look at everything red, and so does the place of a message."""

    async def main() -> None:
        async with replicas(tmp_path) as group:
            await group.stop("b", "c")
            log = group.logs["a"]
            await log.until(lambda: log.standing.standing is Standing.REGULAR and not log.standing.primary)
            asked, told = await many_answers(log, monkeypatch)
            assert {type(each) for each in told} == {Maybe} and len(asked) == 1
            assert all("No quorum" in str(each) for each in told)

    run(main)


def test_many_answers_of_maybe_behind_a_reconfiguration_ask_once_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary component that is no quorum of the next servers: the place of a message is a look at all the queue."""

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            log.replica.flow.cap = log.replica.ledger.queue.end
            asked, told = await many_answers(log, monkeypatch)
            assert log.is_primary and {type(each) for each in told} == {Maybe} and len(asked) == 1
            assert all("no quorum of the new set" in str(each) for each in told)

    run(main)


def test_another_process_uses_the_log_through_its_port(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            ports = [LogPort(group.logs[name]) for name in "ab"]
            for port in ports:
                await port.start("127.0.0.1", 0)
            async with RemoteLog([port.address for port in ports]) as log:
                same: OrderedLog = log
                assert log.server == "a" and await same.end() == 0
                positions = await asyncio.gather(*(log.append(b"%d" % i) for i in range(100)))
                assert sorted(positions) == list(range(1, 101))
                assert [entry.position for entry in await log.read(1, 200)] == positions
                followed = [entry.record async for entry in _first(log, 100)]
                assert followed == [b"%d" % i for i in range(100)]
                status = await log.status()
                assert status["is_primary"] and status["green_position"] == 100 and not await log.explain()
                with pytest.raises(LocalProtocolError):
                    await log.read(0, 1)
                await ports[0].stop()
                assert await log.end() == 100  # a question goes elsewhere by itself
                assert await log.append(b"at the other server") == 101
                assert log.server == "b"
            await ports[1].stop()

    run(main)


async def _first(log: RemoteLog, count: int):  # type: ignore[no-untyped-def]
    async for entry in log.follow(1):
        yield entry
        if entry.position == count:
            return


def test_what_the_replica_says_goes_to_its_daemon_at_once(tmp_path: Path) -> None:
    """Without a turn of the loop between them: what waits for one may miss the token."""

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log, node = group.logs["a"], group.nodes["a"]
            handled = node.shell.engine.handled
            log.host.tell(AppendWanted(log.host.now(), 0, b"one"))
            assert node.shell.engine.handled > handled
            await log.wait_for(1)

    run(main)


def test_appends_of_one_turn_travel_in_one_message_and_one_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a", settle_us=LONG_US) as group:  # else the green line is one write more
            log = group.logs["a"]
            await log.host.write([])  # behind what the establishing of the primary wrote
            first, commits = log.replica.outbox.initiated, log.host.machinery.disk.commits
            positions = await asyncio.gather(*(log.append(b"%d" % i) for i in range(200)))
            assert positions == list(range(1, 201))
            assert log.replica.outbox.initiated == first + 1
            assert log.host.machinery.disk.commits == commits + 1

    run(main)


@pytest.mark.parametrize("group", ["orders", "$log", "log/orders"])
def test_its_group_is_one_that_daemons_let_only_servers_into(group: str) -> None:
    settings = ReplicaSettings(server="a", servers=("a",), group=group, quorum=Majority(("a",)))
    with pytest.raises(LocalProtocolError, match=rf"\$log/orders, not {re.escape(group)}: .*security.md"):
        ReplicaLog(settings, service=SessionService("127.0.0.1:1"), directory=None)
