"""The example: each acknowledged line is in the table once, through kills of a server, of a collector and of the job,
and through a cut between the sites.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from examples.log_collection.collect import Mark
from examples.log_collection.table import ROWS, keep, lines
from pyspark.sql import SparkSession

from tests.integration.replica_cluster import ReplicaCluster, run

EXAMPLE = Path(__file__).parents[3] / "examples" / "log_collection"
WITHIN_S = 900.0  # of a machine that does much else
AT_ONCE = 20
SITES = {"north": "ab", "south": "c"}
"""Each has servers of its own, and its collector asks these."""


def _line(site: str, number: int) -> str:
    return f'{site}.example - - "GET /page/{number} HTTP/1.1" 200'


class TwoSites(ReplicaCluster):
    """Servers on two sites."""

    def text(self) -> str:
        text = super().text()
        for site, names in SITES.items():
            for name in names:
                daemon = f'[[daemon]]\nname = "{name}"\n'
                assert daemon in text
                text = text.replace(daemon, f'{daemon}site = "{site}"\n')
        return "".join(f'[[site]]\nname = "{site}"\n' for site in SITES) + text


class Collector:
    """The program of a site, and its file."""

    def __init__(self, cluster: ReplicaCluster, site: str) -> None:
        self.site, self.file = site, cluster.directory / f"{site}.access.log"
        self.file.touch()
        self._command = [sys.executable, str(EXAMPLE / "collect.py"), site]
        self._command += [",".join(map(cluster.port, SITES[site])), str(self.file)]
        self._written = 0
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        with (self.file.parent / f"{self.site}.collector").open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def write(self) -> None:
        """Some more lines."""
        numbers = range(self._written + 1, self._written + AT_ONCE + 1)
        self._written += AT_ONCE
        with self.file.open("a") as file:
            file.write("".join(f"{_line(self.site, number)}\n" for number in numbers))

    @property
    def acknowledged(self) -> int:
        assert self.process.poll() is None, (self.file.parent / f"{self.site}.collector").read_text()
        return Mark.read(self.file).number


@asynccontextmanager
async def _cluster(directory: Path) -> AsyncIterator[tuple[ReplicaCluster, Collector, Collector]]:
    """With a collector on each site."""
    directory.mkdir()
    cluster = TwoSites(directory)
    north, south = (Collector(cluster, site) for site in SITES)
    try:
        cluster.start()
        await cluster.primary()
        for collector in (north, south):
            collector.write()
            collector.start()
        yield cluster, north, south
    finally:
        for collector in (north, south):
            if hasattr(collector, "process"):
                collector.kill()
        cluster.end()


@asynccontextmanager
async def _job(cluster: ReplicaCluster, servers: str, place: Path) -> AsyncIterator[None]:
    """The program that keeps the table, killed with its Java when it has begun to write."""
    command = [sys.executable, str(EXAMPLE / "table.py"), servers, str(place)]
    with (place.parent / "job.log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield

        def has_begun() -> bool:
            assert job.poll() is None, (place.parent / "job.log").read_text()
            return bool(list((place / ROWS).glob("**/part-*")))

        await cluster.until(has_begun, "rows of the job", WITHIN_S)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_every_acknowledged_line_is_there_once_in_one_order(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"

    async def main() -> None:
        async with _cluster(tmp_path / "servers") as (cluster, north, south):

            async def acknowledged(count: int, *collectors: Collector) -> None:
                what = f"{count} lines acknowledged"
                await cluster.until(lambda: all(each.acknowledged >= count for each in collectors), what, WITHIN_S)

            servers = ",".join(map(cluster.port, "cba"))
            async with _job(cluster, servers, place):
                await acknowledged(AT_ONCE // 2, north, south)
                await cluster.kill("b")
                north.kill()
                before = Mark.read(north.file).number
                north.write()
                south.write()
                north.start()
                await acknowledged(2 * AT_ONCE, north, south)
                assert before >= AT_ONCE // 2, "the new one went on behind the killed one"
            cluster.start("b")
            await cluster.primary()
            job = await asyncio.to_thread(keep, spark, servers, place, processingTime="0 seconds")
            await cluster.cut("ab", "c")
            await cluster.primary("a", "b")
            north.write()
            south.write()
            await acknowledged(3 * AT_ONCE, north)
            assert south.acknowledged == 2 * AT_ONCE  # its server is alone
            await asyncio.to_thread(job.processAllAvailable)  # through the cut
            shown = {row["site"]: row["count"] for row in lines(spark, place).groupBy("site").count().collect()}
            assert shown == {"north": 3 * AT_ONCE, "south": 2 * AT_ONCE}
            await cluster.cut()
            await acknowledged(3 * AT_ONCE, south)
            await cluster.primary()
            await asyncio.to_thread(job.processAllAvailable)
            job.stop()
            log = [json.loads(record) for record in await cluster.records("a")]
        found = lines(spark, place).orderBy("position").collect()
        for collector in (north, south):
            site = collector.site
            mine = [(row["number"], row["line"]) for row in found if row["site"] == site]
            assert mine == [(number, _line(site, number)) for number in range(1, 3 * AT_ONCE + 1)]
        assert all(log[row["position"] - 1]["line"] == row["line"] for row in found)
        assert len({row["position"] for row in found}) == len(found) == 2 * 3 * AT_ONCE

    run(main(), WITHIN_S)
