"""``isotone check --engine spark``: every run that the files hold, judged in one job.

Implements: [DESIGN 5], conformance. Deviations: none.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from isotone.core.errors import InputError
from isotone.pipeline.bronze import Problem, problems, read_bronze
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.session import LOCAL, session
from isotone.pipeline.silver import silver, whole_rows
from isotone.sim.run import Violation
from isotone.sim.summary import Failure, Summary, count_verdicts, failure_of
from isotone.spec.properties import PROPERTIES, Boundary


class Checked(NamedTuple):
    """The verdicts of all runs, and the files that could not be read to their end."""

    summary: Summary
    problems: tuple[Problem, ...]

    @property
    def exit_code(self) -> int:
        """1 when something is violated, else 2 when a file could not be read, else 0."""
        return self.summary.exit_code or (2 if self.problems else 0)


def check_traces(traces: Sequence[Path], master: str = LOCAL) -> Checked:
    """Check every run that the files hold, with a session of our own."""
    return check_with(session(master), traces)


def check_with(spark: SparkSession, traces: Sequence[Path]) -> Checked:
    """The same with a session that is there."""
    bronze = read_bronze(spark, traces)
    bronze = bronze._replace(rows=bronze.rows.localCheckpoint(eager=True))
    found = problems(bronze)
    rows = whole_rows(bronze.rows)
    if rows.isEmpty():
        if not found:
            raise InputError(f"no trace found in {', '.join(map(str, traces))}")
        return Checked(Summary(runs=0, violations=0, properties={}, failures=(), bounds={}), found)
    command = shlex.join(["isotone", "check", "--engine", "spark", *map(str, traces)])
    return Checked(summarise(judge(silver(bronze.rows)), command), found)


def summarise(verdicts: DataFrame, command: str) -> Summary:
    """The table of verdicts as the object that ``isotone check`` prints."""
    states: dict[str, dict[str, str]] = {}
    failures: list[Failure] = []
    for row in verdicts.orderBy("run", "place").collect():
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
    )


def _statement(label: str, run: str) -> str:
    """What was promised, and where it was broken; the witness says by which events."""
    for each in PROPERTIES:
        if label in (each.id, each.label(Boundary.DAEMONS)):
            return f"In run {run}, these events break: {each.statement}"
    raise AssertionError(label)
