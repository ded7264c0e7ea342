"""What a join costs, in virtual time: ``python -m tests.sim.join_cost``.

For a LAN of three daemons and for three sites, the medians of joins by a client of another daemon than the
member's and the sender's: until the joiner and the member have the view, and how long messages to the member take that
a third client sends without a join, and so many one-way times D behind one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from statistics import median

import isotone
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.testing import Cluster, cluster, run
from tests.testing.virtual import pause

JOINS = 7
LAN, WAN = LinkSettings(latency_us=200, jitter_us=0), LinkSettings(latency_us=20_000, jitter_us=0)
PLACES = {
    "LAN": ({"a": "A", "b": "A", "c": "A"}, LAN),
    "three sites": ({"a": "A", "b": "B", "c": "C"}, WAN),
}
SERVICES = (isotone.FIFO, isotone.CAUSAL, isotone.AGREED)
BEHIND = (0.1, 1.1, 2.1)


async def follow(within: Cluster, group: isotone.Group, heard: dict[type, float]) -> None:
    """Note when the last event of each kind came."""
    async for event in group:
        heard[type(event)] = within.now


async def join_and_follow(within: Cluster, joiner: isotone.Session, heard: dict[type, float]) -> None:
    """The same for somebody new."""
    await follow(within, await joiner.join("g"), heard)


class House:
    """A member at a, a sender at b, and others who join and go at c; times in milliseconds."""

    def __init__(self, within: Cluster, sender: isotone.Session) -> None:
        self.within, self.sender = within, sender
        self.heard: dict[type, float] = {}  # by the member
        self.times: dict[str, list[float]] = {}

    def note(self, name: str, since: float, until: float) -> None:
        self.times.setdefault(name, []).append((until - since) * 1_000)

    async def send(self, name: str, service: isotone.Service) -> None:
        """One message."""
        began = self.within.now
        await self.sender.send("g", b"x", service=service)
        await pause(1)
        self.note(f"{service.name}, {name}", began, self.heard[isotone.Message])

    async def join(self, service: isotone.Service, behind: float, link: LinkSettings) -> None:
        """One join, and a message behind it."""
        async with isotone.connect(self.within.address("c"), name="joiner") as joiner:
            await pause(1)
            began, there = self.within.now, dict[type, float]()
            task = asyncio.ensure_future(join_and_follow(self.within, joiner, there))
            await pause(behind * link.latency_us / 1_000_000)
            await self.send(f"{behind} D behind a join", service)
            self.note("view at the joiner", began, there[isotone.View])
            self.note("view at the member", began, self.heard[isotone.View])
            task.cancel()
        await pause(1)


def measured(sites: Mapping[str, str], link: LinkSettings) -> dict[str, float]:
    """Medians."""
    times: dict[str, list[float]] = {}

    async def program() -> None:
        network = NetworkSettings(lan=LAN, wan=link)
        async with cluster(daemons=sites, seed=1, network=network) as within, AsyncExitStack() as stack:
            enter = stack.enter_async_context
            member = await (await enter(isotone.connect(within.address("a"), name="member"))).join("g")
            house = House(within, await enter(isotone.connect(within.address("b"), name="sender")))
            task = asyncio.ensure_future(follow(within, member, house.heard))
            for _ in range(JOINS):
                for service in SERVICES:
                    await pause(1)
                    await house.send("no join", service)
                    for behind in BEHIND:
                        await house.join(service, behind, link)
            task.cancel()
            times.update(house.times)

    run(program)
    return {name: median(found) for name, found in times.items()}


def main() -> None:
    """Measure, print."""
    for place, (sites, link) in PLACES.items():
        print(f"{place}, D is {link.latency_us / 1_000} ms")
        for name, milliseconds in sorted(measured(sites, link).items()):
            print(f"  {name:28} {milliseconds:6.1f} ms")


if __name__ == "__main__":
    main()
