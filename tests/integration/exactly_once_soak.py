"""Exactly once at length: ``python -m tests.integration.exactly_once_soak --records 1000000 --out exactly-once.txt``.

A producer numbers records and appends them to a log of three servers, which archive it. A driver of Spark runs two
streams: the log into Parquet files, and the log, with a number drawn for each row, through the sink into a second log
of three servers. The driver is killed at random moments, and so are servers of both logs, those that write the
archives among them. At the end every position of the first log must be in the files once, with its record, and among
the rows of the sink once, in the one order.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import click

from isotone.bench.measure import this_machine
from isotone.core.choice import Choice
from isotone.core.errors import IsotoneError
from isotone.core.ordered_log import LogEntry
from isotone.host.log_client import RemoteLog
from isotone.replicated.archive.store import Archive
from tests.integration.replica_cluster import ReplicaCluster, replica_cluster

ROOT = Path(__file__).parents[2]
QUERY = "copy"
SERVERS = "abc"  # a writes the archives, or the next one while it is away
BATCH_MAX = 20_000
AT_ONCE = 1_000
APPEND_WITHIN_S = 20.0
STARVED = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start: on a machine that does much else a driver may end by that."""
BEGUN_WITHIN_S, END_WITHIN_S = 600.0, 1_800.0
EARLY_MS, LATER_MS, SERVER_AWAY_MS = 15_000, 4_000, 3_000
"""So long at most a driver lives from its start, where it is killed early; from its first batch on, where not; and so
long a server is away that was killed."""


# --- the driver, a process of its own -------------------------------------------------------------------------------


def run_driver(place: Path, source: dict[str, str], replica: str, *, to_the_end: bool) -> None:
    """Both streams, until killed or to the end that there is now."""
    from pyspark.sql import functions as F

    from isotone.pipeline.log.source import register
    from isotone.pipeline.session import session

    spark = session("local[2]", is_small=True)
    register(spark)
    trigger: dict[str, Any] = {"availableNow": True} if to_the_end else {"processingTime": "0 seconds"}
    log = spark.readStream.format("isotone").options(**source, maxRecordsPerBatch=str(BATCH_MAX)).load()
    files = log.select("position", "record").writeStream.format("parquet").option("path", str(place / "rows"))
    files = files.option("checkpointLocation", str(place / "files"))
    drawn = F.concat(F.col("record"), F.lit(b"|"), F.rand().cast("string").cast("binary"))
    sink = log.select(drawn.alias("record")).writeStream.format("isotone").options(replica=replica, query=QUERY)
    sink = sink.option("checkpointLocation", str(place / "sink"))
    queries = [each.trigger(**trigger).start() for each in (files, sink)]
    for query in queries:
        query.awaitTermination()


