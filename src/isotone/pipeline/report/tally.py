"""What the page tells of the tables: sums of all runs, and the rows of few; no more comes to the driver.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.failures import failures_named
from isotone.pipeline.metrics.form import ALL
from isotone.pipeline.stages import METRICS, VERDICTS
from isotone.pipeline.tables import manifests, read_table
from isotone.spec.verdicts import State

RUNS_DRAWN_MAX = 6
RUNS_BESIDE_MAX = 4
BROKEN_MAX = 30
COUNTED = ("sent", "delivered")
"""Metrics that are added up over all runs, drawn or not."""


_VIOLATED = State.VIOLATED.value


class Tally(NamedTuple):
    """Verdicts and messages of all runs, counted; violations and states of some, as far as the page shows them."""

    runs: tuple[str, ...]
    drawn: tuple[str, ...]
    """Of the runs at most `RUNS_DRAWN_MAX`: those with violations first."""
    states: Mapping[str, Counter[str]]
    """By label, in the order of the properties: how many runs have which verdict."""
    broken: Sequence[dict[str, Any]]
    """Rows of violations: the first `BROKEN_MAX`."""
    beside: Mapping[tuple[str, str], str]
    """The verdict of a run on a label; nothing where there are more runs than `RUNS_BESIDE_MAX`."""
    messages: Mapping[str, int]
    """How many, of each of `COUNTED`."""

    def count(self, *states: State) -> int:
        """Verdicts of these states."""
        return sum(counts[state.value] for counts in self.states.values() for state in states)


@failures_named()
def tallied(spark: SparkSession, tables: Path) -> Tally | None:
    """Of all runs of these tables that were judged; None where there are none."""
    runs = tuple(sorted(manifests(tables / VERDICTS)))
    if not runs:
        return None
    rows = read_table(spark, tables / VERDICTS)
    states = _states(rows)
    broken, first = _broken(rows) if any(counts[_VIOLATED] for counts in states.values()) else ([], [])
    beside = rows.select("run", "label", "state").collect() if len(runs) <= RUNS_BESIDE_MAX else []
    return Tally(
        runs=runs,
        drawn=tuple(dict.fromkeys([*first, *runs]))[:RUNS_DRAWN_MAX],
        states=states,
        broken=broken,
        beside={(row["run"], row["label"]): row["state"] for row in beside},
        messages=_messages(spark, tables),
    )


def _states(rows: DataFrame) -> dict[str, Counter[str]]:
    counts = rows.groupBy("place", "label", "state").count().collect()
    found: dict[str, Counter[str]] = {}
    for row in sorted(counts, key=lambda row: int(row["place"])):
        found.setdefault(row["label"], Counter())[row["state"]] += row["count"]
    return found


def _broken(rows: DataFrame) -> tuple[list[dict[str, Any]], list[str]]:
    """The first violations, and the first runs that have some."""
    violated = rows.where(F.col("state") == _VIOLATED)
    told = violated.orderBy("run", "place").limit(BROKEN_MAX).collect()
    runs = violated.select("run").distinct().orderBy("run").limit(RUNS_DRAWN_MAX).collect()
    return [row.asDict(recursive=True) for row in told], [row["run"] for row in runs]


def _messages(spark: SparkSession, tables: Path) -> dict[str, int]:
    if not manifests(tables / METRICS):
        return dict.fromkeys(COUNTED, 0)
    rows = read_table(spark, tables / METRICS).where((F.col("dimension") == ALL) & F.col("metric").isin(*COUNTED))
    sums = rows.groupBy("metric").agg(F.sum("count").alias("sum")).collect()
    return {**dict.fromkeys(COUNTED, 0), **{row["metric"]: row["sum"] for row in sums}}
