"""The example: each acknowledged line is in the table once, through kills of a server and of the job, and a cut."""

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

import pytest
from examples.log_collection import collect as collecting
from examples.log_collection.collect import collect
from examples.log_collection.table import ROWS, keep, lines
from pyspark.sql import SparkSession

from tests.integration.replica_cluster import ReplicaCluster, replica_cluster, run

ROOT = Path(__file__).parents[3]
WITHIN_S = 900.0  # of a machine that does much else
AT_ONCE = 20
SITES = {"north": "abc", "south": "cba"}
"""Whom a site asks first."""


def _line(site: str, number: int) -> str:
    return f'{site}.example - - "GET /page/{number} HTTP/1.1" 200'


class Sites:
    """Both of them, and what was acknowledged to each."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.servers = {site: ",".join(map(cluster.port, names)) for site, names in SITES.items()}
        self.acknowledged: dict[str, list[int]] = {site: [] for site in SITES}

    async def write(self, first: int) -> None:
        """Some more lines at each."""
        numbers = range(first, first + AT_ONCE)
        texts = {site: [_line(site, number) for number in numbers] for site in SITES}
        told = self.acknowledged
        await asyncio.gather(*(collect(at, self.servers[at], texts[at], told[at].append, first) for at in SITES))


@asynccontextmanager
async def _job(cluster: ReplicaCluster, servers: str, place: Path) -> AsyncIterator[None]:
    """The program that keeps the table, killed with its Java when it has begun to write."""
    command = [sys.executable, str(ROOT / "examples" / "log_collection" / "table.py"), servers, str(place)]
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


def test_every_acknowledged_line_is_there_once_in_one_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "WITHIN_S", 1.0)
    place = tmp_path / "table"

    async def main() -> None:
        async with replica_cluster(tmp_path / "servers") as cluster:
            sites = Sites(cluster)
            await sites.write(1)
            async with _job(cluster, sites.servers["north"], place):
                more = asyncio.create_task(sites.write(1 + AT_ONCE))
                await cluster.kill("b")
                await more
            cluster.start("b")
            await cluster.primary()
            await cluster.cut("ab", "c")
            await cluster.primary("a", "b")
            more = asyncio.create_task(sites.write(1 + 2 * AT_ONCE))
            north = sites.acknowledged["north"]
            await cluster.until(lambda: len(north) == 3 * AT_ONCE, "lines of the majority", WITHIN_S)
            assert len(sites.acknowledged["south"]) == 2 * AT_ONCE  # its server is alone
            await cluster.cut()
            await more
            await cluster.primary()
            job = await asyncio.to_thread(keep, spark, sites.servers["south"], place, availableNow=True)
            await asyncio.to_thread(job.awaitTermination)
            log = [json.loads(record) for record in await cluster.records("a")]
        found = lines(spark, place).orderBy("position").collect()
        for site, numbers in sites.acknowledged.items():
            mine = [row for row in found if row["site"] == site]
            assert [row["number"] for row in mine] == numbers == list(range(1, 3 * AT_ONCE + 1))
            assert [row["line"] for row in mine] == [_line(site, number) for number in numbers]
        assert all(log[row["position"] - 1]["line"] == row["line"] for row in found)
        assert len({row["position"] for row in found}) == len(found)

    (tmp_path / "servers").mkdir()
    run(main(), WITHIN_S)
