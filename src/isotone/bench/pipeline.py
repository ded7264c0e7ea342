"""``python -m isotone.bench.pipeline``: what judging long traces costs, on Spark and, for honesty, without it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from isotone.bench.measure import Figure, print_figures, this_machine
from isotone.bench.pipeline_duckdb import has_duckdb, judge_with_duckdb
from isotone.bench.pipeline_silver import write_silver
from isotone.bench.pipeline_trace import Load, Written, write_trace
from isotone.bench.pipeline_tree import cpu_seconds_of_all, peak_bytes_of_all
from isotone.core.errors import MachineError
from isotone.spec.check import Checker
from isotone.spec.verdicts import State
from isotone.trace.reader import read

WIDTH = 200
RUN = "load"


class Taken(NamedTuple):
    """What a step took: seconds by the clock, and of CPU in all processes."""

    result: Any
    seconds: float
    cpu: float


def taken(call: Callable[[], Any]) -> Taken:
    """Run it and look at the clocks."""
    began, cpu = time.perf_counter(), cpu_seconds_of_all()
    result = call()
    return Taken(result, time.perf_counter() - began, cpu_seconds_of_all() - cpu)


class Bench:
    """One measurement after the other, in one Spark session."""

    def __init__(self, directory: Path, master: str, say: Callable[[str], None]) -> None:
        from isotone.pipeline.session import session

        self._directory = directory
        self._say = say
        self._master = master
        started = taken(lambda: session(master))
        self._spark = started.result
        self.first = Figure("start of the session", started.seconds, "s", f"{master}, {started.cpu:.1f} s of CPU")

    def measure(self, load: Load, *, again: int, files: bool, duckdb: bool) -> Iterator[Figure]:
        """All figures of one trace; with ``files`` from trace files on, else from silver on."""
        name = f"{load.deliveries:,} deliveries" + (", one wrong" if load.planted else "")
        place = self._directory / f"{load.deliveries}-{int(load.planted)}"
        self._say(f"{name}: writing")
        written = write_trace(place / "traces", RUN, load) if files else write_silver(place / "silver" / RUN, RUN, load)
        self._say(f"{written}")
        about = f"{written.deliveries:,} in {written.rows:,} rows, {written.bundles:,} bundles, {written.views:,} views"
        if files:
            made = taken(lambda: self._make_silver(place))
            yield self._figure(f"silver, {name}", made, written, f"{made.cpu:.1f} s of CPU; {about}")
        for turn in range(again):
            judged = taken(lambda: self._judge(place, files=files))
            told = f"{judged.cpu:.1f} s of CPU; {about}; {_found(judged.result, written)}"
            yield self._figure(f"all properties, {name}, turn {turn + 1}", judged, written, told)
        counted = taken(lambda: self._measure(place, files=files))
        told = f"{counted.cpu:.1f} s of CPU; {len(counted.result):,} rows of metrics"
        yield self._figure(f"all metrics, {name}", counted, written, told)
        peak = peak_bytes_of_all() / 2**20
        yield Figure(f"memory, {name}", peak, "MiB", "the sum of the peaks of all processes so far")
        if files:
            checked = taken(lambda: _check(place / "traces"))
            told = f"{checked.cpu:.1f} s of CPU; one process, reading included"
            yield self._figure(f"plain checkers, {name}", checked, written, told)
        if duckdb and has_duckdb():
            found = taken(lambda: judge_with_duckdb(place / ("tables/silver/data" if files else "silver"), 2))
            told = f"{found.cpu:.1f} s of CPU; five checks, no witnesses: {found.result}"
            yield self._figure(f"DuckDB, {name}", found, written, told)

    def _figure(self, name: str, step: Taken, written: Written, over: str) -> Figure:
        self._say(f"{name}: {step.seconds:.1f} s, {step.cpu:.1f} s of CPU")
        return Figure(name, written.deliveries / step.seconds, "deliveries per s", f"{step.seconds:.1f} s; {over}")

    def _make_silver(self, place: Path) -> None:
        from isotone.pipeline.stages import refresh

        refresh(self._spark, [place / "traces"], place / "tables", judging=False, measuring=False)

    def _silver(self, place: Path, *, files: bool) -> Any:
        from isotone.pipeline.schema import SILVER
        from isotone.pipeline.tables import read_table

        if files:
            return read_table(self._spark, place / "tables" / "silver")
        return self._spark.read.schema(SILVER).parquet(str(place / "silver" / RUN))

    def _judge(self, place: Path, *, files: bool) -> list[Any]:
        from isotone.pipeline.conformance.verdicts import judge

        rows: list[Any] = judge(self._silver(place, files=files)).collect()
        return rows

    def _measure(self, place: Path, *, files: bool) -> list[Any]:
        from isotone.pipeline.metrics.table import metrics

        rows: list[Any] = metrics(self._silver(place, files=files)).collect()
        return rows


def _found(rows: list[Any], written: Written) -> str:
    """The verdicts in a few words; what was planted must be there, and nothing else."""
    broken = {row["label"]: tuple((e["node"], e["incarnation"], e["index"]) for e in row["witness"]) for row in rows
              if row["state"] == State.VIOLATED.value}  # fmt: skip
    if written.planted is None:
        assert not broken, broken
        return f"{sum(row['state'] == State.HOLDS.value for row in rows)} of {len(rows)} hold, none is violated"
    assert list(broken) == ["EVS-2.6"] and written.planted in broken["EVS-2.6"], broken
    return f"found: EVS-2.6 by {broken['EVS-2.6']}"


def _check(traces: Path) -> None:
    checker = Checker()
    for row in read([traces]):
        checker.feed(row)
    checker.finish()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--deliveries", type=click.IntRange(min=1), multiple=True, default=(1_000_000,), show_default=True,
              help="How many, messages times receivers; several traces one after the other.")  # fmt: skip
@click.option("--messages", type=(int, int), default=(5, 20), show_default=True, help="Of a bundle: least and most.")
@click.option("--planted", is_flag=True, help="The last trace once more, with one delivery of what was not sent.")
@click.option("--again", type=click.IntRange(min=1), default=2, show_default=True, help="How often each is judged.")
@click.option("--files/--no-files", default=True, help="The first from trace files on, for the plain checkers too.")
@click.option("--duckdb/--no-duckdb", default=True, help="DuckDB on each trace too, where it is installed.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the table here too, as text.")
def bench(
    *, deliveries: tuple[int, ...], messages: tuple[int, int], planted: bool, again: int, files: bool, duckdb: bool,
    master: str, out: Path | None,
) -> None:  # fmt: skip
    """Measure what judging synthetic traces of these sizes costs; the traces are written to a temporary directory."""
    loads = [Load(deliveries=each, messages=messages) for each in deliveries]
    if planted:
        loads.append(Load(deliveries=deliveries[-1], messages=messages, planted=True))
    with tempfile.TemporaryDirectory(prefix="isotone-bench-") as directory:
        measured = Bench(Path(directory), master, lambda note: click.echo(f"  {note} …", err=True))
        figures = [measured.first]
        for place, load in enumerate(loads):
            for figure in measured.measure(load, again=again, files=files and place == 0, duckdb=duckdb):
                figures.append(figure)
                _write_file(figures, out)  # a long measurement that is cut short leaves what it has
    _write(figures, Console(file=sys.stdout, width=WIDTH, highlight=False))


def _write_file(figures: list[Figure], out: Path | None) -> None:
    if out is not None:
        with out.open("w", encoding="utf-8") as file:
            _write(figures, Console(file=file, width=WIDTH, highlight=False))


def _write(figures: list[Figure], console: Console) -> None:
    command = " ".join(["python -m isotone.bench.pipeline", *sys.argv[1:]])
    print_figures(figures, command, this_machine(), console)


def main() -> None:
    """Run, and end with 3 where the machine lacks something."""
    try:
        bench()
    except MachineError as error:
        click.echo(f"isotone.bench.pipeline: {error}", err=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
