"""View-synchronous groups with the ordinary client in a simulated cluster."""

from __future__ import annotations

import asyncio

import pytest

import isotone
from isotone.client import Closed, NotSent
from isotone.core.errors import LocalProtocolError
from isotone.testing import Cluster
from tests.testing.test_clients import hear, play
from tests.testing.virtual import pause

FIFO, SAFE = isotone.FIFO, isotone.SAFE


async def joined(c: Cluster, daemon: str, name: str) -> tuple[isotone.Session, isotone.Group]:
    me = await isotone.connect(c.address(daemon), name=name)
    return me, await me.join("g", view_synchronous=True)


async def read(group: isotone.Group, into: list[object], *, reply: bool = False) -> None:
    """Views by their members, and messages; before a view changes one more message is sent."""
    async for event in group:
        if isinstance(event, isotone.View):
            into.append(tuple(sorted(member.name for member in event.members)))
        elif isinstance(event, isotone.Message):
            into.append(event.body)
        elif isinstance(event, isotone.ViewChanging) and reply:
            await group.send(b"last of " + group.session.name.encode(), service=FIFO)


async def until(condition: object, within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # type: ignore[operator]
            await pause(0.05)


def test_messages_are_delivered_in_the_view_they_were_sent_in() -> None:
    async def main(c: Cluster) -> None:
        told: dict[str, list[object]] = {"a": [], "b": [], "c": []}
        tasks, sessions = [], []
        for daemon, name in (("d1", "a"), ("d2", "b"), ("d3", "c")):
            me, group = await joined(c, daemon, name)
            sessions.append(me)
            tasks.append(asyncio.create_task(read(group, told[name], reply=True)))
        await until(lambda: all(each and each[-1] == ("a", "b", "c") for each in told.values()))
        assert told["a"][:3] == [("a",), b"last of a", ("a", "b")]
        assert set(told["a"][3:5]) == set(told["b"][1:3]) == {b"last of a", b"last of b"}
        assert told["c"] == [("a", "b", "c")]  # the last words of the view before are not for it
        for task in tasks:
            task.cancel()
        for me in sessions:
            await me.close()

    play(main)


def test_a_send_waits_for_the_next_view_and_goes_there() -> None:
    async def main(c: Cluster) -> None:
        a, here = await joined(c, "d1", "a")
        await hear(here, isotone.View)
        b = await isotone.connect(c.address("d2"), name="b")
        joining = asyncio.create_task(b.join("g", view_synchronous=True))
        assert isinstance(await hear(here, isotone.ViewChanging), isotone.ViewChanging)
        assert [each.name for each in here.waits_for] == ["a", "b"]  # type: ignore[attr-defined]
        await here.send(b"before")
        assert here.waits_for[0].name == "a"  # type: ignore[attr-defined]
        assert not joining.done()
        first = await hear(here, isotone.Message)  # asking for it allows the flush
        with pytest.raises(NotSent, match="deadline"):
            await here.send(b"too late", deadline=0.000001)
        await here.send(b"behind", service=isotone.UNRELIABLE)
        there = await joining
        assert first.body == b"before" and (await hear(there, isotone.Message)).body == b"behind"
        assert await here.send(b"sure", confirm=True) is not None
        with pytest.raises(LocalProtocolError, match="view-synchronous"):
            await a.send(("g", "h"), b"x")
        await a.close()
        await b.close()

    play(main)


def test_a_member_that_does_not_read_keeps_the_others_waiting_until_it_ends() -> None:
    async def main(c: Cluster) -> None:
        a, here = await joined(c, "d1", "a")
        told: list[object] = []
        task = asyncio.create_task(read(here, told))
        b, _ = await joined(c, "d2", "b")  # never reads
        sleeper = asyncio.create_task(joined(c, "d3", "c"))
        await pause(2)
        assert not sleeper.done() and [each.name for each in here.waits_for] == ["b"]  # type: ignore[attr-defined]
        await b.close()
        d, _ = await sleeper
        await until(lambda: told[-1] == ("a", "c"))
        assert told == [("a",), ("a", "b"), ("a", "c")]  # views that follow each other meanwhile are one
        task.cancel()
        await d.close()
        await a.close()

    play(main)


def test_a_partition_and_a_merge() -> None:
    async def main(c: Cluster) -> None:
        told: dict[str, list[object]] = {"a": [], "b": [], "c": []}
        tasks, groups = [], []
        for daemon, name in (("d1", "a"), ("d2", "b"), ("d3", "c")):
            _, group = await joined(c, daemon, name)
            groups.append(group)
            tasks.append(asyncio.create_task(read(group, told[name])))
        await until(lambda: all(each and each[-1] == ("a", "b", "c") for each in told.values()))
        c.partition(["d1", "d2"], ["d3"])
        await until(lambda: told["a"][-1] == told["b"][-1] == ("a", "b") and told["c"][-1] == ("c",))
        await asyncio.gather(groups[0].send(b"here", service=SAFE), groups[2].send(b"there", service=FIFO))
        await until(lambda: told["b"][-1] == b"here" and told["c"][-1] == b"there")
        c.heal()
        await until(lambda: all(each[-1] == ("a", "b", "c") for each in told.values()))
        assert told["a"][-3:] == told["b"][-3:] == [("a", "b"), b"here", ("a", "b", "c")]
        assert told["c"][-3:] == [("c",), b"there", ("a", "b", "c")]
        view = groups[0].view
        assert view is not None and [each.name for each in view.transitional] == ["a", "b"]
        for task in tasks:
            task.cancel()

    play(main)


def test_a_member_is_again_in_its_group_after_its_daemon_crashed() -> None:
    async def main(c: Cluster) -> None:
        told: dict[str, list[object]] = {"a": [], "b": []}
        tasks, groups = [], []
        for daemons, name in ((("d1",), "a"), (("d2", "d3"), "b")):
            me = await isotone.connect([c.address(each) for each in daemons], name=name)
            group = await me.join("g", view_synchronous=True)
            groups.append(group)
            tasks.append(asyncio.create_task(read(group, told[name], reply=True)))
        await until(lambda: all(each and each[-1] == ("a", "b") for each in told.values()))
        old = groups[1].session.id
        c.crash(old.daemon.name)
        await until(lambda: groups[1].session.id != old and all(each[-1] == ("a", "b") for each in told.values()))
        await groups[1].send(b"back")
        await until(lambda: b"back" in told["a"] and b"back" in told["b"])
        for task in tasks:
            task.cancel()

    play(main)


def test_who_left_cannot_send() -> None:
    async def main(c: Cluster) -> None:
        a, here = await joined(c, "d1", "a")
        await here.leave()
        with pytest.raises(Closed, match="we left g"):
            await here.send(b"x")
        await a.close()

    play(main)
