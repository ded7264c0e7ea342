"""SIGKILL of all servers at random moments under load: nothing acknowledged is lost, and there is one order.

Half of the rounds wait for no primary component: a third of all kill at any moment from the start of the servers on, a
sixth while they make one.

``ISOTONE_KILLS=500 pytest tests/integration/test_replica_kills.py`` makes a long run of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from isotone.core.choice import Choice
from isotone.core.errors import IsotoneError
from tests.integration.cluster import WITHIN_S
from tests.integration.replica_cluster import ReplicaCluster, replica_cluster, run

ROUNDS = int(os.environ.get("ISOTONE_KILLS", "10"))
WRITERS = 6
ROUND_S = 60.0
CONNECT_S = 0.2
MOMENTS = (("start", 2), ("meeting", 1), ("load", 3))
PAUSE_MS = {"start": 1_500, "meeting": 30, "load": 5}
"""So long at most after a moment all are killed: after they were started; after one says that all are here, when they
exchange states, attempt and commit; after so many records are acknowledged.
"""


class Acknowledged:
    """What clients were told, in a file of its own that no server knows."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="ascii")
        self.count = 0
        self.unchecked: dict[bytes, int] = {}

    def take(self, record: bytes, position: int) -> None:
        self._file.write(f"{position} {record.decode()}\n")
        self.count += 1
        self.unchecked[record] = position

    def close(self) -> None:
        self._file.close()


async def write(
    cluster: ReplicaCluster, server: str, label: str, acknowledged: Acknowledged, killed: asyncio.Event
) -> None:
    """Append from the moment that the server takes it until all are killed; nothing is sent twice."""
    number = 0
    while not killed.is_set():
        log = cluster.client(server)
        log.patience.connect_within_us = int(CONNECT_S * 1_000_000)
        try:
            while True:
                number += 1
                record = f"{label}.{number}".encode().ljust(40, b".")
                acknowledged.take(record, await log.append(record, within_s=ROUND_S))
        except IsotoneError:
            await log.close()


async def one_round(
    cluster: ReplicaCluster, choice: Choice, number: int, acknowledged: Acknowledged, moment: str
) -> None:
    """Load from all sides as soon as it is taken; some milliseconds after the moment all servers die at once."""
    killed = asyncio.Event()
    enough = acknowledged.count + choice.between(0, 150)
    witness = choice.pick(cluster.names)
    pause_ms = choice.between(0, PAUSE_MS[moment])
    servers = [cluster.names[i % len(cluster.names)] for i in range(WRITERS)]
    writers = [
        asyncio.create_task(write(cluster, server, f"{number}-{i}", acknowledged, killed))
        for i, server in enumerate(servers)
    ]
    while moment == "load" and acknowledged.count < enough:
        await asyncio.sleep(0.001)
    while moment == "meeting" and (await cluster.status(witness)).get("here") != sorted(cluster.names):
        await asyncio.sleep(0.001)
    await asyncio.sleep(pause_ms / 1000)
    victims = list(cluster.names)
    choice.shuffle(victims)
    for name in victims:
        cluster.signal(name, signal.SIGKILL)
    killed.set()
    await asyncio.gather(*writers)
    for name in victims:
        assert await cluster.ended(name) == -signal.SIGKILL, cluster.log(name)


async def check(cluster: ReplicaCluster, order: list[bytes], acknowledged: Acknowledged) -> None:
    """All servers go on with one and the same order behind what was checked before, and nothing acknowledged misses."""
    news: list[list[bytes]] = []
    for name in cluster.names:
        async with cluster.client(name) as log:
            end = (await log.status())["green_position"]
            news.append([entry.record for entry in await log.read(len(order) + 1, end)])
    common = min(map(len, news))
    assert news[0][:common] == news[1][:common] == news[2][:common]
    order += news[0][:common]
    lost = {record: at for record, at in acknowledged.unchecked.items() if order[at - 1 : at] != [record]}
    assert not lost
    acknowledged.unchecked.clear()


def test_the_others_go_on_without_a_server_that_was_killed_beside_its_daemon(tmp_path: Path) -> None:
    """Its daemon lives and could keep its session for an hour: nobody may wait for that."""

    async def main() -> None:
        async with replica_cluster(tmp_path, replica='attach = "client"', start=False) as cluster:
            cluster.extra = "[timeouts]\nclient_resume_ms = 3600000"
            cluster.start_daemons()
            cluster.start()
            await cluster.primary()
            async with cluster.client("a") as log:
                assert await log.append(b"all") == 1
                cluster.signal("b", signal.SIGKILL)
                assert await cluster.ended("b") == -signal.SIGKILL
                assert await log.append(b"without b", within_s=WITHIN_S) == 2
            await cluster.primary("a", "c")

    run(main())


def test_nothing_acknowledged_is_lost_when_all_are_killed(tmp_path: Path) -> None:
    async def main() -> None:
        acknowledged = Acknowledged(tmp_path / "acknowledged")
        choice = Choice("kills 1003")  # its first ten rounds have moments of every kind, early and late
        order: list[bytes] = []
        async with replica_cluster(tmp_path, start=False) as cluster:
            for number in range(ROUNDS):
                moment = choice.weighted(MOMENTS)
                cluster.start()
                if moment == "load":
                    await cluster.primary()
                    await check(cluster, order, acknowledged)
                await one_round(cluster, choice, number, acknowledged, moment)
            cluster.start()
            await cluster.primary()
            async with cluster.client("a") as log:
                end = await log.append(b"the end")
            for name in cluster.names:
                async with cluster.client(name) as log:
                    await log.wait_for(end)
            await check(cluster, order, acknowledged)
            assert len(set(order)) == len(order) == end, "no record stands twice, and positions are dense"
            assert acknowledged.count > ROUNDS
        acknowledged.close()

    run(main(), within_s=ROUND_S * (ROUNDS + 2))
