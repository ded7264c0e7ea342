"""Three daemons on loopback with clients: one order, crashes, restarts and merges, judged by every checker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from isotone.client import Group, Message, View, connect
from isotone.core.services import Service
from isotone.core.views import Cause
from isotone.daemon.embedded import node
from isotone.sim.run import verdicts_and_violations
from isotone.sim.stack_journal import replay_journal
from isotone.spec.check import check
from isotone.trace.reader import read_runs
from tests.daemon.local_cluster import DEADLINE_S, LocalCluster, local_cluster, traced


def run(main: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 2 * DEADLINE_S))


def judge(directory: Path) -> dict[str, int]:
    """How many properties have which verdict; a violation fails with its explanation."""
    counts: dict[str, int] = {}
    for _, rows in read_runs([directory / "trace"]):
        states, violations = verdicts_and_violations(check(rows))
        assert not violations, violations
        for state in states.values():
            counts[state] = counts.get(state, 0) + 1
    return counts


async def heard(group: Group, count: int) -> list[bytes]:
    """The next messages."""
    bodies: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in group:
            if isinstance(event, Message):
                bodies.append(event.body)
                if len(bodies) == count:
                    break
    return bodies


async def view_of(group: Group, members: int) -> View:
    """The next view with so many members."""
    async with asyncio.timeout(DEADLINE_S):
        async for event in group:
            if isinstance(event, View) and len(event.members) == members:
                return event
    raise AssertionError("the group ended")


async def one_order(cluster: LocalCluster, each: int = 20) -> None:
    """A client at every daemon sends, and all hear the same."""
    sessions = [await connect(node.address, name=f"c{node.name}") for node in cluster.nodes.values()]
    groups = [await session.join("chat") for session in sessions]
    try:
        sizes = (10, 3_000, 60_000)
        for number in range(each):
            for group in groups:
                body = b"%s-%d" % (group.session.name.encode(), number)
                await group.send(body.ljust(sizes[number % 3], b"."), service=Service(number % 4 + 2))
        await groups[0].send(b"last", service=Service.SAFE)
        stories = await asyncio.gather(*(heard(group, each * len(groups) + 1) for group in groups))
        assert len({tuple(sorted(story)) for story in stories}) == 1
    finally:
        for session in sessions:
            await session.close()


@pytest.mark.parametrize("offload", [True, False])
def test_clients_at_all_daemons_hear_the_same(tmp_path: Path, offload: bool) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, base=traced(tmp_path, offload=offload)) as cluster:
            sends = [node.shell.datagrams.sends_trains for node in cluster.nodes.values()]
            assert offload or not any(sends)
            await one_order(cluster)
        cluster.finish_trace()

    run(main())
    counts = judge(tmp_path)
    assert counts["holds"] > 20
    assert not counts.get("not_judged")


def test_a_daemon_is_killed_and_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, base=traced(tmp_path, journal=tmp_path / "journal")) as cluster:
            survivor = await connect(cluster.nodes["d1"].address, name="alice")
            lost = await connect(cluster.nodes["d3"].address, name="bob")
            chat, _ = await survivor.join("chat"), await lost.join("chat")
            assert len((await view_of(chat, 2)).members) == 2
            cluster.nodes["d3"].abort()
            await cluster.together("d1", "d2")
            assert (await view_of(chat, 1)).members == (survivor.id,)
            await cluster.nodes["d3"].closed()
            await lost.close()
            again = await cluster.start("d3")
            await cluster.together()
            assert again.me.incarnation == 2
            carol = await connect(again.address, name="carol")
            group = await carol.join("chat")
            await chat.send(b"hello again")
            assert await heard(group, 1) == [b"hello again"]
            await carol.close()
            await survivor.close()
        cluster.finish_trace()

    run(main())
    assert not judge(tmp_path).get("not_judged")
    journals = sorted((tmp_path / "journal").iterdir())
    assert [path.name for path in journals] == [f"d{n}.journal" for n in ("1-1", "2-1", "3-1", "3-2")]
    for path in journals:
        found = replay_journal(path)
        assert found.differs_at is None
        assert found.compared == found.events > 20
        assert bool(found.torn) == (path.name == "d3-1.journal")


def test_sides_of_a_cut_go_on_and_merge(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, base=traced(tmp_path, faults=True)) as cluster:
            alice = await connect(cluster.nodes["d1"].address, name="alice")
            bob = await connect(cluster.nodes["d3"].address, name="bob")
            ours, theirs = await alice.join("chat"), await bob.join("chat")
            await view_of(ours, 2)
            for name, others in (("d1", ("d3",)), ("d2", ("d3",)), ("d3", ("d1", "d2"))):
                faults = cluster.nodes[name].faults
                assert faults is not None
                faults.cut(*others)
            await cluster.together("d1", "d2")
            await cluster.together("d3")
            await asyncio.gather(view_of(ours, 1), view_of(theirs, 1))
            await ours.send(b"on this side")
            await theirs.send(b"on that side")
            assert await heard(ours, 1) == [b"on this side"]
            for node in cluster.nodes.values():
                assert node.faults is not None and node.faults.dropped > 0
                node.faults.heal()
            await cluster.together()
            await asyncio.gather(view_of(ours, 2), view_of(theirs, 2))
            await alice.close()
            await bob.close()
        cluster.finish_trace()

    run(main())
    assert not judge(tmp_path).get("not_judged")


def test_a_clean_stop_is_told_to_clients_and_daemons(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, ("d1", "d2")) as cluster:
            alice = await connect(cluster.nodes["d1"].address, name="alice")
            bob = await connect(cluster.nodes["d2"].address, name="bob")
            chat, _ = await alice.join("chat"), await bob.join("chat")
            await view_of(chat, 2)
            await cluster.nodes["d2"].stop()
            assert cluster.nodes["d2"].end_reason == ""
            await cluster.together("d1")
            assert (await view_of(chat, 1)).members == (alice.id,)
            await alice.close()
            await bob.close()
        assert not cluster.nodes["d2"].is_ready

    run(main())
    assert not judge(tmp_path).get("not_judged")


def test_all_start_at_once_and_find_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_cluster(tmp_path, start=False) as cluster:
            for name in cluster.names:
                await cluster.start(name)
                await cluster.nodes[name].stop()
            await asyncio.gather(*(cluster.start(name) for name in cluster.names))
            await cluster.together()

    run(main())


def test_a_daemon_that_stops_lets_its_clients_leave_in_order(tmp_path: Path) -> None:
    """Others hear a disconnect in the order of messages, not that the network changed."""

    async def main() -> None:
        async with local_cluster(tmp_path, ("d1", "d2")) as cluster:
            stays = await connect(cluster.nodes["d1"].address, name="stays")
            goes = await connect(cluster.nodes["d2"].address, name="goes")
            chat = await stays.join("chat")
            await goes.join("chat")
            await view_of(chat, 2)
            await cluster.nodes["d2"].stop()
            alone = await view_of(chat, 1)
            assert (alone.cause, alone.subject) == (Cause.DISCONNECT, goes.id)
            await asyncio.gather(stays.close(), goes.close())

    run(main())
    assert "not_judged" not in judge(tmp_path)


def test_a_daemon_that_keeps_nothing_never_repeats_an_incarnation() -> None:
    async def main() -> None:
        incarnations = []
        for _ in range(2):
            async with node() as daemon:
                incarnations.append(daemon.me.incarnation)
        assert incarnations[0] < incarnations[1]

    run(main())
