"""`isotone lock` and `isotone leader`: the command is ended before another can hold what it held."""

from __future__ import annotations

import asyncio

import pytest

import isotone
import isotone.testing
from isotone.cli.held_command import guard
from isotone.replicated.locks import Held


class StubbornProcess:
    """Ends only when it is killed; remembers when it was told what."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await self._ended

    def terminate(self) -> None:
        self.told["terminate"] = asyncio.get_running_loop().time()

    def kill(self) -> None:
        self.told["kill"] = asyncio.get_running_loop().time()
        self._ended.set_result(-9)


class Ending(StubbornProcess):
    """Ends when it is asked to."""

    def terminate(self) -> None:
        super().terminate()
        self._ended.set_result(-15)


@isotone.testing.seeds(3)
async def test_a_command_that_ignores_sigterm_is_killed_before_another_has_the_lock(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with cluster as c, c.replica("d1") as one, c.replica("d2") as two, c.replica("d3"):
        held = await one.lock("door").acquire(within_s=60)
        assert held is not None and 0 < held.left_s <= 8
        whole_s, process = held.left_s, StubbornProcess()
        guarded = asyncio.ensure_future(guard(held, process, "the lock door", whole_s))
        waiting = asyncio.ensure_future(granted(two.lock("door").acquire(within_s=300)))
        await two.counter("x").add(1, within_s=60)
        c.partition(["d2", "d3"], ["d1"])
        assert await asyncio.wait_for(guarded, 300) == 1
        another, at = await asyncio.wait_for(waiting, 300)
        assert process.told["terminate"] + whole_s / 8 < process.told["kill"] < at
        assert another.fence > held.fence and not held.is_held
        assert "the lock door may be lost" in capsys.readouterr().err


async def granted(asked: object) -> tuple[Held, float]:
    """What is granted, and when."""
    held = await asked  # type: ignore[misc]
    return held, asyncio.get_running_loop().time()


@isotone.testing.seeds(1)
async def test_a_command_that_ends_when_it_is_asked_to_is_not_killed() -> None:
    async with isotone.testing.cluster(daemons=3, log="shop") as c, c.replica("d1") as one, c.replica("d2"):
        term = await one.leader("scheduler").campaign(within_s=60)
        process = Ending()
        guarded = asyncio.ensure_future(guard(term, process, "the leadership of scheduler", term.left_s))
        c.partition(["d2", "d3"], ["d1"])
        assert await asyncio.wait_for(guarded, 300) == 1
        assert list(process.told) == ["terminate"]


@isotone.testing.seeds(1)
async def test_while_renewals_come_the_command_goes_on_and_its_code_is_told() -> None:
    async with isotone.testing.cluster(daemons=1, log="shop") as c, c.replica("d1") as one:
        held = await one.lock("door").acquire(within_s=60)
        assert held is not None
        process = Ending()
        guarded = asyncio.ensure_future(guard(held, process, "the lock door", held.left_s))
        while one.machine.state.round < 30:  # three leases
            await one.applied_beyond(one.machine.state.position)
        assert not guarded.done() and held.is_held
        process.terminate()
        assert await guarded == 128 + 15
