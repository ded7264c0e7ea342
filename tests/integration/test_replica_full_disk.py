"""The kernel refuses to let a server's log grow: the server ends and says so, and loses nothing."""

from __future__ import annotations

import resource
from pathlib import Path

from tests.integration.cluster import WITHIN_S
from tests.integration.replica_cluster import replica_cluster, run

DISK_BYTES = 96 * 1024


def test_a_server_without_room_ends_and_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with replica_cluster(tmp_path) as cluster:
            process = cluster.daemons["c"].process
            assert process is not None
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
            async with cluster.client("a") as log:
                for number in range(20):
                    await log.append(b"%d" % number + b"x" * 8192, within_s=WITHIN_S)
                assert await cluster.ended("c") == 3
                assert "the disk is full" in cluster.log("c") and "make room and start again" in cluster.log("c")
                cluster.start("c")
                await cluster.primary()
                end = await log.append(b"all together")
            async with cluster.client("c") as log:
                await log.wait_for(end)
            assert await cluster.records("c") == await cluster.records("a")

    run(main())
