"""The public toolkit: three sites on one daemon on loopback, in one program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import isotone
from isotone import isis

NAMES = ("a", "b", "c")
DEADLINE_S = 90.0
Scene = Callable[[list["isis.Tools"]], Awaitable[None]]


@isis.resilient
class Purse:
    """Money."""

    def __init__(self) -> None:
        self.coins = 0

    def put(self, coins: int) -> int:
        self.coins += coins
        return self.coins

    def take(self, coins: int) -> int:
        if coins > self.coins:
            raise ValueError(f"there are {self.coins} only")
        self.coins -= coins
        return self.coins

    async def give(self, to: str, coins: int) -> int:
        await isis.nested(to).put(coins)
        return self.take(coins)

    @isis.reads
    def count(self) -> int:
        return self.coins


@pytest.fixture(params=[False, True], ids=["kernels", "view-synchronous"])
def view_synchronous(request: pytest.FixtureRequest) -> bool:
    """On which layer."""
    return bool(request.param)


def play(path: Path, scene: Scene, *, view_synchronous: bool = False) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(isotone.node())
            running = [
                isis.tools(
                    "test",
                    name=name,
                    sites=NAMES,
                    node=node,
                    state=path / name,
                    suspect_ms=5_000,
                    view_synchronous=view_synchronous,
                )
                for name in NAMES
            ]
            await scene(list(await asyncio.gather(*(stack.enter_async_context(each) for each in running))))

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_objects_answer_fail_and_call_each_other(tmp_path: Path, view_synchronous: bool) -> None:
    async def scene(sites: list[isis.Tools]) -> None:
        for site in sites[:2]:
            await site.serve("ada", Purse)
        await sites[2].serve("bob", Purse)
        ada, bob = sites[2].object("ada"), sites[0].object("bob")
        assert await ada.put(5) == 5
        with pytest.raises(isis.OperationFailed, match="there are 5 only"):
            await ada.take(7)
        assert await ada.give("bob", 2) == 3
        assert [await bob.count(), await ada.count()] == [2, 3]
        sites[0].leave("ada")
        assert await ada.put(1) == 4

    play(tmp_path, scene, view_synchronous=view_synchronous)


def test_groups_have_actions_locks_data_boards_and_properties(tmp_path: Path, view_synchronous: bool) -> None:
    async def scene(sites: list[isis.Tools]) -> None:
        groups = [await site.group("g") for site in sites]

        async def twice(data: bytes) -> bytes:
            if not data:
                raise ValueError("nothing to repeat")
            return data * 2

        for group in groups:
            group.handle(twice)
        assert await groups[1].ask(b"ab") == b"abab"
        with pytest.raises(isis.OperationFailed, match="nothing to repeat"):
            await groups[2].ask(b"")

        async def raise_once(group: isis.ToolGroup) -> None:
            async with group.lock("n"):
                group.put("n", b"%d" % (int(group.get("n") or b"0") + 1))

        await asyncio.gather(*(raise_once(group) for group in groups))
        groups[0].post("board", b"news", order="total")
        groups[1].set_property("colour", b"red")
        for group in groups:
            while group.get("n") != b"3" or not group.read("board", order="total") or not group.properties:
                await group.changed()
        await sites[0].flush()
        assert len(groups[0].members) == 3

    play(tmp_path, scene, view_synchronous=view_synchronous)


def test_copies_run_and_move(tmp_path: Path, view_synchronous: bool) -> None:
    async def scene(sites: list[isis.Tools]) -> None:
        began: asyncio.Queue[str] = asyncio.Queue()
        for site in sites:

            async def program(name: str = site.me) -> None:
                began.put_nowait(name)
                await asyncio.Event().wait()

            site.programs["worker"] = program
            await site.join_system()
        sites[0].run_copies("worker", 2)
        first = {await began.get(), await began.get()}
        assert first == {sites[0].me, sites[1].me} == set(sites[2].copies_of("worker"))
        for site in sites:
            site.offer("purse", Purse)
        sites[0].run_copies("purse", 1)
        assert await sites[1].object("purse").put(4) == 4
        (source,) = sites[0].copies_of("purse")
        target = next(site for site in sites if site.me != source)
        sites[0].move("purse", source, target.me)
        while sites[0].copies_of("purse") != [target.me]:
            await asyncio.sleep(0)
        assert await sites[0].object("purse").count() == 4

    play(tmp_path, scene, view_synchronous=view_synchronous)


def test_a_class_has_to_be_marked(tmp_path: Path) -> None:
    async def scene(sites: list[isis.Tools]) -> None:
        with pytest.raises(isotone.IsotoneError, match="mark the class dict"):
            await sites[0].serve("x", dict)

    play(tmp_path, scene)
