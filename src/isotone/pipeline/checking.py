"""``isotone check --engine spark``: every run that the files hold, judged in one job.

Implements: [DESIGN 5], conformance. Deviations: none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession

from isotone.core.errors import InputError
from isotone.pipeline.bronze import ChangedError, Problem, found_files, kept, problems, read_bronze
from isotone.pipeline.conformance.given import missing_records
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.failures import failures_named
from isotone.pipeline.gold import verdict_rows
from isotone.pipeline.little import ONE_BYTES_MAX, in_several
from isotone.pipeline.session import is_small, session
from isotone.pipeline.silver import FROM, counted_silver, sources
from isotone.pipeline.stages import Advance, bytes_of_runs
from isotone.sim.run import Violation
from isotone.sim.summary import Failure, Summary, count_verdicts, failure_of, is_unjudged, missing_told
from isotone.spec.check.layers import ALL_PROPERTIES
from isotone.spec.properties import Boundary

NOTHING = Summary(runs=0, violations=0, properties={}, failures=(), bounds={})

_NO_TRACE = "no trace found in {}"
STEPS = 3
"""How often a check says what it is at."""


class Checked(NamedTuple):
    """The verdicts of all runs, and the files that could not be read to their end."""

    summary: Summary
    problems: tuple[Problem, ...]


def check_traces(traces: Sequence[Path], master: str | None = None, *, advance: Advance = lambda note: None) -> Checked:
    """Check every run that the files hold, with a session of our own."""
    spark = session_for(traces, master)
    advance("Spark is there")
    return check_with(spark, traces, advance=advance)


def session_for(traces: Sequence[Path], master: str | None, *, out: Path | None = None) -> SparkSession:
    """A session that suits the size of these files, and of what is in the tables of ``out`` of the same runs.

    Paths that hold no trace are named before anything is started.
    """
    files = require_traces(traces)
    more = 0 if out is None else bytes_of_runs(out, files)
    small = is_small(files, master, more_bytes=more)
    spark = session(master, is_small=small)
    if small and not is_small(files, master, more_bytes=more, bytes_max=ONE_BYTES_MAX):
        in_several(spark)
    return spark


def require_traces(traces: Sequence[Path]) -> list[Path]:
    """The files that there are; an `InputError` where there is none, and none that is missing either."""
    missing: list[Problem] = []
    files = list(found_files(traces, missing))
    if not files and not missing:
        raise InputError(_NO_TRACE.format(", ".join(map(str, traces))))
    return files


@failures_named()
def check_with(spark: SparkSession, traces: Sequence[Path], *, advance: Advance = lambda note: None) -> Checked:
    """The same with a session that is there."""
    try:
        return _check_with(spark, traces, rows_too=False, advance=advance)
    except ChangedError:  # what is read once, and kept, is what is told of it
        return _check_with(spark, traces, rows_too=True, advance=advance)


def _check_with(spark: SparkSession, traces: Sequence[Path], *, rows_too: bool, advance: Advance) -> Checked:
    bronze = kept(read_bronze(spark, traces), rows_too=rows_too)
    found = problems(bronze)
    if sources(bronze.notes).isEmpty():
        if not found:
            raise InputError(_NO_TRACE.format(", ".join(map(str, traces))))
        return Checked(NOTHING, found)
    command = shlex.join(["isotone", "check", "--engine", "spark", *map(str, traces)])
    made = counted_silver(bronze.rows, bronze.notes)
    rows = made.rows.drop(*FROM).localCheckpoint(eager=True)
    counts = {row["run"]: row["count"] for row in rows.groupBy("run").count().collect()}
    if counts != made.expected():
        raise ChangedError
    advance(f"{len(counts)} runs read")
    summary = summarise(judge(rows), command)
    if summary.unjudged:
        summary = structs.replace(summary, missing=_missing(rows))
    advance(f"{len(counts)} runs judged")
    return Checked(summary, found)


def _missing(rows: DataFrame) -> tuple[str, ...]:
    """Which records others name and that are not there, by node where nothing of it is."""
    nodes = {(row["run"], row["node"]) for row in rows.select("run", "node").distinct().collect()}
    found: dict[str, set[str]] = {}
    for row in missing_records(rows).collect():
        is_there = (row["run"], row["node"]) in nodes
        told = f"{row['node']}#{row['incarnation']}" if is_there else row["node"]
        found.setdefault(row["run"], set()).add(told)
    return tuple(each for run in sorted(found) for each in missing_told(run, sorted(found[run])))


@failures_named()
def summary_of(spark: SparkSession, out: Path, traces: Sequence[Path], runs: Sequence[str]) -> Summary:
    """The same of these runs, which are those of the traces, from a directory of tables."""
    rows = verdict_rows(spark, out, runs) if runs else []
    return _summed(rows, shlex.join(["isotone", "check", *map(str, traces)])) if rows else NOTHING


def summarise(verdicts: DataFrame, command: str) -> Summary:
    """The table of verdicts as the object that ``isotone check`` prints."""
    return _summed((row.asDict(recursive=True) for row in verdicts.orderBy("run", "place").collect()), command)


def _summed(rows: Iterable[dict[str, Any]], command: str) -> Summary:
    states: dict[str, dict[str, str]] = {}
    failures: list[Failure] = []
    for row in rows:
        states.setdefault(row["run"], {})[row["label"]] = row["state"]
        if row["witness"] is not None:
            witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"])
            violation = Violation(row["label"], _statement(row["label"], row["run"]), witness)
            failures.append(failure_of(violation, seed=None, replay=command))
    return Summary(
        runs=len(states),
        violations=len(failures),
        properties=count_verdicts(states.values()),
        failures=tuple(failures),
        bounds={},
        unjudged=sum(map(is_unjudged, states.values())),
    )


def _statement(label: str, run: str) -> str:
    """What was promised, and where it was broken; the witness says by which events."""
    for each in ALL_PROPERTIES.values():
        if label in (each.id, each.label(Boundary.DAEMONS)):
            return f"In run {run}, these events break: {each.statement}"
    raise AssertionError(label)
