"""A cluster in the virtual-time loop: faults, programs, and the check at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.spec.verdicts import State
from isotone.testing import BrokenPromise, Cluster, NotSettled, NotSimulated, cluster, run
from isotone.trace.events import Connected, Crashed, DaemonViewDelivered
from isotone.trace.jsonl import read_jsonl
from tests.testing.virtual import pause

T = TypeVar("T")


def play(main: Callable[[Cluster], Awaitable[T]], *, seed: int = 1, daemons: int = 3) -> T:
    async def inside() -> T:
        async with cluster(daemons, seed=seed) as c:
            return await main(c)

    return run(inside)


def test_a_cluster_begins_settled() -> None:
    async def main(c: Cluster) -> None:
        assert c.daemons == ("d1", "d2", "d3")
        assert c.address("d2") == "d2:4803"
        assert c.addresses() == ["d1:4803", "d2:4803", "d3:4803"]
        now = c.now
        assert await c.views() == dict.fromkeys(c.daemons, c.daemons)
        assert c.now == now

    play(main)


def test_partitions_and_cuts_make_views() -> None:
    async def main(c: Cluster) -> None:
        c.partition(["d1", "d2"], ["d3"])
        assert await c.views() == {"d1": ("d1", "d2"), "d2": ("d1", "d2"), "d3": ("d3",)}
        c.heal()
        assert (await c.views())["d3"] == ("d1", "d2", "d3")
        for other in ("d1", "d2"):
            c.cut("d3", other)
        assert (await c.views())["d3"] == ("d3",)
        c.mend("d3", "d1")
        c.mend("d3", "d2")
        assert (await c.views())["d3"] == ("d1", "d2", "d3")

    play(main)


def test_daemons_crash_stop_pause_and_come_back() -> None:
    async def main(c: Cluster) -> None:
        c.crash("d2")
        assert not c.is_up("d2")
        assert await c.views() == {"d1": ("d1", "d3"), "d3": ("d1", "d3")}
        c.restart("d2")
        assert (await c.views())["d1"] == ("d1", "d2", "d3")
        c.stop("d2")
        assert (await c.views())["d1"] == ("d1", "d3")
        c.calm()
        await c.settled()
        c.pause("d1")
        await c.settled(quiet=True)
        assert (await c.views())["d2"] == ("d2", "d3")
        c.calm()
        assert (await c.views())["d2"] == ("d1", "d2", "d3")

    play(main)


def test_a_storm_strikes_and_is_mended() -> None:
    async def main(c: Cluster) -> int:
        await c.storm(duration=3.0)
        assert c.now >= 3.0
        assert all(c.is_up(name) for name in c.daemons)
        assert set((await c.views()).values()) == {c.daemons}
        return sum(isinstance(row.entry, DaemonViewDelivered) for row in c.rows)

    views = [play(main, seed=seed) for seed in range(8)]
    assert max(views) > 12 and len(set(views)) > 1


def test_a_storm_has_the_faults_that_it_is_given() -> None:
    async def main(c: Cluster) -> None:
        await c.storm(duration=5.0, faults=("crash",))
        assert any(isinstance(row.entry, Crashed) for row in c.rows)
        crashes = len([row for row in c.rows if isinstance(row.entry, Crashed)])
        await c.storm(duration=5.0, faults=("partition", "pause", "kill", "disk"))
        assert len([row for row in c.rows if isinstance(row.entry, Crashed)]) == crashes
        await c.storm(duration=1.0, faults=())
        with pytest.raises(LocalProtocolError, match=r"\['move', 'rain'\]"):
            c.storm(faults=("move", "rain"))

    play(main)


def test_a_storm_that_nobody_waits_for_ends_with_the_cluster() -> None:
    async def main(c: Cluster) -> None:
        c.storm(duration=100.0)
        await pause(1)

    play(main)


class Caller(asyncio.Protocol):
    """Greets a daemon, and keeps what becomes of the stream."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[bytes] = loop.create_future()
        self.lost: asyncio.Future[Exception | None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"ISOC\1\1\0\0")

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(error)


async def call(daemon: str) -> Caller:
    _, caller = await asyncio.get_running_loop().create_connection(Caller, daemon, 4803)
    assert (await caller.answered).startswith(b"ISOD")
    return caller


def test_clients_stand_beside_their_daemon() -> None:
    async def main(c: Cluster) -> None:
        c.partition(["d1"], ["d2"])
        await asyncio.gather(*(call(name) for name in c.daemons))
        c.partition(["d1", "d2"], ["d3"])
        await asyncio.gather(*(call(name) for name in c.daemons))

    play(main)


