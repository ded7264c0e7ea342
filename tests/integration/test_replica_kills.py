"""SIGKILL of all servers at random moments under load: nothing acknowledged is lost, and there is one order.

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


async def write(cluster: ReplicaCluster, server: str, label: str, acknowledged: Acknowledged) -> None:
    """Append until the server is gone."""
    log = cluster.client(server)
    log.connect_within_s = 2.0
    number = 0
    try:
        while True:
            number += 1
            record = f"{label}.{number}".encode().ljust(40, b".")
            acknowledged.take(record, await log.append(record, within_s=ROUND_S))
    except IsotoneError:
        await log.close()


async def one_round(cluster: ReplicaCluster, choice: Choice, number: int, acknowledged: Acknowledged) -> None:
    """Load from all sides, until so much is acknowledged; then all servers die at once."""
    enough = acknowledged.count + choice.between(0, 150)
    writers = [
        asyncio.create_task(write(cluster, cluster.names[i % len(cluster.names)], f"{number}-{i}", acknowledged))
        for i in range(WRITERS)
    ]
    while acknowledged.count < enough:
        await asyncio.sleep(0.001)
    victims = list(cluster.names)
    choice.shuffle(victims)
    for name in victims:
        cluster.signal(name, signal.SIGKILL)
    await asyncio.gather(*writers)
    for name in victims:
        assert await cluster.ended(name) == -signal.SIGKILL


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
        choice = Choice("kills")
        order: list[bytes] = []
        async with replica_cluster(tmp_path, start=False) as cluster:
            for number in range(ROUNDS):
                cluster.start()
                await cluster.primary()
                await check(cluster, order, acknowledged)
                await one_round(cluster, choice, number, acknowledged)
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