class Driver:
    """Its process, with its Java."""

    def __init__(self, place: Path, source: dict[str, str], replica: str, *, to_the_end: bool = False) -> None:
        self._place = place
        told = json.dumps({"place": str(place), "source": source, "replica": replica, "to_the_end": to_the_end})
        self._committed = self._batches()
        with (place / "driver.log").open("ab") as log:
            self._said_before = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.exactly_once_soak", "--drive", told],
                cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _batches(self) -> set[Path]:
        return {path for kind in ("files", "sink") for path in (self._place / kind / "commits").glob("[0-9]*")}

    async def begun(self) -> bool:
        """Until a batch is committed that was not; false if it is starved."""
        async with asyncio.timeout(BEGUN_WITHIN_S):
            while self._batches() <= self._committed:
                if self.process.poll() is not None:
                    assert STARVED in self.tail(), self.tail()
                    return False
                await asyncio.sleep(0.05)
        return True

    async def ended(self) -> bool:
        """By itself, at its end; false if it is starved."""
        code = await asyncio.to_thread(self.process.wait, END_WITHIN_S)
        assert code == 0 or STARVED in self.tail(), self.tail()
        return code == 0

    def kill(self) -> None:
        """At once, with its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def tail(self) -> str:
        """What it said last."""
        with (self._place / "driver.log").open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")[-4000:]


# --- the run --------------------------------------------------------------------------------------------------------


class Soak:
    """One run: the counts of what was done to it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.choice = place, Choice(f"exactly once/{seed}")
        self.produced = self.again = self.starved = 0
        self.over = False
        self.kills: Counter[str] = Counter()
        self.archive = place / "archive"

    async def produce(self, cluster: ReplicaCluster, count: int) -> None:
        """The next numbers. What is *maybe* is sent again, and may then stand in the log twice."""
        numbers = range(self.produced + 1, self.produced + count + 1)
        async with RemoteLog([cluster.port(name) for name in SERVERS], name="producer") as log:
            for first in range(0, count, AT_ONCE):
                open_numbers: Sequence[int] = numbers[first : first + AT_ONCE]
                while open_numbers:
                    answers = await asyncio.gather(
                        *(log.append(b"%d" % number, within_s=APPEND_WITHIN_S) for number in open_numbers),
                        return_exceptions=True,
                    )
                    for answer in answers:
                        if isinstance(answer, BaseException) and not isinstance(answer, IsotoneError):
                            raise answer
                    failed = [isinstance(answer, IsotoneError) for answer in answers]
                    open_numbers = [number for number, has_failed in zip(open_numbers, failed) if has_failed]
                    self.again += len(open_numbers)
        self.produced += count

    async def kill_servers(self, clusters: Sequence[ReplicaCluster]) -> None:
        """One after the other, until it is over; a cluster has its quorum, for who was killed comes back first."""
        while not self.over:
            await asyncio.sleep(self.choice.between(0, 8_000) / 1000)
            cluster = self.choice.pick(clusters)
            name = "a" if self.choice.chance(0.5) else self.choice.pick("bc")
            await cluster.kill(name)
            await asyncio.sleep(self.choice.between(0, SERVER_AWAY_MS) / 1000)
            cluster.start(name)
            self.kills["writer of an archive" if name == "a" else "another server"] += 1
            await cluster.primary(within_s=BEGUN_WITHIN_S)

    async def kill_driver(self, source: dict[str, str], replica: str) -> None:
        """It lives until a random moment, most often after its first batch."""
        is_early = self.choice.chance(0.2)
        after_s = self.choice.between(0, EARLY_MS if is_early else LATER_MS) / 1000
        while True:
            driver = Driver(self.place, source, replica)
            try:
                if is_early or await driver.begun():
                    await asyncio.sleep(after_s)
                    break
                self.starved += 1
            finally:
                driver.kill()
        self.kills["driver"] += 1

    async def run(self, wanted: int, kills: int, minutes: float) -> list[str]:
        """The lines of the report."""
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            clusters = []
            for name, place in (("first", self.archive), ("second", self.place / "second-archive")):
                (self.place / name).mkdir()
                settings = f'archive = "{place}"\n'
                clusters.append(
                    await stack.enter_async_context(replica_cluster(self.place / name, SERVERS, replica=settings))
                )
            first, second = clusters
            self.archive.mkdir(exist_ok=True)
            source = {"archive": str(self.archive), "replica": ",".join(map(first.port, SERVERS))}
            replica = ",".join(map(second.port, SERVERS))
            killing = asyncio.create_task(self.kill_servers(clusters))
            for number in range(kills):
                if time.monotonic() - began > 60 * minutes:
                    break
                share = wanted // kills + (number < wanted % kills)
                await asyncio.gather(self.produce(first, share), self.kill_driver(source, replica))
                click.echo(f"  {self.produced:,} records, {dict(self.kills)}", err=True)
                if killing.done():
                    killing.result()
            self.over = True
            await killing
            while not await Driver(self.place, source, replica, to_the_end=True).ended():
                self.starved += 1
            log = await read_log(first)
            wrote = time.monotonic() - began
            told = await asyncio.to_thread(self.judge, log, self.produced, source, replica)
            if self.produced < wanted:
                told.append(f"{minutes:g} minutes were over before {wanted:,} records and {kills} kills were reached")
            return [*told, f"{wrote:,.0f} s until the last driver had ended"]

    def judge(self, log: list[LogEntry], records: int, source: dict[str, str], replica: str) -> list[str]:
        """Compare the files, and the rows of the sink, with the log."""
        from pyspark.sql import functions as F

        from isotone.pipeline.log.sink import committed_rows
        from isotone.pipeline.log.source import register
        from isotone.pipeline.session import session

        numbers = Counter(int(entry.record) for entry in log)
        assert numbers.keys() == set(range(1, records + 1)), "a record that was acknowledged is not in the log"
        expected = [(entry.position, entry.record) for entry in log]
        assert [position for position, _ in expected] == list(range(1, len(log) + 1))
        spark = session("local[2]", is_small=True)
        register(spark)
        files = spark.read.parquet(str(self.place / "rows")).orderBy("position").toArrow()
        found = list(zip(files.column("position").to_pylist(), files.column("record").to_pylist()))
        assert found == expected, first_difference(found, expected)
        tail = spark.read.format("isotone").option("replica", replica).load()
        rows = committed_rows(tail, QUERY).orderBy("position", "place").select("row").toArrow().column(0)
        sunk = [bytes(row).rpartition(b"|")[0] for row in rows.to_pylist()]
        wanted = [record for _, record in expected]
        assert sunk == wanted, first_difference(sunk, wanted)
        staged = tail.select(F.count("*").alias("records")).collect()[0]["records"]
        archived = Archive(self.archive)
        problems = archived.verify()
        assert not problems, problems
        spark.stop()
        listing = archived.listing()
        return [
            f"{records:,} records produced, each acknowledged; {self.again:,} sent again after *maybe*, of which "
            f"{len(log) - records:,} stand in the log twice: its end is position {len(log):,}",
            f"kills with SIGKILL: {', '.join(f'{count} of the {who}' for who, count in sorted(self.kills.items()))}; "
            f"drivers that ended by themselves, since Spark gives Python ten seconds to start: {self.starved}",
            f"archive: positions 1 to {listing.end:,} in {len(listing.segments)} segments, each read and whole; "
            f"{len(listing.unfinished)} unfinished files left",
            f"files: {len(found):,} rows, positions 1 to {len(found):,}: no gap, no repetition, each with its record",
            f"sink: {len(sunk):,} rows that count, from {staged:,} records of the second log: no gap, no repetition, "
            "in the order of the first",
        ]


