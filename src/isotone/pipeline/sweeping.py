"""A sweep: simulations as tasks, their results as a table; what is in the table already is not run again.

A task plays its simulations one by one. One that fails, by a violated property or by an exception, is a row with the
command that replays it, and its trace is kept; no task fails because of it. Results are committed batch by batch, so
that a sweep that is killed goes on where it was.

Implements: [DESIGN 5], sweep. Deviations: none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone import __version__
from isotone.core.errors import InputError
from isotone.pipeline.failures import failures_named
from isotone.pipeline.sweep_spec import Simulation
from isotone.pipeline.sweep_task import FAILED, JOB, RESULT, job_of, play_batches
from isotone.pipeline.tables import manifests, read_table, write_runs
from isotone.pipeline.tables import sweep as sweep_table
from isotone.sim.summary import count_verdicts
from isotone.trace.layout import PARQUET_SUFFIX

TABLE = "sweep"
TRACES = "traces"
SIMULATIONS_PER_TASK = 8
SECONDS_AT_ONCE = 60
"""A batch is about as much as all tasks together do in this time, when a standard run costs about a second."""

Advance = Callable[[str], None]


class SweepFailure(NamedTuple):
    """One simulation that failed."""

    key: str
    properties: tuple[str, ...]
    explanation: str
    replay: str
    trace: str


class Swept(NamedTuple):
    """How many simulations were run now and stand in the table, their events, those that failed, and all verdicts."""

    run: int
    known: int
    events: int
    failures: tuple[SweepFailure, ...]
    properties: dict[str, dict[str, int]]

    @property
    def exit_code(self) -> int:
        """1 when a simulation failed."""
        return 1 if self.failures else 0


@failures_named()
def sweep(
    spark: SparkSession, wanted: Sequence[Simulation], out: Path, *, advance: Advance = lambda note: None
) -> Swept:
    """Run what is not in the table yet, each once; the whole of what was asked for is told."""
    if not wanted:
        raise InputError("the sweep has no simulation")
    _tidy(out)
    done, stale = _known(spark, out, wanted)
    if stale:
        _forget(spark, out, stale)
    missing = iter({each.key: each for each in wanted if each.key not in done}.values())
    count = 0
    size = spark.sparkContext.defaultParallelism * SECONDS_AT_ONCE
    while batch := list(islice(missing, size)):
        _run_batch(spark, batch, out)
        count += len(batch)
        advance(f"{count} simulations run")
    return _told(spark, out, {each.key for each in wanted}, count)


def _tidy(out: Path) -> None:
    """Drop what a sweep that was killed left half written."""
    sweep_table(out / TABLE)
    for path in (out / TRACES).glob(f".*{PARQUET_SUFFIX}.*"):
        path.unlink(missing_ok=True)


def _known(spark: SparkSession, out: Path, wanted: Iterable[Simulation]) -> tuple[set[str], list[str]]:
    """The keys in the table that need not be run again; and those that failed and may do better now."""
    if not manifests(out / TABLE):
        return set(), []
    limits = {each.key: each.limit_s for each in wanted}
    rows = _whole(read_table(spark, out / TABLE)).select("key", "state", "limit_s", "version").collect()
    stale = [row["key"] for row in rows if row["key"] in limits and _may_do_better(row, limits[row["key"]])]
    return {row["key"] for row in rows}.difference(stale), stale


def _may_do_better(row: Any, limit_s: int) -> bool:
    """What failed stays so only for the same version and as much time."""
    return bool(row["state"] == FAILED and (row["version"] != __version__ or row["limit_s"] < limit_s))


def _whole(rows: DataFrame) -> DataFrame:
    """With the columns that tables of earlier versions lack."""
    lacking = {"version": "string", "limit_s": "int"}.items()
    return rows.withColumns({name: F.lit(None).cast(form) for name, form in lacking if name not in rows.columns})


def _forget(spark: SparkSession, out: Path, keys: list[str]) -> None:
    """Take these rows out of their batches, and remove what was kept of them."""
    rows = read_table(spark, out / TABLE)
    some = F.broadcast(spark.createDataFrame([(key,) for key in keys], "key string"))
    found = rows.join(some, on="key", how="left_semi").select("run", "trace").collect()
    batches = sorted({row["run"] for row in found})
    left = rows.where(F.col("run").isin(*batches)).join(some, on="key", how="left_anti").select(*rows.columns)
    write_runs(out / TABLE, left, inputs=dict.fromkeys(batches, ()))
    for trace in (Path(row["trace"]) for row in found if row["trace"]):
        trace.unlink(missing_ok=True)
        trace.with_suffix(".json").unlink(missing_ok=True)


def _run_batch(spark: SparkSession, batch: list[Simulation], out: Path) -> None:
    name = hashlib.sha256("\n".join(each.key for each in batch).encode()).hexdigest()[:16]
    traces = out / TRACES
    traces.mkdir(parents=True, exist_ok=True)
    jobs = [job_of(each) for each in batch]
    slices = max(1, min(len(jobs), max(spark.sparkContext.defaultParallelism, len(jobs) // SIMULATIONS_PER_TASK)))
    listed = spark.createDataFrame(jobs, JOB).repartition(slices)
    results = listed.mapInArrow(partial(play_batches, str(traces), name), RESULT)
    write_runs(out / TABLE, results)


def _told(spark: SparkSession, out: Path, keys: set[str], run: int) -> Swept:
    mine = {row["key"]: row for row in _rows(spark, out) if row["key"] in keys}.values()
    failed = [row for row in mine if row["violations"]]
    return Swept(
        run=run,
        known=len(mine),
        events=sum(row["events"] for row in mine),
        failures=tuple(_failure(row) for row in sorted(failed, key=lambda row: str(row["key"]))),
        properties=count_verdicts(row["verdicts"] for row in sorted(mine, key=lambda row: str(row["key"]))),
    )


def _rows(spark: SparkSession, out: Path) -> Iterable[Any]:
    return read_table(spark, out / TABLE).select("key", "events", "violations", "verdicts", "replay", "trace").collect()


def _failure(row: Any) -> SweepFailure:
    properties = tuple(each["property"] for each in row["violations"])
    return SweepFailure(row["key"], properties, row["violations"][0]["explanation"], row["replay"], row["trace"])
