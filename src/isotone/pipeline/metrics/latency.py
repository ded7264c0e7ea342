"""Latency: from a send to each delivery of it, by service, size, distance and load.

A bundle's delivery counts once for each message and receiver. *Distance* is the least time that anything took between
the two nodes in the run; *load* is how many messages a second were being sent in the run at the time of the send.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.form import dimension, measured, undivided
from isotone.pipeline.metrics.messages import Traffic, by_size, service_name, who

_DISTANCES = ((1_000, "under 1 ms"), (10_000, "1 to 10 ms"), (100_000, "10 to 100 ms"))


def latency(traffic: Traffic) -> DataFrame:
    """Measurements in microseconds."""
    known = _with_load(_with_distance(traffic.receipts.where("sent_at IS NOT NULL")), traffic.sends)
    size, times = _power(F.col("each.size")), F.col("each.times") * F.col("receivers")
    by_sizes = dimension("size", _up_to(size, " bytes"), size)
    sized = measured(by_size(known), who("latency"), "us", F.col("latency"), times, by_sizes)
    return measured(
        known,
        who("latency"),
        "us",
        F.col("latency"),
        F.col("count") * F.col("receivers"),
        undivided(),
        dimension("service", service_name(), F.col("service")),
        dimension("distance", _distance(), F.col("least")),
        dimension("load", _up_to(_power(F.col("load")), " messages/s"), _power(F.col("load"))),
    ).unionByName(sized)


def _power(value: Column) -> Column:
    """The next power of two."""
    return F.pow(F.lit(2.0), F.ceil(F.log2(F.greatest(value, F.lit(1.0)))))


def _up_to(value: Column, unit: str) -> Column:
    return F.concat(F.lit("up to "), value.cast("bigint").cast("string"), F.lit(unit))


def _with_distance(receipts: DataFrame) -> DataFrame:
    pair = ("run", "sent_node", "node")
    nearest = receipts.where("sent_node != node").groupBy(*pair).agg(F.min("latency").alias("nearest"))
    known = receipts.join(F.broadcast(nearest), on=list(pair), how="left")
    bands = F.when(F.col("nearest").isNull(), -1.0)  # the same node
    for limit, _ in _DISTANCES:
        bands = bands.when(F.col("nearest") < limit, float(limit))
    return known.withColumn("least", bands.otherwise(float(10 * _DISTANCES[-1][0]))).drop("nearest")


def _distance() -> Column:
    told = F.when(F.col("least") < 0, "same node")
    for limit, name in _DISTANCES:
        told = told.when(F.col("least") == limit, name)
    return told.otherwise("over 100 ms")


def _with_load(receipts: DataFrame, sends: DataFrame) -> DataFrame:
    """Messages a second, sent in the step of time of the send."""
    per_second = F.sum("count") * 1_000_000 / F.first("width_us")
    loads = sends.groupBy("run", "boundary", "step").agg(per_second.alias("load"))
    widths = sends.groupBy("run").agg(F.first("width_us").alias("send_width"))
    placed = receipts.drop("step", "width_us").join(F.broadcast(widths), on="run", how="left")
    step = (F.floor(F.col("sent_at") / F.col("send_width")) * F.col("send_width")).cast("bigint")
    return placed.withColumn("step", step).join(F.broadcast(loads), on=["run", "boundary", "step"], how="left")
