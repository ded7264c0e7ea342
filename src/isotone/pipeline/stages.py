"""The tables of a directory, brought up to date with trace files: ``silver``, and what follows from it, by run.

A file that was read before and has not changed is not read again, unless its run has new files: then the run is made
anew from all of its files. So a new run costs its own size, and the same files again cost a look at each. What a job
that was killed did not finish, the next one does.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from isotone.pipeline import schema
from isotone.pipeline.bronze import Bronze, Problem, found_files, is_note, kept, problems, read_bronze
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.metrics.form import METRICS as METRICS_FORM
from isotone.pipeline.metrics.messages import traffic
from isotone.pipeline.metrics.table import metrics_of
from isotone.pipeline.silver import silver, sources
from isotone.pipeline.tables import FORMAT, Manifest, manifests, read_table, write_runs
from isotone.pipeline.timeline import TIMELINE as TIMELINE_FORM
from isotone.pipeline.timeline import timeline
from isotone.trace.layout import SPOOL_SUFFIX
from isotone.trace.spool import rotated_path

SILVER = "silver"
VERDICTS = "verdicts"
METRICS = "metrics"
TIMELINE = "timeline"
STEPS = 3
"""How often a refresh of everything says what it is at."""

Advance = Callable[[str], None]


class Refreshed(NamedTuple):
    """Which runs were made anew, which files could not be read to their end, and all runs that the files are of."""

    runs: tuple[str, ...]
    problems: tuple[Problem, ...]
    present: tuple[str, ...]


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
    found = _printed(found_files(traces, missing))
    known = manifests(out / SILVER)
    read = {name for each in known.values() if each.format == FORMAT for name in each.inputs}
    fresh = {path: name for path, name in found.items() if name not in read}
    wrong = {*missing, *(_refresh_silver(spark, fresh, known, out / SILVER) if fresh else ())}
    advance(f"{len(fresh)} files read")
    judged = _judge_new(spark, out) if judging else ()
    advance(f"{len(judged)} runs judged")
    counted = _measure_new(spark, out) if measuring else ()
    advance(f"{len(counted)} runs measured")
    present = {run: each for run, each in manifests(out / SILVER).items() if not found.keys().isdisjoint(_paths(each))}
    wrong |= {Problem(*told) for each in present.values() for told in each.problems if Path(told[0]) in found}
    return Refreshed(tuple(sorted({*judged, *counted})), tuple(sorted(wrong)), tuple(present))


def _refresh_silver(
    spark: SparkSession, fresh: dict[Path, str], known: dict[str, Manifest], table: Path
) -> tuple[Problem, ...]:
    """Make the runs of these files anew, together with what is known of the same runs."""
    bronze = kept(read_bronze(spark, fresh), rows_too=False)
    touched = {row["run"] for row in sources(bronze.notes).select("run").distinct().collect()}
    lost = [problem for run in sorted(touched & known.keys()) for problem in _lost(known[run])]
    touched -= {run for run in touched & known.keys() if _lost(known[run])}
    wrong = (*problems(bronze), *lost)
    if not touched:
        return wrong
    older = _printed(_still(path) for run in sorted(touched & known.keys()) for path in _paths(known[run]))
    if older.keys() - fresh.keys():
        bronze = kept(read_bronze(spark, sorted({*fresh, *older})), rows_too=False)
        wrong = (*problems(bronze), *lost)
    _write_silver(bronze, touched, older | fresh, table)
    return wrong


def _write_silver(bronze: Bronze, runs: set[str], prints: dict[Path, str], table: Path) -> None:
    """Of what was read, these runs; with what their files looked like before they were read."""
    mine = F.col("run").isin(*sorted(runs))
    notes = bronze.notes.where(mine | (F.col("kind") == schema.PROBLEM))
    files: dict[str, list[Path]] = {}
    for row in sources(notes).collect():
        files.setdefault(row["run"], []).append(Path(row["file"]))
    inputs = {run: tuple(sorted(prints[path] for path in paths)) for run, paths in files.items()}
    bad = problems(bronze)
    wrong = {
        run: tuple((each.path, each.reason) for each in bad if Path(each.path) in paths) for run, paths in files.items()
    }
    rows = silver(bronze.rows.where(mine | is_note()), notes)
    write_runs(table, formed(rows, schema.SILVER), inputs=inputs, problems=wrong)


def _lost(manifest: Manifest) -> list[Problem]:
    """Files that a run was made from and that are gone: made anew without them, it would lose rows."""
    reason = (
        f"the run {manifest.run!r} was made from it, and it is gone: the run stays as it was (or name another --out)"
    )
    return [Problem(str(path), reason) for path in _paths(manifest) if not _still(path).exists()]


def _due(out: Path, table: str) -> dict[str, tuple[str, ...]]:
    """The runs whose rows are not those that this table was made from, and what it is to be made from."""
    made = manifests(out / table)
    rows = {run: (each.directory,) for run, each in manifests(out / SILVER).items()}
    return {run: inputs for run, inputs in rows.items() if run not in made or made[run].inputs != inputs}


def _judge_new(spark: SparkSession, out: Path) -> tuple[str, ...]:
    due = _due(out, VERDICTS)
    if due:
        write_runs(out / VERDICTS, formed(judge(read_table(spark, out / SILVER, due)), schema.VERDICTS), inputs=due)
    return tuple(due)


def _measure_new(spark: SparkSession, out: Path) -> tuple[str, ...]:
    due = {**_due(out, TIMELINE), **_due(out, METRICS)}
    if due:
        found = traffic(read_table(spark, out / SILVER, due))
        write_runs(out / TIMELINE, formed(timeline(found.rows), TIMELINE_FORM), inputs=due)
        write_runs(out / METRICS, formed(metrics_of(found), METRICS_FORM), inputs=due)
    return tuple(due)


def formed(rows: DataFrame, form: str) -> DataFrame:
    """The same in the columns that a table is said to have; other types or too few columns are our mistake."""
    columns = StructType.fromDDL(form)
    assert isinstance(columns, StructType)
    assert set(rows.columns) == set(columns.names), set(rows.columns) ^ set(columns.names)
    return rows.to(columns)


def _printed(paths: Iterable[Path]) -> dict[Path, str]:
    """Files, and what they look like now: one is another when its size or time changes."""
    found = {}
    for each in paths:
        with suppress(FileNotFoundError):  # who was listed and is gone even as Parquet was removed
            path = _still(each)
            stat = path.stat()
            found[path] = f"{stat.st_size}:{stat.st_mtime_ns}:{path}"
    return found


def _still(path: Path) -> Path:
    """What the file is now: a spool that its writer has rotated is Parquet."""
    return rotated_path(path) if path.suffix == SPOOL_SUFFIX and not path.exists() else path


def _paths(manifest: Manifest) -> list[Path]:
    """What a run was made from."""
    return [Path(name.split(":", 2)[2]) for name in manifest.inputs]
