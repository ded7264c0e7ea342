"""State transfer at a join: what members sent before the view is in their state, what they sent behind it is heard.

Members count what each of them sent; the view of the join says how far everybody was, at all members alike.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

import isotone
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.testing import Cluster, cluster, run
from tests.testing.virtual import pause

WAN = LinkSettings(latency_us=20_000, jitter_us=5_000, bandwidth_bytes_per_second=10_000_000)
NETWORK = NetworkSettings(lan=LinkSettings(latency_us=200, jitter_us=100), wan=WAN)
HOMES = {"a1": "A", "a2": "A", "b": "B"}
JOINS = 3
WEAK = [isotone.RELIABLE, isotone.FIFO, isotone.CAUSAL]


class Member:
    """How much it heard of each sender, when each joiner came, and since then."""

    def __init__(self, session: isotone.Session) -> None:
        self.session = session
        self.heard: Counter[str] = Counter()
        self.states: dict[str, Counter[str]] = {}

    async def follow(self) -> None:
        async for event in await self.session.join("g"):
            if isinstance(event, isotone.View):
                for name in map(str, event.members):
                    self.states.setdefault(name, self.heard.copy())
            elif isinstance(event, isotone.Message):
                self.heard[str(event.sender)] += 1


async def send_on(session: isotone.Session, service: isotone.Service) -> None:
    while True:
        await session.send("g", b"x", service=service)
        await pause(0.008)


async def joined_among_sends(within: Cluster, stack: AsyncExitStack, service: isotone.Service) -> list[Member]:
    members: list[Member] = []
    tasks: list[asyncio.Task[None]] = []
    for place, daemon in enumerate([*HOMES, *(list(HOMES)[each % len(HOMES)] for each in range(JOINS))]):
        session = await stack.enter_async_context(isotone.connect(within.address(daemon), name=f"m{place}"))
        members.append(Member(session))
        tasks.append(asyncio.ensure_future(members[-1].follow()))
        await pause(0.05)
        if place < len(HOMES):
            tasks.append(asyncio.ensure_future(send_on(session, service)))
    await pause(0.3)
    for task in tasks[1 : 2 * len(HOMES) : 2]:
        task.cancel()
    await pause(0.5)
    for task in tasks:
        task.cancel()
    return members


@pytest.mark.parametrize("service", WEAK)
def test_a_joiner_misses_nothing_and_hears_nothing_twice(service: isotone.Service) -> None:
    async def program() -> None:
        async with (
            cluster(daemons=HOMES, seed=3, network=NETWORK) as within,
            AsyncExitStack() as stack,
        ):
            members = await joined_among_sends(within, stack, service)
            oldest = members[0]
            assert sum(oldest.heard.values()) > 30 * len(HOMES)
            for joiner in members[len(HOMES) :]:
                name = str(joiner.session.id)
                states = [each.states[name] for each in members if name in each.states and each is not joiner]
                state = oldest.states[name]
                since = joiner.heard
                assert state + since == oldest.heard, f"{name}: {state} and {since}, and not {oldest.heard}"
                assert len(states) > 1

    run(program)