async def read_log(cluster: ReplicaCluster) -> list[LogEntry]:
    """All of it, from a server."""
    async with RemoteLog([cluster.port(name) for name in SERVERS]) as log:
        return await log.read(1, await log.end())


def first_difference(found: Sequence[object], expected: Sequence[object]) -> str:
    """For the message of a failure."""
    at = next(
        (at for at, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), min(len(found), len(expected))
    )
    return (
        f"{len(found)} instead of {len(expected)}; place {at}: {found[at : at + 3]} instead of {expected[at : at + 3]}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("--kills", type=click.IntRange(min=1), default=20, show_default=True, help="Of the driver.")
@click.option("--minutes", type=float, default=60.0, show_default=True, help="After so long nothing more is begun.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the moments.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here too.")
@click.option("--drive", hidden=True, default="")
def soak(*, records: int, kills: int, minutes: float, seed: int, out: Path | None, drive: str) -> None:
    """Kill drivers and servers at random moments, and compare what came of the log with the log."""
    if drive:
        given = json.loads(drive)
        run_driver(Path(given.pop("place")), **given)
        return
    with tempfile.TemporaryDirectory(prefix="isotone-soak-") as directory:
        told = asyncio.run(Soak(Path(directory), seed).run(records, kills, minutes))
    report = "\n".join([*told, ""])
    click.echo(report, nl=False)
    if out is not None:
        command = " ".join(["python -m tests.integration.exactly_once_soak", *sys.argv[1:]])
        machine = this_machine()
        head = f"# {command}\n# commit {machine.commit}; {machine.cores} cores, {machine.system}, {machine.python}\n\n"
        out.write_text(head + report, encoding="utf-8")


if __name__ == "__main__":
    soak()
