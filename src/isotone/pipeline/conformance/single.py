"""Single deliveries: in a view, once, and as sent.

Implements: [Spread 2.1], [Spread 2.5], [Spread 2.6]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.circles import circles
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.stays import located_signals
from isotone.pipeline.conformance.terms import (
    DELIVER,
    HOME,
    INSTALL,
    LEAVE,
    MESSAGE,
    PROCESS,
    SIDE,
    SIGNAL,
    event,
    findings,
    home_incarnation,
    home_node,
    lasting_name,
    witness,
)


def initial_view(n: Normal) -> DataFrame:
    """2.1: every delivery and every signal is inside a view."""
    deliveries = n.placed.where(F.col("code") == DELIVER)
    outside = _outside(deliveries, n)
    signals = located_signals(n.touches.where(F.col("code") == SIGNAL), n.turns)
    wrong = _wrong_signals(signals, n)
    exercised = deliveries.select(*SIDE).unionByName(signals.select(*SIDE))
    return findings(exercised, outside.select(*SIDE, witness(event())).unionByName(wrong))


def _is_unknown() -> Column:
    """Whether rows were lost since the view of the process in the group was known."""
    lost = F.coalesce(F.col("loss") < F.col("index"), F.lit(False)) & (
        F.col("end").isNull() | (F.col("loss") < F.col("end"))
    )
    known = F.coalesce(F.col("known").isin(INSTALL, LEAVE), F.lit(False))
    return lost & ~known


def _wrong_signals(signals: DataFrame, n: Normal) -> DataFrame:
    about = signals.join(n.processes.select(*PROCESS, "loss", "end"), on=list(PROCESS), how="left")
    nowhere = F.col("at").isNull() & ~_is_unknown()
    elsewhere = F.col("at").isNotNull() & (F.col("stay_view") != F.col("view"))
    return about.where(nowhere | elsewhere).select(*SIDE, witness(event()))


def _outside(deliveries: DataFrame, n: Normal) -> DataFrame:
    """Deliveries in no view of any of their groups, and not private ones."""
    key = [*PROCESS, "index", "position", *MESSAGE[2:]]
    inside = deliveries.where(F.col("stay").isNotNull() & (F.size("groups") > 1)).select(*key)
    homes = n.homes.select(*HOME, "loss")
    ends = n.processes.select(*PROCESS, "end")
    candidates = deliveries.where(F.col("stay").isNull()).join(inside, on=key, how="left_anti")
    known = candidates.join(homes, on=list(HOME), how="left").join(ends, on=list(PROCESS), how="left")
    ended = F.coalesce(F.col("end") < F.col("index"), F.lit(False))
    is_client = F.col("boundary") == 0
    private = is_client & F.array_contains("groups", lasting_name(F.col("process"))) & ~ended
    open_group = ~(is_client & F.coalesce(F.col("group"), F.lit("")).startswith("#"))
    doubted = known.where(open_group & _is_unknown()).select(*key)
    return known.where(~F.coalesce(private, F.lit(False))).join(doubted, on=key, how="left_anti")


def no_duplication(n: Normal) -> DataFrame:
    """2.5: nobody delivers a message twice."""
    order = Window.partitionBy(*PROCESS, *MESSAGE[2:]).orderBy("index", "position")
    repeated = n.deliveries.where("turn <= 2").withColumn("_first", F.first("index").over(order)).where("turn = 2")
    return findings(n.pieces, repeated.select(*SIDE, witness(event("_first"), event())))


def delivery_integrity(n: Normal) -> DataFrame:
    """2.6: what is delivered was sent before, as it is."""
    altered = n.pieces.where("NOT is_early AND NOT is_true").select(*SIDE, witness(F.col("sent"), event()))
    early = n.pieces.where("is_early AND size(clients) > 0").select(*SIDE, witness(F.col("sent"), event()))
    apart = altered.unionByName(early).unionByName(_never_sent(n))
    return findings(n.pieces, apart.unionByName(circles(n)))


def _never_sent(n: Normal) -> DataFrame:
    """Without a send, where the sender's record is whole up to the end."""
    text = F.col("sender")
    alone = n.pieces.where("sent IS NULL AND size(clients) > 0").select(
        *SIDE,
        witness(event()),
        "sender",
        home_node(text).alias("_node"),
        home_incarnation(text).alias("_incarnation"),
    )
    met = n.processes.where("NOT is_ghost").select(*SIDE, F.col("process").alias("sender"), F.lit(True).alias("is_met"))
    heard = n.deliveries.where("turn = 1").select(*PROCESS).distinct()
    own = (home_node(F.col("process")) == F.col("node")) & (home_incarnation(F.col("process")) == F.col("incarnation"))
    heard = heard.where(own).select(*SIDE, F.col("process").alias("sender"), F.lit(True).alias("is_met"))
    homes = n.homes.select("run", F.col("node").alias("_node"), F.col("incarnation").alias("_incarnation"), "loss")
    known = (
        alone.join(met.unionByName(heard).distinct(), on=[*SIDE, "sender"], how="left")
        .join(homes, on=["run", "_node", "_incarnation"], how="left")
        .join(n.runs.select("run", "is_lossy"), on="run", how="left")
    )
    excused = F.when(F.col("is_met"), F.col("loss").isNotNull()).otherwise(F.col("is_lossy"))
    return known.where(~F.coalesce(excused, F.lit(False))).select(*SIDE, "witness")
