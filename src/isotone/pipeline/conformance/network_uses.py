"""The rows of the network below, each with the use of a network that its node is in.

Implements: the terms of [Spread 2.21] to [Spread 2.23]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import NETWORK, event

TRAFFIC = ("ninit", "nmcast", "nreceive", "linkfailed")
_KINDS = (*TRAFFIC, "crash", "gap", "truncated")


def uses(rows: DataFrame) -> DataFrame:
    """The rows of the network, each with the use of a network that its node is in, and the first failure in it."""
    kind = F.col("kind")
    told = rows.where(kind.isin(*_KINDS) & (F.col("node") != "")).select(
        "run",
        F.lit(NETWORK).alias("boundary"),
        "node",
        "incarnation",
        "index",
        "kind",
        F.get("clients", F.lit(0)).alias("daemon"),
        "sender",
        "network",
        "first",
        "servers",
        F.get("digests", F.lit(0)).alias("digest"),
        event().alias("event"),
    )
    order = Window.partitionBy("run", "node").orderBy("incarnation", "index")
    turning = kind.isin("ninit", "crash", "gap", "truncated")
    record = Window.partitionBy("run", "node", "incarnation")
    told = told.withColumn("is_lossy", F.max(kind.isin("gap", "truncated")).over(record))
    start = F.struct("kind", "event", "daemon", "network", "servers", "is_lossy", "incarnation")
    lost = F.max(kind.isin("gap", "truncated").cast("int")).over(order.rowsBetween(Window.unboundedPreceding, -1))
    known = told.select(
        "*",
        F.last(F.when(turning, start), ignorenulls=True)
        .over(order.rowsBetween(Window.unboundedPreceding, -1))
        .alias("last"),
        F.coalesce(lost == 1, F.lit(False)).alias("is_doubtful"),
    )
    # the crash of an earlier incarnation may be among the rows that were lost
    over = F.col("last.is_lossy") & (F.col("last.incarnation") < F.col("incarnation"))
    used = F.when((F.col("last.kind") == "ninit") & ~over, F.col("last"))
    using = known.withColumn("use", used).drop("last", "is_lossy")
    inside = F.coalesce(F.col("use.network") == F.col("network"), F.lit(False))
    using = using.withColumn("is_inside", inside)
    failed = F.min(F.when((kind == "linkfailed") & F.col("is_inside"), F.struct("incarnation", "index", "event")))
    in_use = Window.partitionBy("run", "node", "use.event").orderBy("incarnation", "index")
    first = failed.over(in_use.rowsBetween(Window.unboundedPreceding, -1))
    return using.withColumn("failed", F.when(F.col("is_inside"), first["event"]))
