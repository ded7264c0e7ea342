"""Servers as processes keep an archive; the one that writes is killed, and the next one goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from isotone.host.log_client import RemoteLog
from isotone.replicated.archive.segments import SEGMENT_RECORDS_MAX, entries_of
from isotone.replicated.archive.store import Archive
from tests.integration.replica_cluster import ReplicaCluster, replica_cluster, run

LEFT = b"half a file of a writer that was killed"


async def append(cluster: ReplicaCluster, count: int, *names: str) -> None:
    async with cluster.client(*names) as log:
        await asyncio.gather(*(log.append(b"record %d" % number) for number in range(count)))


def test_the_writer_is_killed_and_the_next_one_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "archive"

    async def main() -> None:
        async with replica_cluster(tmp_path, replica=f'archive = "{place}"') as cluster:
            archive = Archive(place)
            await append(cluster, SEGMENT_RECORDS_MAX + 1, "b")
            await cluster.until(lambda: len(archive.listing().segments) == 1, "a writes a segment")
            await append(cluster, SEGMENT_RECORDS_MAX // 2, "c")
            await cluster.kill("a")
            (segment,) = archive.listing().segments
            (place / f".{segment.name}.0123").write_bytes(LEFT)
            await cluster.primary("b", "c")
            await append(cluster, SEGMENT_RECORDS_MAX, "b", "c")
            await cluster.until(lambda: len(archive.listing().segments) == 2, "b goes on")
            cluster.start("a")
            await cluster.primary()
            await append(cluster, SEGMENT_RECORDS_MAX // 2, "a")
            end = 3 * SEGMENT_RECORDS_MAX
            await cluster.until(lambda: archive.listing().end == end, "a goes on again")
            for name in cluster.names:
                await cluster.until_status(name, lambda status: status["archived_position"] == end)
                assert (await cluster.status(name))["archive"] == ""
            assert (archive.verify(), archive.listing().unfinished) == ([], ())
            found = [each for part in archive.listing().segments for each in entries_of(archive.read(part))]
            async with RemoteLog(cluster.port("c")) as log:
                assert found == await log.read(1, end)

    run(main())
