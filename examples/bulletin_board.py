"""Bulletin boards: everybody posts without waiting, and reads in the order that a board promises; items under a lock.

It stands on a view-synchronous group; without ``view_synchronous`` it would run on ISIS kernels.
Run it: ``python examples/bulletin_board.py``. In real life each site is a program on its own machine.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import isotone
from isotone import isis

SITES = ("a", "b", "c")


async def main() -> None:
    """Findings in one order for all; and a counter that everybody raises."""
    async with AsyncExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        node = await stack.enter_async_context(isotone.node())
        running = [
            isis.tools("lab", name=name, sites=SITES, node=node, state=state / name, view_synchronous=True)
            for name in SITES
        ]
        everybody = await asyncio.gather(*(stack.enter_async_context(each) for each in running))
        groups = [await tools.group("lab") for tools in everybody]
        for name, group in zip(SITES, groups, strict=True):
            group.post("findings", f"found at {name}".encode(), order="total")
            async with group.lock("counter"):
                group.put("counter", b"%d" % (int(group.get("counter") or b"0") + 1))
        for name, group in zip(SITES, groups, strict=True):
            while len(group.read("findings", order="total")) < len(SITES) or group.get("counter") != b"3":
                await group.changed()
            print(name, [value.decode() for _, value in group.read("findings", order="total")])


if __name__ == "__main__":
    asyncio.run(main())
