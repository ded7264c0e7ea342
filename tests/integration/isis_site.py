"""A site beside a daemon, in a process that joins a group, sends all the time, and says each event on its own line."""

from __future__ import annotations

import asyncio
import os
import sys

import isotone
from isotone import isis

NAMES = ("a", "b", "c")


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


async def send(group: isis.Group, name: str) -> None:
    """When all are there: one broadcast after the other."""
    while group.view is None or len(group.view.members) < len(NAMES):
        await asyncio.sleep(0.05)
    for number in range(1_000_000):
        try:
            await (group.abcast if number % 2 else group.cbcast)(f"{name}{number}".encode())
        except isis.BroadcastFailed:
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.02)


async def main(name: str, state: str, ports: list[str]) -> None:
    """Until somebody kills it."""
    peers = [(each, f"127.0.0.1:{port}") for each, port in zip(NAMES, ports, strict=True)]
    async with (
        isotone.node(name=name, address=dict(peers)[name], peers=peers) as node,
        isis.site("kills", name=name, sites=NAMES, node=node, state=state, suspect_ms=3_000) as site,
    ):
        while True:
            group = await site.join("g")
            sending = asyncio.create_task(send(group, name))
            try:
                async for event in group:
                    if isinstance(event, isis.View):
                        say(f"view {event.number} {','.join(event.members)} failed {','.join(event.failed)}")
                    else:
                        say(f"{event.primitive} {event.sender} {event.data.decode()}")
            except isis.SiteFailed:
                say("killed")
            sending.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
