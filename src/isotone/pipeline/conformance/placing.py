"""Where sends and deliveries take place: the stay that their process is in, in each of the message's groups.

One window per process and group over its few turns and its many messages; nothing is joined by ranges, and no group is
one task.

Implements: Definition 2.5 of [Spread]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import ASK, DELIVER, INSTALL, LEAVE, LOSS, PLACE, SEND, SIGNAL

_TURNING = ("I", "V", "E", "X")


def placed(deliveries: DataFrame, sends: DataFrame, marks: DataFrame) -> DataFrame:
    """Every delivery and send, once per group, with its stay: ``stay`` is null outside views."""
    delivered = deliveries.select("*", F.explode_outer("groups").alias("group"), F.lit(DELIVER).alias("code"))
    sent = sends.select("*", F.explode_outer("groups").alias("group"), F.lit(SEND).alias("code"))
    sent = sent.drop("lengths", "digests", "count", "content")
    both = delivered.unionByName(sent, allowMissingColumns=True).unionByName(marks, allowMissingColumns=True)
    order = Window.partitionBy(*PLACE).orderBy("index", F.col("position").asc_nulls_first())
    located = both.select(
        "*",
        F.last(F.when(F.col("code").isin(*_TURNING), F.col("mark")), ignorenulls=True).over(order).alias("turn_mark"),
        F.last(_known(), ignorenulls=True).over(order).alias("known"),
        F.last(F.when(F.col("code") == SIGNAL, F.col("index")), ignorenulls=True).over(order).alias("signalled"),
        F.last("leaving", ignorenulls=True).over(order).alias("leaves"),
    )
    inside = F.when(F.col("turn_mark.code") == INSTALL, F.col("turn_mark")).alias("stay")
    kept = located.where(F.col("code").isin(DELIVER, SEND)).withColumn("stay", inside)
    late = F.coalesce(F.col("signalled") > F.col("stay.at"), F.lit(False))
    return kept.withColumn("is_late", late).drop("turn_mark", "mark", "signalled", "leaving")


def _known() -> Column:
    return F.when(F.col("code").isin(INSTALL, LEAVE, LOSS), F.col("code"))


def marks(turned: DataFrame, touched: DataFrame, stays: DataFrame, asked: DataFrame) -> DataFrame:
    """Turns and signals as rows of the same window; an installation carries what must be known of its stay."""
    members = F.xxhash64("members").alias("members")
    mark = F.struct("code", F.col("index").alias("at"), "view", members, "is_regular").alias("mark")
    installed = stays.select(*PLACE, "index", "position", "code", mark)
    others = turned.where(F.col("code") != INSTALL).withColumn("is_regular", F.lit(False))
    ends = others.select(*PLACE, "index", "position", "code", mark)
    signals = touched.where(F.col("code") == SIGNAL).select(*PLACE, "index", "position", "code")
    requests = asked.select(*PLACE, "index", F.lit(ASK).alias("code"), "leaving")
    turning = installed.unionByName(ends).unionByName(signals, allowMissingColumns=True)
    return turning.unionByName(requests, allowMissingColumns=True)
