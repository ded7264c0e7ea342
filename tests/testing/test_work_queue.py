"""The work queue of the examples, through storms: what was acknowledged is done, and everybody knows the result."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from examples.work_queue import Worker, shout

import isotone
from isotone.testing import Cluster, seeds

TASKS = 12


async def add(worker: Worker, text: str) -> None:
    """Until it is acknowledged; one that was left open may be there twice."""
    while True:
        with suppress(isotone.ClientError):
            return await worker.add(text)
        await asyncio.sleep(0)


@seeds(10)
async def test_every_task_is_done(cluster: Cluster) -> None:
    sessions = [await isotone.connect(cluster.address(name), name=f"w{name}") for name in ("d1", "d2", "d3")]
    workers = [Worker(await session.join("work"), shout) for session in sessions]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    storm = cluster.storm(duration=3.0)
    for number in range(TASKS):
        await add(workers[number % 3], f"task {number}")
    await storm
    await add(workers[0], "the last one")
    wanted = {f"TASK {number}" for number in range(TASKS)} | {"THE LAST ONE"}
    for worker in workers:
        async with asyncio.timeout(600), worker.changed:
            await worker.changed.wait_for(lambda worker=worker: wanted <= set(worker.results.values()))
        assert set(worker.results.values()) == wanted
    for session in sessions:
        await session.close()
    await asyncio.gather(*running, return_exceptions=True)
