"""The order function: one stamp per bundle, no stamp twice, stamps in causal order.

Implements: [Spread Definition 2.7]. Deviations: a bundle is the unit of ordering, so its deliveries share one stamp.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    BUNDLE,
    PROCESS,
    RELIABLE,
    SIDE,
    event,
    few,
    findings,
    no_findings,
    two_first,
    witness,
)

_OWNER = (*BUNDLE, "is_early")


def _stamps(n: Normal) -> DataFrame:
    """Each bundle's stamps, with the first row of each."""
    reliable = n.pieces.where(F.col("service") >= RELIABLE)
    is_sent = F.col("sent").isNotNull() & ~F.col("is_early")
    return reliable.groupBy(*_OWNER, is_sent.alias("is_sent"), "stamp").agg(F.min(event()).alias("event"))


def doubtful_bundles(n: Normal) -> DataFrame:
    """Bundles with two stamps, or with the stamp of another."""
    return _doubtful(few(_stamps(n)))


def _doubtful(stamps: DataFrame) -> DataFrame:
    several = (
        stamps.groupBy(*_OWNER).agg(F.min("stamp").alias("low"), F.max("stamp").alias("high")).where("low != high")
    )
    owner = F.struct("sender", "bundle", "is_early")
    shared = (
        stamps.groupBy(*SIDE, "stamp").agg(F.min(owner).alias("one"), F.max(owner).alias("other")).where("one != other")
    )
    sharing = stamps.join(shared.select(*SIDE, "stamp"), on=[*SIDE, "stamp"], how="left_semi")
    return several.select(*_OWNER).unionByName(sharing.select(*_OWNER)).distinct()


def order_function(n: Normal) -> DataFrame:
    """D2.7."""
    stamps = few(_stamps(n))
    reliable = n.pieces.where(F.col("service") >= RELIABLE)
    row = F.struct("sender", "bundle", "is_early", event().alias("event"))
    exercised = reliable.groupBy(*SIDE).agg(F.min(row).alias("one"), F.max(row).alias("other")).where("one != other")
    sent = stamps.where("is_sent")
    past = few(_above_the_past(n, sent).unionByName(_sends_in_order(sent)))
    if _doubtful(stamps).isEmpty():
        return findings(exercised, past)
    broken = (
        two_first(stamps, _OWNER, "stamp")
        .select(*SIDE, "witness")
        .unionByName(two_first(stamps, (*SIDE, "stamp"), "sender").select(*SIDE, "witness"))
        .unionByName(two_first(sent, (*SIDE, "stamp", "sender"), "bundle").select(*SIDE, "witness"))
        .unionByName(past)
    )
    return findings(exercised, broken)


def _above_the_past(n: Normal, sent: DataFrame) -> DataFrame:
    """A send whose stamp is not above all that its process had delivered."""
    had = n.deliveries.where((F.col("turn") == 1) & (F.col("service") >= RELIABLE)).select(*PROCESS, "index", "stamp")
    sends = n.sends.where(F.col("service") >= RELIABLE).select(*PROCESS, "index", F.col("first").alias("bundle"))
    order = Window.partitionBy(*PROCESS).orderBy("index")
    highest = F.max(F.when(F.col("stamp").isNotNull(), F.struct("stamp", (-F.col("index")).alias("index")))).over(order)
    floors = had.unionByName(sends, allowMissingColumns=True).withColumn("floor", highest)
    floors = floors.where("bundle IS NOT NULL AND floor IS NOT NULL").select(
        *SIDE, F.col("process").alias("sender"), "bundle", event().alias("sent"),
        event(-F.col("floor.index")).alias("past"), F.col("floor.stamp").alias("floor"),
    )  # fmt: skip
    judged = sent.join(floors, on=list(BUNDLE), how="inner").where(F.col("stamp") <= F.col("floor"))
    return judged.select(*SIDE, witness(F.col("past"), F.col("sent"), F.col("event")))


def _sends_in_order(sent: DataFrame) -> DataFrame:
    """Of two sends of one process the later has the higher stamp: the first pair that has not."""
    sender = (*SIDE, "sender")
    upwards, downwards = (Window.partitionBy(*sender).orderBy(each) for each in (F.col("bundle"), -F.col("bundle")))
    below = F.max("stamp").over(upwards.rangeBetween(Window.unboundedPreceding, -1))
    above = F.min("stamp").over(downwards.rangeBetween(Window.unboundedPreceding, -1))  # a frame that only grows
    wrong = sent.withColumn("below", below).withColumn("above", above)
    wrong = wrong.where((F.col("stamp") <= F.col("below")) | (F.col("stamp") >= F.col("above")))
    wrong = few(wrong.select(*sender, "bundle", "stamp", "event"))
    if wrong.isEmpty():
        return no_findings(sent)
    first = wrong.groupBy(*sender).agg(F.min("event").alias("event"))
    one = wrong.join(first, on=[*sender, "event"], how="left_semi")
    other = wrong.select(*sender, *(F.col(name).alias(f"other_{name}") for name in ("bundle", "stamp", "event")))
    pairs = one.join(other, on=list(sender), how="inner").where(
        "bundle != other_bundle AND (other_bundle < bundle) != (other_stamp < stamp)"
    )
    return pairs.select(*SIDE, witness(F.col("event"), F.col("other_event")))
