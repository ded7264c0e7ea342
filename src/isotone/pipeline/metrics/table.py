"""All metrics of all runs, as one table.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.changes import silences, view_changes
from isotone.pipeline.metrics.flow import flow, network
from isotone.pipeline.metrics.form import dimension, measured, summed, undivided
from isotone.pipeline.metrics.latency import latency
from isotone.pipeline.metrics.links import links
from isotone.pipeline.metrics.messages import Traffic, traffic

CLOCK_ERROR = "clock error"


def metrics(silver: DataFrame) -> DataFrame:
    """One row per run, metric, dimension and key."""
    return metrics_of(traffic(silver))


def metrics_of(found: Traffic) -> DataFrame:
    """The same from messages in common time."""
    return summed(
        latency(found),
        *flow(found),
        *network(found),
        *links(found),
        *view_changes(found),
        silences(found),
        _clock_errors(found),
    )


def _clock_errors(found: Traffic) -> DataFrame:
    """Where clocks drift, by how much the times of a node contradict its messages: a warning, absent where all suit."""
    wrong = found.offsets.where("error > 0")
    return measured(
        wrong, CLOCK_ERROR, "us", F.col("error"), F.lit(1), undivided(), dimension("node", F.col("node"))
    )  # fmt: skip
