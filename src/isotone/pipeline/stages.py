"""The tables of a directory, brought up to date with trace files: ``silver``, and what follows from it, by run.

A file that was read before and has not changed is not read again, unless its run has new files: then the run is made
anew from all of its files, and from what is known of those that are gone (`isotone.pipeline.retained`). So a new run
costs its own size, and the same files again cost a look at each. What a job that was killed did not finish, the next
one does.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from isotone.core.errors import MachineError
from isotone.pipeline import schema
from isotone.pipeline.bronze import Bronze, ChangedError, Problem, found_files, is_note, kept, read_bronze
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.failures import failures_named
from isotone.pipeline.merged import Note
from isotone.pipeline.metrics.form import METRICS as METRICS_FORM
from isotone.pipeline.metrics.messages import traffic
from isotone.pipeline.metrics.minutes import MINUTES as MINUTES_FORM
from isotone.pipeline.metrics.minutes import minutes
from isotone.pipeline.metrics.table import metrics_of
from isotone.pipeline.retained import Retained, input_files, notes_of_runs, printed, retained, still
from isotone.pipeline.silver import counted_silver
from isotone.pipeline.tables import FORMAT, Held, Manifest, manifests, read_table, sweep, write_runs, writing
from isotone.pipeline.timeline import TIMELINE as TIMELINE_FORM
from isotone.pipeline.timeline import timeline

SILVER = "silver"
VERDICTS = "verdicts"
METRICS = "metrics"
TIMELINE = "timeline"
MINUTES = "minutes"
"""Of ``isotone pipeline watch`` alone."""
TABLES = (SILVER, VERDICTS, METRICS, TIMELINE)
STEPS = 3
"""How often a refresh of everything says what it is at."""
JUDGES = "judges 4"
"""Raise the number with every change by which a run may get other verdicts than before: all are judged anew then."""
MEASURES = "measures 3"
"""The same for metrics and the timeline."""
ATTEMPTS = 3
"""How often files are read that are removed or replaced meanwhile; from the second time on their rows are kept."""

Advance = Callable[[str], None]


class Refreshed(NamedTuple):
    """Which runs were made anew, which files could not be read to their end, all runs that the files are of, and notes.

    The notes are for who reads the verdicts: they mean nothing for the exit code.
    """

    runs: tuple[str, ...]
    problems: tuple[Problem, ...]
    present: tuple[str, ...]
    notes: tuple[str, ...] = ()


class _Made(NamedTuple):
    """Of silver: what could not be read, and what is to be said."""

    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


@failures_named()
def refresh(
    spark: SparkSession,
    traces: Iterable[Path],
    out: Path,
    *,
    judging: bool = True,
    measuring: bool = True,
    held: Held | None = None,
    advance: Advance = lambda note: None,
) -> Refreshed:
    """Read what is new, write its runs; judge and measure what is not judged or measured yet.

    ``held`` is the lock of ``out``, if the caller has it already.
    """
    missing: list[Problem] = []
    found = printed(found_files(traces, missing))
    with writing(out) if held is None else nullcontext():
        for table in TABLES:
            sweep(out / table)
        known = manifests(out / SILVER)
        read = {name for each in known.values() if each.format == FORMAT for name in each.inputs}
        fresh = {path: name for path, name in found.items() if name not in read}
        made = _refresh_silver(spark, fresh, known, out / SILVER) if fresh else _Made()
        advance(f"{len(fresh)} files read")
        judged = _judge_new(spark, out) if judging else ()
        advance(f"{len(judged)} runs judged")
        counted = _measure_new(spark, out) if measuring else ()
        advance(f"{len(counted)} runs measured")
        runs = manifests(out / SILVER)
    present = {run: each for run, each in runs.items() if not found.keys().isdisjoint(input_files(each))}
    told = {Problem(*told) for each in present.values() for told in each.problems if Path(told[0]) in found}
    wrong = {*missing, *made.problems, *told}
    return Refreshed(tuple(sorted({*judged, *counted})), tuple(sorted(wrong)), tuple(present), made.notes)


def _refresh_silver(spark: SparkSession, fresh: Iterable[Path], known: Mapping[str, Manifest], table: Path) -> _Made:
    """Make the runs of these files anew, together with what is known of the same runs."""
    for attempt in range(ATTEMPTS):
        with suppress(ChangedError):
            return _make_silver(spark, printed(fresh), known, table, rows_too=attempt > 0)
    raise MachineError("trace files are replaced or removed faster than they can be read; run it again")


def _make_silver(
    spark: SparkSession, fresh: dict[Path, str], known: Mapping[str, Manifest], table: Path, *, rows_too: bool
) -> _Made:
    """The same once, with files as they are now; if they do not stay so, a `ChangedError`."""
    bronze, notes = _read(spark, fresh, rows_too=rows_too)
    touched = _sources(notes).keys()
    mine = [known[run] for run in sorted(touched & known.keys())]
    left = retained(spark, table, mine)
    older = printed(path for each in mine for path in input_files(each) if path not in left.names)
    if left.names.keys() & fresh.keys():
        raise ChangedError
    if older.keys() - fresh.keys():
        bronze, notes = _read(spark, sorted({*fresh, *older}), rows_too=rows_too)
    if touched:
        some = [note for note in (*notes, *left.notes) if note["run"] in touched or note["kind"] == schema.PROBLEM]
        _write_silver(bronze, some, left, {**left.names, **older, **fresh}, table, is_sure=rows_too)
    return _Made(_problems(notes), left.told)


def _read(spark: SparkSession, paths: Iterable[Path], *, rows_too: bool) -> tuple[Bronze, list[Note]]:
    """The files, and what is told of them; none may have gone in the meantime."""
    bronze = kept(read_bronze(spark, paths), rows_too=rows_too)
    notes = [row.asDict() for row in bronze.notes.collect()]
    if bronze.missing or not all(still(Path(each.path)).exists() for each in _problems(notes)):
        raise ChangedError
    return bronze, notes


def _write_silver(
    bronze: Bronze, notes: list[Note], left: Retained, prints: Mapping[Path, str], table: Path, *, is_sure: bool
) -> None:
    """Of what was read, the runs that these notes are of; with what their files looked like before they were read."""
    files = _sources(notes)
    inputs = {run: tuple(sorted(prints[path] for path in paths)) for run, paths in files.items()}
    bad = _problems(notes)
    wrong = {
        run: tuple((each.path, each.reason) for each in bad if Path(each.path) in paths) for run, paths in files.items()
    }
    mine = F.col("run").isin(*sorted(files))
    told = bronze.notes.where(mine | (F.col("kind") == schema.PROBLEM))
    made = counted_silver(bronze.rows.where(mine | is_note()), told, left.older)
    expected = None if is_sure else made.expected()

    def check(counts: Mapping[str, int]) -> None:
        if expected is not None and expected != counts:
            raise ChangedError

    rows = formed(made.rows, schema.SILVER)
    beside = notes_of_runs(notes, files)
    write_runs(table, rows, inputs=inputs, problems=wrong, notes=beside, check=check)


def _sources(notes: Iterable[Note]) -> dict[str, set[Path]]:
    """Which files tell of which run."""
    found: dict[str, set[Path]] = {}
    for note in notes:
        if note["kind"] != schema.PROBLEM:
            found.setdefault(note["run"], set()).add(Path(note["file"]))
    return found


def _problems(notes: Iterable[Note]) -> tuple[Problem, ...]:
    wrong = {Problem(note["file"], note["reason"]) for note in notes if note["kind"] == schema.PROBLEM}
    return tuple(sorted(wrong))


def bytes_of_runs(out: Path, files: Sequence[Path]) -> int:
    """How large the other files are of the runs that these may be of, and of those to be judged or measured anew."""
    due = {*_due(out, VERDICTS, JUDGES), *_due(out, METRICS, MEASURES)}
    folders = {path.parent for path in files}
    named = set(files)
    total = 0
    for run, manifest in manifests(out / SILVER).items():
        inputs = input_files(manifest)
        if run in due or any(path.parent in folders for path in inputs):
            total += sum(int(name.partition(":")[0]) for path, name in inputs.items() if path not in named)
    return total


def _due(out: Path, table: str, version: str) -> dict[str, tuple[str, ...]]:
    """The runs whose rows, or whose maker, are not those of this table, and what it is to be made from."""
    made = manifests(out / table)
    rows = {run: (each.directory, version) for run, each in manifests(out / SILVER).items()}
    return {run: inputs for run, inputs in rows.items() if run not in made or made[run].inputs != inputs}


def unfinished(out: Path) -> tuple[str, ...]:
    """The runs whose verdicts, views or metrics are not of all their rows, or not there: what a killed job left."""
    due = {*_due(out, VERDICTS, JUDGES), *_due(out, TIMELINE, MEASURES), *_due(out, METRICS, MEASURES)}
    return tuple(sorted(due))


def _judge_new(spark: SparkSession, out: Path) -> tuple[str, ...]:
    due = _due(out, VERDICTS, JUDGES)
    if due:
        write_runs(out / VERDICTS, formed(judge(read_table(spark, out / SILVER, due)), schema.VERDICTS), inputs=due)
    return tuple(due)


def _measure_new(spark: SparkSession, out: Path) -> tuple[str, ...]:
    due = {**_due(out, TIMELINE, MEASURES), **_due(out, METRICS, MEASURES)}
    if due:
        found = traffic(read_table(spark, out / SILVER, due))
        write_runs(out / TIMELINE, formed(timeline(found), TIMELINE_FORM), inputs=due)
        write_runs(out / METRICS, formed(metrics_of(found), METRICS_FORM), inputs=due)
    return tuple(due)


def refresh_minutes(spark: SparkSession, out: Path) -> tuple[str, ...]:
    """Make the table of minutes of the runs that have changed, while the caller holds the lock of ``out``."""
    due = _due(out, MINUTES, MEASURES)
    if due:
        found = minutes(traffic(read_table(spark, out / SILVER, due)))
        write_runs(out / MINUTES, formed(found, MINUTES_FORM), inputs=due)
    return tuple(due)


def formed(rows: DataFrame, form: str) -> DataFrame:
    """The same in the columns that a table is said to have; other types or too few columns are our mistake."""
    columns = StructType.fromDDL(form)
    assert isinstance(columns, StructType)
    assert set(rows.columns) == set(columns.names), set(rows.columns) ^ set(columns.names)
    return rows.to(columns)
