"""What is asked of a counter: three replicas count through a storm, and nothing that was confirmed is lost."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

from examples.replicated_counter.counter import Counter

import isotone
from isotone.testing import Cluster

STORM_S = 1.5
PAUSE_S = 0.1
PATIENCE_S = 20.0


async def count_through_a_storm(kind: type[Counter], cluster: Cluster) -> list[str]:
    """Play it, and return the increments that were confirmed."""
    confirmed: list[str] = []

    async def keep_counting(counter: Counter) -> None:
        while True:
            confirmed.append(await counter.increment())
            await asyncio.sleep(random.uniform(0, PAUSE_S))

    counters: list[Counter] = []
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        for number, daemon in enumerate(cluster.daemons, start=1):
            me = await stack.enter_async_context(isotone.connect(cluster.address(daemon), name=f"r{number}"))
            counters.append(kind(await me.join("counter"), replicas=len(cluster.daemons)))
        following = [tasks.create_task(counter.run()) for counter in counters]
        counting = [tasks.create_task(keep_counting(counter)) for counter in counters]
        await cluster.storm(STORM_S, faults=("partition", "cut", "pause"))
        for task in counting:
            task.cancel()
        await cluster.settled()
        async with asyncio.timeout(PATIENCE_S):
            confirmed += await asyncio.gather(*(counter.increment() for counter in counters))
            while any(counter.operations != counters[0].operations for counter in counters):
                await asyncio.sleep(0.01)
        for task in following:
            task.cancel()
    lost = sorted(set(confirmed) - counters[0].operations)
    assert not lost, f"confirmed, and lost: {', '.join(lost)}"
    return confirmed
