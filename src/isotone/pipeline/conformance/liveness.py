"""What a run with a stable, quiet end owes.

Implements: [Spread 2.15], [Spread 2.16], [Spread 2.17]. Deviations: D-termination.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import is_ghost, sided
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    DAEMONS,
    LEAVE,
    PLACE,
    PROCESS,
    RELIABLE,
    SEND,
    SIDE,
    event,
    few,
    findings,
    two_first,
    witness,
)

_ACTIVE = ("send", "deliver", "view", "transsig", "join", "ssend", "sdeliver", "sview", "stranssig")


def _judged_sides(n: Normal) -> DataFrame:
    """Runs that are settled and whole, at boundaries where anything happened."""
    active = sided(n.rows).where(F.col("kind").isin(*_ACTIVE)).select(*SIDE).distinct()
    settled = n.runs.where("is_settled AND NOT is_lossy").select("run", "components")
    return active.join(settled, on="run", how="inner")


def _alive(n: Normal) -> DataFrame:
    living = n.processes.where("NOT is_ghost AND end IS NULL AND crash IS NULL").select(*PROCESS)
    return living.join(_judged_sides(n).select(*SIDE), on=list(SIDE), how="left_semi")


def _own_sends(n: Normal) -> DataFrame:
    """Reliable sends of the living to groups they are in; ``is_owed``: and did not ask to leave since."""
    requests = (
        sided(n.rows)
        .where(F.col("kind") == "leave")
        .select(*PROCESS[:4], F.explode("clients").alias("process"), F.get("groups", F.lit(0)).alias("group"), "index")
    )
    leaves = n.turns.where(F.col("code") == LEAVE).select(*PLACE, "index")
    lasts = requests.unionByName(leaves).groupBy(*PLACE).agg(F.max("index").alias("asked"))
    sent = n.placed.where((F.col("code") == SEND) & F.col("stay").isNotNull() & (F.col("service") >= RELIABLE))
    mine = sent.join(_alive(n), on=list(PROCESS), how="left_semi").join(lasts, on=list(PLACE), how="left")
    return mine.withColumn("is_owed", F.col("asked").isNull() | (F.col("asked") < F.col("index")))


def _whole_deliveries(n: Normal, bundles: DataFrame) -> DataFrame:
    """Which true processes delivered all messages of these bundles."""
    wanted = bundles.select(
        *SIDE, "sender", F.col("first").alias("bundle"), F.col("last").alias("bundle_last")
    ).distinct()
    had = n.deliveries.where((F.col("turn") == 1) & F.col("sent").isNotNull()).where(~is_ghost())
    counted = had.join(wanted, on=[*SIDE, "sender", "bundle"], how="inner").groupBy(
        *SIDE, "sender", "bundle", "bundle_last", "process"
    ).agg(F.sum(F.col("last") - F.col("first") + 1).alias("messages"))  # fmt: skip
    return counted.where("messages = bundle_last - bundle + 1").select(
        *SIDE, "sender", F.col("bundle").alias("first"), F.col("process").alias("member")
    )


def self_delivery(n: Normal) -> DataFrame:
    """2.15: who sent to a group that it is still in has delivered it."""
    owed = few(_own_sends(n).where("is_owed"))
    had = _whole_deliveries(n, owed).where("member = sender").select(*SIDE, "sender", "first")
    broken = owed.join(had, on=[*SIDE, "sender", "first"], how="left_anti")
    return findings(owed, broken.select(*SIDE, witness(event())))


def termination(n: Normal) -> DataFrame:
    """2.17: what was sent in a sender's last view has reached all members of that view."""
    open_stays = n.stays.where("left IS NULL").select(*PLACE, "at", "members")
    sent = _own_sends(n).withColumn("at", F.col("stay.at")).join(open_stays, on=[*PLACE, "at"], how="inner")
    counting = F.bool_or("is_owed").over(Window.partitionBy(*PLACE, "at"))
    owed = few(sent.withColumn("is_counting", counting).where("is_counting"))
    reached = _whole_deliveries(n, owed)
    wanted = owed.select(*SIDE, "sender", "first", event().alias("event"), F.explode("members").alias("member"))
    broken = wanted.join(reached, on=[*SIDE, "sender", "first", "member"], how="left_anti")
    return findings(owed, broken.select(*SIDE, witness(F.col("event"))))


def membership_precision(n: Normal) -> DataFrame:
    """2.16: in each component the members of a group are in one view with exactly them."""
    components = _judged_sides(n).select(*SIDE, F.posexplode("components").alias("component", "nodes"))
    belongs = components.select(*SIDE, "component", F.explode("nodes").alias("node"))
    silent = _silent(n, belongs)
    now = few(_now(n).join(belongs, on=[*SIDE, "node"], how="inner"))
    group = (*SIDE, "component", "group")
    texts = now.groupBy(*group).agg(F.array_sort(F.collect_set("process")).alias("texts"))
    judged = few(now.join(texts, on=list(group), how="inner").join(silent, on=[*SIDE, "component"], how="left"))
    never = judged.where("at IS NULL").select(*SIDE, witness(event("joining")))
    here = judged.where("at IS NOT NULL")
    wrong = F.col("is_silent").isNotNull() | (F.col("members") != F.col("texts"))
    others = here.where(wrong).select(*SIDE, witness(event("at")))
    apart = two_first(here.where(~wrong).withColumn("event", event("at")), group, "view").select(*SIDE, "witness")
    return findings(judged, never.unionByName(others).unionByName(apart))


def _silent(n: Normal, belongs: DataFrame) -> DataFrame:
    """Components with a daemon of which nothing is recorded."""
    known = n.boundary_homes.select(*SIDE, "node").distinct()
    missing = belongs.where(F.col("boundary") == DAEMONS).join(known, on=[*SIDE, "node"], how="left_anti")
    return missing.select(*SIDE, "component", F.lit(True).alias("is_silent")).distinct()


def _now(n: Normal) -> DataFrame:
    """The living in the groups that they are in, or wait to join."""
    stays = n.stays.where("left IS NULL").select(*PLACE, "at", "view", "members")
    lasts = n.asks.groupBy(*PLACE).agg(F.max_by("joining", "index").alias("joining")).where("joining IS NOT NULL")
    both = stays.join(lasts, on=list(PLACE), how="full")
    return both.join(_alive(n), on=list(PROCESS), how="left_semi")
