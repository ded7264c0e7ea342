"""The disk of a trace is full: the daemon goes on, says so, and what was lost is not judged."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isotone.trace.events import Gap, Truncated
from tests.integration.cluster import PATIENT, RealCluster, judged, real_cluster, run
from tests.integration.people import assert_nothing_acknowledged_is_lost, person

DISK_BYTES = 128 * 1024


@contextmanager
def small_disk(directory: Path) -> Iterator[bool]:
    """A file system of its own for this directory, where we may mount one."""
    directory.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    is_mounted = os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(directory)], check=True)


def limit_files(cluster: RealCluster, name: str) -> None:
    """Else no file of this process grows beyond that size."""
    process = cluster.daemons[name].process
    assert process is not None
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))


def test_a_full_disk_costs_rows_and_nothing_else(tmp_path: Path) -> None:
    async def main(is_mounted: bool) -> None:
        async with real_cluster(tmp_path, {"d1": "s1", "d2": "s1"}, extra=PATIENT) as cluster:
            if not is_mounted:
                limit_files(cluster, "d1")
            people = ada, ben = [await person("ada", cluster.address("d1")), await person("ben", cluster.address("d2"))]
            await asyncio.gather(ada.sees("ada", "ben"), ben.sees("ada", "ben"))
            views = len(ada.views), len(ben.views)
            for each in people:
                each.talk()
            failed = lambda: bool(cluster.admin("d1").get("/status")["trace"]["failed"])  # noqa: E731
            await cluster.until(failed, "the disk is full")
            said = len(ada.acknowledged)
            await ada.until(lambda: len(ada.acknowledged) > said + 5, "it still confirms what is sent")
            await asyncio.gather(*(each.silence() for each in people))
            last = [each.acknowledged[-1] for each in people]
            await asyncio.gather(*(each.hears(*last) for each in people))
            assert cluster.members("d1") == ("d1", "d2")
            assert not cluster.admin("d2").get("/status")["trace"]["failed"]
            assert (len(ada.views), len(ben.views)) == views, "nobody noticed"
            assert assert_nothing_acknowledged_is_lost(people) > 10
            for each in people:
                await each.close()
            for name in cluster.names:
                await cluster.stop(name)
            rows = cluster.rows()
            assert {row.node for row in rows if isinstance(row.entry, Gap | Truncated)} == {"d1"}
            assert "not_judged" in judged(rows).values()

    with small_disk(tmp_path / "trace" / "d1") as is_mounted:
        run(main(is_mounted))
