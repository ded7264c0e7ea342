"""Gold tables as plain rows, for what prints or draws them: they are small by now.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession

from isotone.pipeline.failures import failures_named
from isotone.pipeline.stages import METRICS, TIMELINE, VERDICTS
from isotone.pipeline.tables import manifests, read_table, reading

Rows = list[dict[str, Any]]


def metric_rows(spark: SparkSession, out: Path, runs: Sequence[str] | None = None) -> Rows:
    """The metrics of these runs, or of all, in order."""
    return table_rows(spark, out / METRICS, "run", "metric", "dimension", "place", "key", runs=runs)


def verdict_rows(spark: SparkSession, out: Path, runs: Sequence[str] | None = None) -> Rows:
    """The verdicts of these runs, or of all, in the order of the properties."""
    return table_rows(spark, out / VERDICTS, "run", "place", runs=runs)


def timeline_rows(
    spark: SparkSession, out: Path, runs: Sequence[str] | None = None, *, where: Column | None = None
) -> Rows:
    """What happened to nodes in these runs, in order of time."""
    return table_rows(spark, out / TIMELINE, "run", "at", "node", "incarnation", "index", runs=runs, where=where)


@failures_named()
def table_rows(
    spark: SparkSession, table: Path, *order: str, runs: Sequence[str] | None = None, where: Column | None = None
) -> Rows:
    """The rows of these runs, or of all, in this order."""
    with reading(table.parent):
        known = manifests(table)
        wanted = [run for run in (known if runs is None else runs) if run in known]
        if not wanted:
            return []
        rows = read_table(spark, table, wanted)
        found = [row.asDict(recursive=True) for row in (rows if where is None else rows.where(where)).collect()]
    return sorted(found, key=lambda row: tuple(_sortable(row[name]) for name in order))


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)
