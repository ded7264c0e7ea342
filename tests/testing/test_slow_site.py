"""A slow link between sites, saturated by others: what does not cross it is as fast as on an idle day."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from statistics import median

import pytest

import isotone
from isotone.evs.stack import StackSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.testing import Cluster, cluster, run
from tests.testing.virtual import pause

WAN = LinkSettings(latency_us=30_000, jitter_us=0, bandwidth_bytes_per_second=187_500)
NETWORK = NetworkSettings(lan=LinkSettings(latency_us=200, jitter_us=0), wan=WAN)
PROBES = 7
DEFAULTS = StackSettings()


async def latencies(within: Cluster, sender: isotone.Session, group: isotone.Group, service: isotone.Service) -> float:
    """The median of a few messages, one after the other, as the only member of the group hears them."""
    found = []
    for _ in range(PROBES):
        sent = within.now
        await sender.send(group.name, b"probe", service=service)
        async for event in group:
            if isinstance(event, isotone.Message):
                found.append(within.now - sent)
                break
        await pause(0.1)
    return median(found)


async def join_s(within: Cluster, client: isotone.Session) -> float:
    began = within.now
    await client.join(f"{client.id.name}-alone")
    return within.now - began


async def flood(sender: isotone.Session, size: int) -> None:
    while True:
        await sender.send("far", bytes(size), service=isotone.FIFO)


async def drained(group: isotone.Group) -> None:
    async for _ in group:
        pass


@pytest.mark.parametrize(("home", "size", "count"), [("a1", 60_000, 3), ("a2", 60_000, 3), ("a1", 20_000, 12)])
def test_local_traffic_does_not_wait_for_a_slow_site(home: str, size: int, count: int) -> None:
    async def program() -> None:
        daemons = {"a1": "A", "a2": "A", "d": "D"}
        async with (
            cluster(daemons=daemons, seed=1, network=NETWORK, check=False, settings=DEFAULTS) as within,
            AsyncExitStack() as stack,
        ):

            async def enter(daemon: str, name: str) -> isotone.Session:
                return await stack.enter_async_context(isotone.connect(within.address(daemon), name=name))

            far = await (await enter("d", "far")).join("far")
            probe, near = await enter(home, "probe"), await (await enter("a2", "near")).join("near")
            await pause(2)
            tasks = [asyncio.create_task(drained(far))]
            idle = [await latencies(within, probe, near, each) for each in (isotone.FIFO, isotone.AGREED)]
            tasks += [asyncio.create_task(flood(await enter("a1", f"f{place}"), size)) for place in range(count)]
            await pause(1.5)
            busy = [await latencies(within, probe, near, each) for each in (isotone.FIFO, isotone.AGREED)]
            busy_join = await join_s(within, await enter(home, "late"))
            for task in tasks:
                task.cancel()
            assert busy_join < 1, "a join is told to all sites: it waits for what is on the link, not for what is held"
            assert busy[0] <= 2 * idle[0] and busy[1] <= 2 * idle[1], (idle, busy)

    run(program)
