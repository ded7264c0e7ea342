"""A queue that every site sees in one order: three sites in one program, on daemons of their own.

Run it: ``python examples/isis_queue.py``. In real life each site is a program on its own machine.
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
    """Everybody inserts an item at the same time; all read the same queue."""
    async with AsyncExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        node = await stack.enter_async_context(isotone.node())
        running = [isis.site("queue", name=name, sites=SITES, node=node, state=state / name) for name in SITES]
        sites = await asyncio.gather(*(stack.enter_async_context(each) for each in running))
        groups = [await site.join("queue") for site in sites]
        for name, group in zip(SITES, groups, strict=True):
            await group.abcast(f"item of {name}".encode(), label="queue")
        for name, group in zip(SITES, groups, strict=True):
            items: list[str] = []
            while len(items) < len(SITES):
                event = await anext(group)
                if isinstance(event, isis.Message):
                    items.append(event.data.decode())
            print(name, items)


if __name__ == "__main__":
    asyncio.run(main())
