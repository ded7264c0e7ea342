"""Pruned content that is lost with its source, and a join that is owed more than one clearance can name."""

from __future__ import annotations

import asyncio

import isotone
import isotone.testing
from isotone.evs.ordering.pruning import OWED_MAX
from isotone.evs.stack import StackSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings

Told = list[bytes | str]
PRUNING = StackSettings(pruning=True)


async def passing(seconds: float) -> None:
    """Let virtual time pass."""
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, over.set_result, None)
    await over


async def follow(group: isotone.Group, told: Told) -> None:
    async for event in group:
        told.append(event.body if isinstance(event, isotone.Message) else type(event).__name__)


def test_who_lacks_content_does_not_deliver_what_is_behind_it_before_the_signal() -> None:
    """Members at s and y, a sender at x. What s sends is lost on its way to y; s delivers it and crashes."""
    network = NetworkSettings(wan=LinkSettings(latency_us=10_000, jitter_us=0))
    at_s: Told = []
    at_y: Told = []

    async def main() -> None:
        places = {"s": "S", "x": "X", "y": "Y"}
        async with (
            isotone.testing.cluster(daemons=places, seed=1, network=network, settings=PRUNING) as cluster,
            isotone.connect(cluster.address("x"), name="cx") as x,
            isotone.connect(cluster.address("y"), name="cy") as y,
        ):
            s = await isotone.connect(cluster.address("s"), name="cs").__aenter__()
            from_s, at = await s.join("g"), await y.join("g")
            readers = [asyncio.create_task(follow(from_s, at_s)), asyncio.create_task(follow(at, at_y))]
            await passing(2)
            cluster.cut("s", "y", one_way=True)
            await from_s.send(b"u", service=isotone.AGREED)
            await passing(0.04)
            await x.send("g", b"v", service=isotone.AGREED)
            await passing(0.25)
            cluster.crash("s")
            await passing(10)
            for reader in readers:
                reader.cancel()
            cluster.heal()

    isotone.testing.run(main)
    assert at_s[-2:] == [b"u", b"v"]
    assert at_y[-3:] == ["Transitional", b"v", "View"]


def test_a_join_behind_more_than_a_clearance_can_name() -> None:
    """Ten senders fill a wide-area link of 150 ms before the source hears of the join."""
    network = NetworkSettings(wan=LinkSettings(latency_us=150_000))
    told: Told = []

    async def sender(client: isotone.Client) -> None:
        for _ in range(200):
            await client.send("g", b"x")
            await passing(0.005)

    async def main() -> None:
        async with isotone.testing.cluster(
            daemons={"d1": "east", "d2": "west"}, seed=1, network=network, settings=PRUNING
        ) as cluster:
            await cluster.settled()
            near, far = cluster.address("d1"), cluster.address("d2")
            async with isotone.connect(near, name="m") as member, isotone.connect(far, name="j") as joiner:
                await member.join("g")
                await passing(1)
                clients = [await isotone.connect(near, name=f"s{each}").__aenter__() for each in range(10)]
                senders = [asyncio.create_task(sender(client)) for client in clients]
                await passing(0.6)
                group = await joiner.join("g")
                await asyncio.gather(*senders)
                reader = asyncio.create_task(follow(group, told))
                await passing(3)
                reader.cancel()

    isotone.testing.run(main)
    assert told.count(b"x") > OWED_MAX
