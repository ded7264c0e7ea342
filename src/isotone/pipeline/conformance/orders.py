"""The order in which each process delivers, and two processes two agreed messages.

Implements: [Spread 2.11.2], [Spread 2.13.2]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.stamps import doubtful_bundles
from isotone.pipeline.conformance.terms import (
    AGREED,
    BUNDLE,
    FIFO,
    MESSAGE,
    PROCESS,
    RELIABLE,
    SIDE,
    event,
    few,
    findings,
    witness,
)


def _firsts(n: Normal) -> DataFrame:
    return n.deliveries.where((F.col("turn") == 1) & (F.col("service") >= RELIABLE))


def along_senders(n: Normal) -> DataFrame:
    """Reliable deliveries with what the process had of the same sender: the lowest, and the highest that is FIFO."""
    order = Window.partitionBy(*PROCESS, "sender", "is_over").orderBy("index", "first")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    mark = F.max(F.when(F.col("service") >= FIFO, F.struct("last", (-F.col("index")).alias("index")))).over(before)
    low = F.min("first").over(before)
    ends = n.processes.where("end IS NOT NULL").select(*PROCESS, "end")
    over = F.coalesce(F.col("end") < F.col("index"), F.lit(False))  # what an ended process does begins anew
    firsts = _firsts(n).where("sent IS NOT NULL").join(ends, on=list(PROCESS), how="left").withColumn("is_over", over)
    return firsts.select(*PROCESS, "index", "first", "last", "service", mark.alias("mark"), low.alias("low"))


def follows() -> Column:
    """Whether it could have come in a wrong order among those of its sender."""
    return F.coalesce(F.col("low") < F.col("last"), F.lit(False)) | (F.col("first") < F.col("last"))


def fifo_order(n: Normal) -> DataFrame:
    """2.11.2: after a FIFO message no earlier reliable one of its sender."""
    judged = along_senders(n)
    exercised = judged.where((F.col("service") >= FIFO) & follows())
    broken = judged.where(F.col("first") < F.col("mark.last"))
    return findings(exercised, broken.select(*SIDE, witness(event(-F.col("mark.index")), event())))


def _after_agreed(n: Normal) -> DataFrame:
    """Reliable deliveries with the highest agreed stamp that the process had before."""
    order = Window.partitionBy(*PROCESS).orderBy("index", "first")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    agreed = F.max(F.when(F.col("service") >= AGREED, F.struct("stamp", (-F.col("index")).alias("index")))).over(before)
    return _firsts(n).select(*PROCESS, "sender", "bundle", "is_early", "index", "stamp", agreed.alias("agreed"))


def agreed_order(n: Normal) -> DataFrame:
    """2.13.2: stamps grow after agreed messages, and no two are delivered in two orders."""
    judged = _after_agreed(n).where("agreed IS NOT NULL")
    exercised = judged.where(-F.col("agreed.index") != F.col("index"))
    low = few(judged.where(F.col("stamp") < F.col("agreed.stamp")))
    suspects = few(low.select(*BUNDLE, "is_early").unionByName(doubtful_bundles(n)).distinct())
    broken = low.select(*SIDE, witness(event(-F.col("agreed.index")), event()))
    if suspects.isEmpty():
        return findings(exercised, broken)
    return findings(exercised, broken.unionByName(_two_orders(n, suspects)))


def _two_orders(n: Normal, suspects: DataFrame) -> DataFrame:
    """Pairs of agreed messages, one of a bundle whose stamps are in doubt, in different orders at two processes."""
    agreed = _firsts(n).where(F.col("service") >= AGREED).select(*PROCESS, *MESSAGE[2:], "bundle", "index")
    message = F.struct(*MESSAGE[2:])
    one = agreed.join(suspects, on=[*BUNDLE, "is_early"], how="left_semi")
    one = one.select(*PROCESS, message.alias("one"), F.col("index").alias("one_at"))
    other = agreed.select(*PROCESS, message.alias("other"), F.col("index").alias("other_at"))
    pairs = one.join(other, on=list(PROCESS), how="inner").where("one != other AND one_at != other_at")
    rows = F.struct(
        "node",
        "incarnation",
        F.least("one_at", "other_at").alias("low"),
        F.greatest("one_at", "other_at").alias("high"),
    )
    ahead = F.col("one_at") < F.col("other_at")
    sides = pairs.groupBy(*SIDE, "one", "other").agg(
        F.collect_set(F.when(ahead, rows)).alias("ahead"), F.collect_set(F.when(~ahead, rows)).alias("behind")
    )
    both = sides.where((F.size("ahead") > 0) & (F.size("behind") > 0))
    crossed = both.select(*SIDE, F.explode("ahead").alias("p"), "behind").select(
        *SIDE, "p", F.explode("behind").alias("q")
    )
    told = [
        event(F.col(f"{who}.{which}"), f"{who}.node", f"{who}.incarnation") for who in "pq" for which in ("low", "high")
    ]
    return crossed.select(*SIDE, witness(*told))
