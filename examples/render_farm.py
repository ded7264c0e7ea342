"""Coordinator and cohorts: one member does each job, and another one would if it failed; the caller gets one answer.

Run it: ``python examples/render_farm.py``. In real life each site is a program on its own machine.
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
    """Three members; each asks for a picture, and the member nearest to it draws it."""
    async with AsyncExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        node = await stack.enter_async_context(isotone.node())
        running = [isis.tools("farm", name=name, sites=SITES, node=node, state=state / name) for name in SITES]
        everybody = await asyncio.gather(*(stack.enter_async_context(each) for each in running))
        groups = [await tools.group("renderers") for tools in everybody]
        for name, group in zip(SITES, groups, strict=True):

            async def draw(scene: bytes, name: str = name) -> bytes:
                return b"picture of %s, drawn at %s" % (scene, name.encode())

            group.handle(draw)
        for group, scene in zip(groups, (b"a tree", b"a house", b"a cat"), strict=True):
            print((await group.ask(scene)).decode())


if __name__ == "__main__":
    asyncio.run(main())
