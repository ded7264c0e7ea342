"""The tables of a directory, brought up to date with trace files: ``silver``, and what follows from it, by run.

A file that was read before and has not changed is not read again, unless its run has new files: then the run is made
anew from all of its files. So a new run costs its own size, and the same files again cost a look at each. What a job
that was killed did not finish, the next one does.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline import schema
from isotone.pipeline.bronze import Problem, found_files, kept, problems, read_bronze
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.metrics.messages import traffic
from isotone.pipeline.metrics.table import metrics_of
from isotone.pipeline.silver import silver, whole_spans
from isotone.pipeline.tables import Manifest, manifests, read_table, write_runs
from isotone.pipeline.timeline import timeline

SILVER = "silver"
VERDICTS = "verdicts"
METRICS = "metrics"
TIMELINE = "timeline"
STEPS = 3
"""How often a refresh of everything says what it is at."""

Advance = Callable[[str], None]


class Refreshed(NamedTuple):
    """Which runs were made anew, and which files could not be read to their end."""

    runs: tuple[str, ...]
    problems: tuple[Problem, ...]


def refresh(
    spark: SparkSession,
    traces: Iterable[Path],
    out: Path,
    *,
    judging: bool = True,
    measuring: bool = True,
    advance: Advance = lambda note: None,
) -> Refreshed:
    """Read what is new, write its runs; judge and measure what is not judged or measured yet."""
    missing: list[Problem] = []
    present = {_fingerprint(path): path for path in found_files(traces, missing)}
    known = manifests(out / SILVER)
    fresh = [path for name, path in present.items() if name not in _inputs(known)]
    wrong: tuple[Problem, ...] = tuple(missing)
    if fresh:
        wrong = tuple(sorted({*wrong, *_refresh_silver(spark, fresh, known, out / SILVER)}))
    advance(f"{len(fresh)} files read")
    judged = _judge_new(spark, out) if judging else ()
    advance(f"{len(judged)} runs judged")
    counted = _measure_new(spark, out) if measuring else ()
    advance(f"{len(counted)} runs measured")
    return Refreshed(tuple(sorted({*judged, *counted})), wrong)


def _refresh_silver(
    spark: SparkSession, fresh: list[Path], known: dict[str, Manifest], table: Path
) -> tuple[Problem, ...]:
    """Make the runs of these files anew, together with what is known of the same runs."""
    bronze = kept(read_bronze(spark, fresh), rows_too=False)
    inputs = _sources(bronze.notes)
    touched = inputs.keys()
    if not touched:
        return problems(bronze)
    older = {
        Path(_path(name)) for run in touched & known.keys() for name in known[run].inputs if Path(_path(name)).exists()
    }
    if older - set(fresh):
        bronze = kept(read_bronze(spark, sorted({*fresh, *older})), rows_too=False)
        mine = F.col("run").isin(sorted(touched)) | F.col("kind").isin(schema.PROBLEM, schema.PART)
        bronze = bronze._replace(rows=bronze.rows.where(mine), notes=bronze.notes.where(mine))
        inputs = _sources(bronze.notes)
    write_runs(table, silver(bronze.rows, bronze.notes), inputs=inputs)
    return problems(bronze)


def _sources(notes: DataFrame) -> dict[str, tuple[str, ...]]:
    """By run, the files that its rows came from."""
    found = whole_spans(notes).select("run", "file").distinct().collect()
    sources: dict[str, list[str]] = {}
    for row in found:
        sources.setdefault(row["run"], []).append(_fingerprint(Path(row["file"])))
    return {run: tuple(sorted(names)) for run, names in sources.items()}


def _due(out: Path, table: str) -> dict[str, tuple[str, ...]]:
    """The runs whose rows are not those that this table was made from, and what it is to be made from."""
    made = manifests(out / table)
    rows = {run: (each.directory,) for run, each in manifests(out / SILVER).items()}
    return {run: inputs for run, inputs in rows.items() if run not in made or made[run].inputs != inputs}


def _judge_new(spark: SparkSession, out: Path) -> tuple[str, ...]:
    due = _due(out, VERDICTS)
    if due:
        write_runs(out / VERDICTS, judge(read_table(spark, out / SILVER, due)), inputs=due)
    return tuple(due)


def _measure_new(spark: SparkSession, out: Path) -> tuple[str, ...]:
    due = {**_due(out, TIMELINE), **_due(out, METRICS)}
    if due:
        found = traffic(read_table(spark, out / SILVER, due))
        write_runs(out / TIMELINE, timeline(found.rows), inputs=due)
        write_runs(out / METRICS, metrics_of(found), inputs=due)
    return tuple(due)


def _inputs(known: dict[str, Manifest]) -> set[str]:
    return {name for manifest in known.values() for name in manifest.inputs}


def _fingerprint(path: Path) -> str:
    """A file as it is now: it is another one when its size or time changes."""
    found = path.stat()
    return f"{found.st_size}:{found.st_mtime_ns}:{path}"


def _path(fingerprint: str) -> str:
    return fingerprint.split(":", 2)[2]
