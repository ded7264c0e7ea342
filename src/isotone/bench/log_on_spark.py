"""``python -m isotone.bench.log_on_spark``: the ordered log on Spark, and what reading it costs voting servers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import click
from rich.console import Console

from isotone.bench.measure import Figure, print_figures, this_machine
from isotone.bench.replica_systems import SERVERS, Isotone
from isotone.core.errors import MachineError
from isotone.core.ordered_log import LogEntry
from isotone.host.log_client import RemoteLog
from isotone.replicated.archive import segments
from isotone.replicated.archive.store import Archive

WIDTH = 200
RECORD_BYTES = 100
AT_ONCE = 4_096
PAUSE_S = 0.5
LEARNER = "d"
LEARNED_WITHIN_S = 600.0
Say = Callable[[str], None]


class Bench:
    """One measurement after the other, in one Spark session."""

    def __init__(self, directory: Path, master: str, say: Say) -> None:
        from isotone.pipeline.log.source import register
        from isotone.pipeline.session import session

        self._directory, self._say = directory, say
        self._spark = session(master)
        register(self._spark)

    def measure(self, *, records: int, tail: int, batches: int, again: int) -> Iterator[Figure]:
        """All figures; ``records`` in an archive, ``tail`` with the servers."""
        archive = self._directory / "archive"
        self._say(f"{records:,} records into an archive")
        write_archive(archive, records)
        for turn in range(again):
            seconds = self._copied({"archive": str(archive)}, f"archive-{turn}", records)
            yield self._rate("from the archive into Parquet", turn, records, seconds, "700,000")
        servers = Isotone(self._directory / "servers", learner=LEARNER)
        servers.start(*SERVERS, LEARNER)
        try:
            self._say(f"{tail:,} records into three servers, and to a learner")
            end = asyncio.run(_fill(servers, tail))
            voters = ",".join(map(servers.address, SERVERS))
            for turn in range(again):
                before = servers.cpu_seconds(*SERVERS)
                seconds = self._copied({"replica": voters}, f"tail-{turn}", end)
                spent = servers.cpu_seconds(*SERVERS) - before
                yield self._rate("from the live tail into Parquet", turn, end, seconds, "100,000")
                yield _share("CPU of the voting servers, which alone are asked", turn, spent, seconds, "")
            yield from self._beside_voters(servers, end, again)
            yield self._latency(servers, voters, batches)
        finally:
            servers.end()

    def _copied(self, options: dict[str, str], name: str, count: int) -> float:
        """Seconds that Spark takes to write all of it."""
        began = time.perf_counter()
        out = str(self._directory / name)
        self._spark.read.format("isotone").options(**options).load().write.parquet(out)
        seconds = time.perf_counter() - began
        found = self._spark.read.parquet(out).count()
        assert found == count, f"{found} rows of {count}"
        return seconds

    def _rate(self, name: str, turn: int, count: int, seconds: float, goal: str) -> Figure:
        self._say(f"{name}: {seconds:.1f} s")
        return Figure(
            f"{name}, turn {turn + 1}", count / seconds, "rows per s", f"{count:,} in {seconds:.1f} s", goal=goal
        )

    def _beside_voters(self, servers: Isotone, end: int, again: int) -> Iterator[Figure]:
        """A full-speed read of the whole log: the first half from an archive of it, the rest from the learner."""
        archive = self._directory / "of-the-servers"
        archived = asyncio.run(_archive_half(servers, archive))
        replicas = ",".join(map(servers.address, (*SERVERS, LEARNER)))
        for turn in range(again):
            before, learned = servers.cpu_seconds(*SERVERS), servers.cpu_seconds(LEARNER)
            seconds = self._copied({"archive": str(archive), "replica": replicas}, f"beside-{turn}", end)
            spent, learned = servers.cpu_seconds(*SERVERS) - before, servers.cpu_seconds(LEARNER) - learned
            yield self._rate(f"{archived:,} from an archive, the rest from a learner", turn, end, seconds, "")
            yield _share("CPU of the voting servers beside archive and learner", turn, spent, seconds, "5")
            yield _share("CPU of the learner", turn, learned * len(SERVERS), seconds, "")

    def _latency(self, servers: Isotone, replicas: str, batches: int) -> Figure:
        """From the acknowledgement of a record to a micro-batch that has it, one record at a time."""
        self._say(f"{batches} records, one at a time")
        seen: list[tuple[float, int]] = []

        def look(batch: Any, number: int) -> None:
            del number
            count = batch.count()
            seen.append((time.perf_counter(), count))

        rows = self._spark.readStream.format("isotone").options(replica=replicas, startingPosition="latest").load()
        query = (
            rows.writeStream.foreachBatch(look).option("checkpointLocation", str(self._directory / "latency")).start()
        )
        try:
            waits = asyncio.run(_one_at_a_time(servers, batches, seen))
        finally:
            query.stop()
        low, middle, high = quantiles(waits, n=4, method="inclusive")
        told = f"{len(waits)} records, {PAUSE_S:g} s apart; the slowest {max(waits):.2f} s"
        return Figure("from an acknowledged record to its micro-batch", middle, "s", told, (low, high), "0.4")


def _share(name: str, turn: int, spent: float, seconds: float, goal: str) -> Figure:
    """Of one core, of each of three servers on average."""
    each = spent / len(SERVERS)
    over = f"{each:.3f} s each in {seconds:.1f} s"
    return Figure(f"{name}, turn {turn + 1}", 100 * each / seconds, "% of a core each", over, goal=goal)


def write_archive(place: Path, records: int) -> None:
    """Full segments, as servers write them."""
    place.mkdir(parents=True)
    store = Archive(place)
    for first in range(1, records + 1, segments.SEGMENT_RECORDS_MAX):
        last = min(records, first + segments.SEGMENT_RECORDS_MAX - 1)
        store.write(
            [LogEntry(at, b"%020d" % at + b"x" * (RECORD_BYTES - 20), f"a.1:{at}") for at in range(first, last + 1)]
        )


async def _fill(servers: Isotone, count: int) -> int:
    """Append so many records; the position of the last, which the learner has too."""
    await servers.ready()
    async with RemoteLog(servers.address(SERVERS[0])) as log:
        for first in range(0, count, AT_ONCE):
            some = range(first, min(count, first + AT_ONCE))
            await asyncio.gather(*(log.append(b"%020d" % number + b"x" * (RECORD_BYTES - 20)) for number in some))
        end = await log.end()
    async with RemoteLog(servers.address(LEARNER)) as log:
        await log.wait_for(end, within_s=LEARNED_WITHIN_S)
    return end


async def _archive_half(servers: Isotone, place: Path) -> int:
    """Archive the log of the servers up to about its middle, as they would; the last position there."""
    place.mkdir()
    store = Archive(place)
    async with RemoteLog(servers.address(LEARNER)) as log:
        half = await log.end() // 2
        last = 0
        while last + segments.SEGMENT_RECORDS_MAX <= half:
            await asyncio.to_thread(store.write, await log.read(last + 1, last + segments.SEGMENT_RECORDS_MAX))
            last += segments.SEGMENT_RECORDS_MAX
    return last


async def _one_at_a_time(servers: Isotone, count: int, seen: list[tuple[float, int]]) -> list[float]:
    """How long each took; the first one only warms all up."""
    waits = []
    async with RemoteLog(servers.address(SERVERS[0])) as log:
        for number in range(count + 1):
            wanted = sum(rows for _, rows in seen) + 1
            await log.append(b"low rate %d" % number)
            began = time.perf_counter()
            while sum(rows for _, rows in seen) < wanted:
                await asyncio.sleep(0.005)
            if number:
                waits.append(next(at for place, (at, _) in enumerate(seen)
                                  if sum(rows for _, rows in seen[: place + 1]) >= wanted) - began)  # fmt: skip
            await asyncio.sleep(PAUSE_S)
    return waits


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", type=click.IntRange(min=1), default=5_000_000, show_default=True, help="In the archive.")
@click.option("--tail", type=click.IntRange(min=1), default=500_000, show_default=True, help="With the servers alone.")
@click.option("--batches", type=click.IntRange(min=2), default=60, show_default=True, help="Records at a low rate.")
@click.option("--again", type=click.IntRange(min=1), default=2, show_default=True, help="How often each is copied.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the table here too, as text.")
def bench(*, records: int, tail: int, batches: int, again: int, master: str, out: Path | None) -> None:
    """Measure rows a second from an archive and from servers, latency of micro-batches, and the CPU of the servers."""
    with tempfile.TemporaryDirectory(prefix="isotone-bench-") as directory:
        measured = Bench(Path(directory), master, lambda note: click.echo(f"  {note} …", err=True))
        figures = []
        for figure in measured.measure(records=records, tail=tail, batches=batches, again=again):
            figures.append(figure)
            if out is not None:
                with out.open("w", encoding="utf-8") as file:
                    _write(figures, Console(file=file, width=WIDTH, highlight=False))
    _write(figures, Console(file=sys.stdout, width=WIDTH, highlight=False))


def _write(figures: list[Figure], console: Console) -> None:
    command = " ".join(["python -m isotone.bench.log_on_spark", *sys.argv[1:]])
    print_figures(figures, command, this_machine(), console)


def main() -> None:
    """Run, and end with 3 where the machine lacks something."""
    try:
        bench()
    except MachineError as error:
        click.echo(f"isotone.bench.log_on_spark: {error}", err=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
