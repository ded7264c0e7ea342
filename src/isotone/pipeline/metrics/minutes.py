"""Runs minute by minute: how much was delivered, how long it took, and how far nodes lagged behind the first.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import CLIENTS
from isotone.pipeline.metrics.messages import Traffic

MINUTE_US = 60_000_000
MINUTES = (
    "run string, minute bigint, delivered bigint, latency_p50_us double, latency_p99_us double, lag_p50_us double, "
    "lag_p99_us double"
)
"""``minute`` counts from the first delivery of the run. ``lag`` is how much later than the first node a node delivers.
Null where a delivery has no send in the trace."""


def minutes(traffic: Traffic) -> DataFrame:
    """A row for each minute of each run in which clients were delivered something."""
    of_run = Window.partitionBy("run")
    bundle = Window.partitionBy("run", "sender", "first")
    known = traffic.receipts.where(F.col("boundary") == CLIENTS).select(
        "run",
        F.floor((F.col("at") - F.min("at").over(of_run)) / F.lit(MINUTE_US)).cast("bigint").alias("minute"),
        "latency",
        (F.col("at") - F.min("at").over(bundle)).alias("lag"),
        (F.col("count") * F.col("receivers")).cast("bigint").alias("times"),
    )
    half, most = F.lit(0.5), F.lit(0.99)
    return known.groupBy("run", "minute").agg(
        F.sum("times").alias("delivered"),
        F.percentile("latency", half, F.col("times")).alias("latency_p50_us"),
        F.percentile("latency", most, F.col("times")).alias("latency_p99_us"),
        F.percentile("lag", half, F.col("times")).alias("lag_p50_us"),
        F.percentile("lag", most, F.col("times")).alias("lag_p99_us"),
    )