def test_streams_break() -> None:
    async def main(c: Cluster) -> None:
        here, there = await call("d1"), await call("d2")
        c.break_streams("d1")
        assert isinstance(await here.lost, ConnectionResetError)
        assert not there.lost.done()

    play(main)


def test_streams_that_are_open_at_the_end_break() -> None:
    async def main() -> Exception | None:
        async with cluster():
            caller = await call("d1")
        return await caller.lost

    assert isinstance(run(main), ConnectionResetError)


def test_a_program_stands_where_it_was_put_and_can_be_killed() -> None:
    async def main(c: Cluster) -> None:
        ended: list[str] = []

        async def reach(daemon: str) -> None:
            async with asyncio.timeout(1):
                await call(daemon)

        async def program() -> None:
            child = asyncio.create_task(asyncio.Event().wait())
            try:
                caller = await call("d1")
                await caller.lost
            finally:
                ended.append("program")
                child.cancel()
                with pytest.raises(ConnectionRefusedError):
                    await call("d1")

        c.partition(["d1"], ["d2", "d3"])
        await c.launch("alice", reach("d1"), beside="d1")
        with pytest.raises(TimeoutError):
            await c.launch("alice", reach("d2"), beside="d1")
        c.partition(["d1", "d2", "d3"], ["alice"])
        with pytest.raises(TimeoutError):
            await c.launch("alice", reach("d1"), beside="d1")
        c.heal()
        task = c.launch("alice", program(), beside="d1")
        await pause(1)
        with pytest.raises(LocalProtocolError, match="already"):
            c.launch("alice", program(), beside="d1")
        assert not ended
        c.kill_client("alice")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["program"]
        await call("d1")  # the test itself goes on
        await c.launch("alice", reach("d1"), beside="d2")

    play(main)


def test_names_that_are_not_there_are_refused() -> None:
    async def main(c: Cluster) -> None:
        for act in (c.crash, c.restart, c.pause, c.address, c.is_up):
            with pytest.raises(LocalProtocolError, match="'d9'"):
                act("d9")
        with pytest.raises(LocalProtocolError, match="'d9'"):
            c.partition(["d9"])
        with pytest.raises(LocalProtocolError, match="'d9'"):
            await asyncio.get_running_loop().create_connection(Caller, "d9", 4803)
        with pytest.raises(LocalProtocolError, match="'bob' to kill"):
            c.kill_client("bob")

    play(main)


def test_a_cluster_that_cannot_settle_says_why() -> None:
    async def main(c: Cluster) -> None:
        c.partition(["d1", "d2"], ["d3"])
        with pytest.raises(NotSettled, match="d1#1"):
            await c.settled(within=0.01)

    play(main)


def test_a_real_loop_is_refused_with_the_remedy() -> None:
    async def main() -> None:
        async with cluster():
            pass

    with pytest.raises(NotSimulated, match=r"isotone\.testing\.run"):
        asyncio.run(main())


def test_one_cluster_at_a_time() -> None:
    async def main() -> None:
        async with cluster():
            with pytest.raises(NotSimulated, match="one at a time"):
                async with cluster():
                    pass
        async with cluster(2) as c:
            assert len(c.daemons) == 2

    run(main)


def break_a_promise(c: Cluster) -> None:
    """As if a daemon had installed the same daemon view with other members."""
    row = next(row for row in c.rows if isinstance(row.entry, DaemonViewDelivered) and len(row.entry.members) == 3)
    for client in ("#a#d1", "#a#d1"):
        c.world.record("d1", Connected(client))
    entry = row.entry
    assert isinstance(entry, DaemonViewDelivered)
    c.world.record("d1", DaemonViewDelivered("d1#1", entry.view, ("d2#1",), ("d2#1",)))


def test_a_broken_promise_of_ours_is_found_on_the_way_out() -> None:
    async def main(c: Cluster) -> None:
        assert not c.check().violations
        break_a_promise(c)

    with pytest.raises(BrokenPromise, match=r"seed 1: .* is violated"):
        play(main)


def test_an_error_of_the_test_goes_first_and_notes_ours() -> None:
    async def main(c: Cluster) -> None:
        break_a_promise(c)
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        play(main)
    assert "Isotone itself" in caught.value.__notes__[1]


def test_the_trace_can_be_kept(tmp_path: Path) -> None:
    async def main(c: Cluster) -> None:
        report = c.report()
        assert State.VIOLATED not in {verdict.state for verdict in report.verdicts.values()}
        c.write_trace(tmp_path / "run.jsonl")
        assert list(read_jsonl(tmp_path / "run.jsonl").rows()) == c.rows

    play(main)
