"""Ordinary clients through storms with everything in them: nothing hangs, nothing dies, and every promise is kept."""

from __future__ import annotations

import asyncio
import random

import isotone
from isotone.client import ClientError
from isotone.testing import Cluster, seeds
from tests.testing.virtual import pause

SERVICES = (isotone.RELIABLE, isotone.FIFO, isotone.CAUSAL, isotone.AGREED, isotone.SAFE)
SIZES = (1, 1_000, 50_000)
PATIENCE_S = 400.0


class Program:
    """Talks and listens until it is told to stop; looks for another daemon when its own is gone."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.home = cluster.daemons[number % len(cluster.daemons)]
        self.name = f"p{number}"
        self._addresses = [cluster.address(self.home), *cluster.addresses()]
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        try:
            async with isotone.connect(self._addresses, name=self.name) as me:
                group = await me.join("storm")
                listening = asyncio.create_task(self._listen(group))
                while not self._stop.is_set():
                    await self._talk(group)
                    await pause(random.uniform(0, 0.1))
                listening.cancel()
        except ClientError:
            pass  # no daemon, for too long

    async def _listen(self, group: isotone.Group) -> None:
        try:
            async for _ in group:
                pass
        except ClientError:
            pass

    async def _talk(self, group: isotone.Group) -> None:
        confirm = random.random() < 0.3
        service = isotone.SAFE if confirm else random.choice(SERVICES)
        try:
            async with asyncio.timeout(random.choice((0.05, 5.0))):
                await group.send(bytes(random.choice(SIZES)), service=service, confirm=confirm)
        except (ClientError, TimeoutError):
            pass


@seeds(8)
async def test_clients_through_storms(cluster: Cluster) -> None:
    programs = [Program(cluster, number) for number in range(4)]
    tasks = [cluster.launch(each.name, each.run(), beside=each.home) for each in programs]
    storm = cluster.storm(2.0, faults=("partition", "cut", "crash", "pause", "kill", "disk", "cascade"))
    await pause(random.uniform(0, 1))
    cluster.kill_client("p0")
    await pause(random.uniform(0, 1))
    tasks.append(cluster.launch("p0", programs[0].run(), beside="d1"))
    cluster.cut("p1", programs[1].home)
    await storm
    cluster.heal()
    await cluster.settled()
    for each in programs:
        each.stop()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*tasks[1:])
    await cluster.settled(quiet=True)
    assert not cluster.check().violations
