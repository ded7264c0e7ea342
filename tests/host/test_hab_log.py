"""Processes of data centres in one program: one order, a disaster, a take-over, a return; who may say what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from isotone.hab.centre import Role
from isotone.host.hab_acts import Act
from tests.host.centres import Centres

DEADLINE_S = 120.0


def run_with(directory: Path, sizes: dict[str, int], main: Callable[[Centres], Awaitable[None]], **more: str) -> None:
    """One test; all that runs is stopped in any case."""

    async def timed() -> None:
        centres = Centres(directory, sizes, **more)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await main(centres)
        finally:
            await centres.stop(*centres.running)

    asyncio.run(timed())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.05)


def test_a_dict_on_three_centres_through_a_disaster_and_back(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        for name in ("a1", "b1", "c1"):
            await centres.running[name].dict("stock").set(name, name)
        assert await centres.running["c1"].dict("stock").get("a1") == "a1"

        await centres.stop("a1")
        status = (await centres.ask("b1")).status
        life = next(each["life"] for each in status["centres"] if each["name"] == "a")
        writing = asyncio.create_task(centres.running["c1"].dict("stock").set("late", 1))
        reply = await centres.ask("c1", Act("declare-lost", "a", life))
        assert reply.outcome == "done", reply
        await writing
        assert centres.running["b1"].centre_log.hab.centre.role is Role.PRIMARY
        assert await centres.running["b1"].dict("stock").get("late") == 1

        await centres.start("a1")
        await until(lambda: centres.running["a1"].centre_log.hab.centre.role is Role.OUT)
        assert (await centres.ask("a1", Act("rejoin", "a"))).outcome == "done"
        assert await centres.running["a1"].dict("stock").get("late") == 1
        await centres.stop("a1")
        await centres.start("a1")
        await centres.running["a1"].ready()
        assert await centres.running["a1"].dict("stock").get("late") == 1
        await centres.running["a1"].dict("stock").set("back", 1)
        assert (await centres.ask("b1", Act("handover", "a"))).outcome == "done"
        await centres.running["c1"].dict("stock").set("after", 1)
        assert await centres.running["a1"].dict("stock").get("after") == 1

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)
