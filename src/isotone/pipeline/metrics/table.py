"""All metrics of all runs, as one table.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from isotone.pipeline.metrics.changes import silences, view_changes
from isotone.pipeline.metrics.flow import flow, network
from isotone.pipeline.metrics.form import summed
from isotone.pipeline.metrics.latency import latency
from isotone.pipeline.metrics.messages import Traffic, traffic


def metrics(silver: DataFrame) -> DataFrame:
    """One row per run, metric, dimension and key."""
    return metrics_of(traffic(silver))


def metrics_of(found: Traffic) -> DataFrame:
    """The same from messages in common time."""
    return summed(latency(found), *flow(found), *network(found), *view_changes(found), silences(found))
