"""Traces as they grow, judged by a streaming query: verdicts, latency and lag by minute, the first violation at once.

The source ``isotone-traces`` says how large the files are; each micro-batch reads what is new into the tables of a
directory, as ``isotone pipeline run`` does, and judges the runs that have grown, each as a whole: promises are about
runs, not about their latest rows. So a batch costs what these runs cost.

Implements: [DESIGN 5], conformance. Deviations: none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from isotone.pipeline.bronze import Problem
from isotone.pipeline.checking import summary_of
from isotone.pipeline.gold import table_rows
from isotone.pipeline.stages import MINUTES, refresh, refresh_minutes
from isotone.pipeline.tables import writing
from isotone.pipeline.trace_source import NAME, TraceSource
from isotone.sim.summary import Failure, Summary

CHECKPOINT = "checkpoint"


class Look(NamedTuple):
    """What one micro-batch found of the runs that had grown."""

    runs: tuple[str, ...]
    summary: Summary
    minutes: list[dict[str, Any]]
    """The rows of the table of minutes, of these runs."""
    new: tuple[Failure, ...]
    """Violations that no batch of this query has told."""
    problems: tuple[Problem, ...]


def watch(
    spark: SparkSession,
    traces: Sequence[Path],
    out: Path,
    *,
    trigger: Mapping[str, Any],
    tell: Callable[[Look], object],
) -> StreamingQuery:
    """Start the query; ``tell`` is called after each batch in which something had grown."""
    spark.dataSource.register(TraceSource)
    known: set[tuple[str, str]] = set()

    def look(batch: DataFrame, number: int) -> None:
        del batch, number
        found = _refreshed(spark, traces, out, known)
        if found.runs or found.problems:
            tell(found)

    files = json.dumps([str(path.absolute()) for path in traces])
    rows = spark.readStream.format(NAME).option("paths", files).load()
    writer = rows.writeStream.foreachBatch(look).option("checkpointLocation", str(out / CHECKPOINT))
    return writer.trigger(**trigger).start()


def _refreshed(spark: SparkSession, traces: Sequence[Path], out: Path, known: set[tuple[str, str]]) -> Look:
    with writing(out) as held:
        done = refresh(spark, traces, out, measuring=False, held=held)
        refresh_minutes(spark, out)
    summary = summary_of(spark, out, traces, done.runs)
    minutes = table_rows(spark, out / MINUTES, "run", "minute", runs=done.runs)
    new = tuple(each for each in summary.failures if (each.property, each.explanation) not in known)
    known.update((each.property, each.explanation) for each in new)
    return Look(done.runs, summary, minutes, new, done.problems)
