"""No holes: what a process must have delivered below an agreed message, before and after the signal of its view.

What all who installed the view have in it is no hole of anyone; only the rest is looked at.

Implements: [Spread 2.13.3], [Spread 2.13.4]. Deviations: D-cut.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    AGREED,
    INSTALL,
    LOSS,
    MESSAGE,
    PROCESS,
    RELIABLE,
    SIDE,
    STAY,
    VIEW,
    event,
    few,
    findings,
    no_findings,
    witness,
)

_BODY = MESSAGE[2:]
_WHO = PROCESS[2:]


def no_holes_before(n: Normal) -> DataFrame:
    """2.13.3."""
    had = n.held
    strong = had.where(F.col("service") >= RELIABLE)
    judged = few(_judged(n, _heights(had, is_late=False)).where("high IS NOT NULL"))
    lows = strong.groupBy(*VIEW, *_WHO).agg(F.min("stamp").alias("low"))
    lowest = lows.groupBy(*VIEW).agg(
        F.slice(F.array_sort(F.collect_list(F.struct("low", *_WHO))), 1, 2).alias("lowest")
    )
    below = F.exists("lowest", lambda each: (each["process"] != F.col("process")) & (each["low"] < F.col("high.stamp")))
    exercised = judged.join(lowest, on=list(VIEW), how="inner").where(below)
    partial = few(incomplete(n.regular, strong))
    if partial.isEmpty():
        return findings(exercised, no_findings(exercised))
    holes = _holes(n, judged, strong, partial)
    return findings(exercised, holes.select(*SIDE, witness(_high(), F.col("event"))))


def no_holes_after(n: Normal) -> DataFrame:
    """2.13.4."""
    had = n.held
    strong = had.where(F.col("service") >= RELIABLE)
    judged = few(_judged(n, _heights(had, is_late=True)).where((F.col("left") == INSTALL) & F.col("high").isNotNull()))
    if judged.isEmpty():
        return findings(judged, no_findings(judged))
    moving = F.array_contains("next_transitional", F.col("sender"))
    lows = strong.groupBy(*VIEW, "sender", F.col("process").alias("other")).agg(F.min("stamp").alias("low"))
    compared = judged.join(lows, on=list(VIEW), how="inner")
    exercised = compared.where(moving & (F.col("other") != F.col("process")) & (F.col("low") < F.col("high.stamp")))
    partial = few(incomplete(n.regular, strong))
    if partial.isEmpty():
        return findings(exercised, no_findings(exercised))
    holes = _holes(n, judged, strong, partial).where(moving & F.col("signal").isNotNull())
    return findings(exercised, holes.select(*SIDE, witness(event("signal"), _high(), event("left_at"), F.col("event"))))


def _heights(had: DataFrame, *, is_late: bool) -> DataFrame:
    """Per stay the highest agreed stamp on one side of the signal, and the first row that has it."""
    agreed = had.where((F.col("service") >= AGREED) & (F.col("is_late") == is_late))
    highest = F.max(F.struct("stamp", (-F.col("index")).alias("index")))
    return agreed.groupBy(*STAY).agg(highest.alias("high"))


def _high() -> Column:
    return event(-F.col("high.index"))


def _judged(n: Normal, heights: DataFrame) -> DataFrame:
    """Stays of which all is known that happened in them."""
    homes = n.homes.select("run", "node", "incarnation", F.col("loss").alias("home_loss"))
    stays = n.regular.join(heights, on=list(STAY), how="inner")
    known = stays.join(homes, on=["run", "node", "incarnation"], how="left")
    known = known.join(n.runs.select("run", "is_settled"), on="run", how="left")
    still = F.col("left").isNull() & F.col("is_settled") & F.col("home_loss").isNull()
    over = (F.col("left") != LOSS) & F.col("is_complete")
    return known.where(still | over)


def incomplete(stays: DataFrame, had: DataFrame) -> DataFrame:
    """Messages that not all who installed the view had in it."""
    sizes = stays.groupBy(*VIEW).agg(F.count("*").alias("size"))
    counts = had.groupBy(*VIEW, *_BODY).agg(F.count("*").alias("holders"))
    return counts.join(sizes, on=list(VIEW), how="inner").where("holders < size").select(*VIEW, *_BODY)


def _holes(n: Normal, judged: DataFrame, strong: DataFrame, partial: DataFrame) -> DataFrame:
    """What others delivered in the view below the height of a stay, and its process not until it left."""
    facts = judged.select(*VIEW, *_WHO, "high", "signal", "left_at", "next_transitional")
    wanted = partial.join(facts, on=list(VIEW), how="inner")
    lacking = wanted.join(strong.select(*VIEW, *_BODY, *_WHO), on=[*VIEW, *_BODY, *_WHO], how="left_anti")
    firsts = n.deliveries.where("turn = 1").select(*PROCESS, *_BODY, F.col("index").alias("delivered"))
    missing = lacking.join(firsts, on=[*PROCESS, *_BODY], how="left").where(
        "delivered IS NULL OR (left_at IS NOT NULL AND delivered >= left_at)"
    )
    theirs = strong.select(*VIEW, *_BODY, "stamp", "event")
    return missing.join(theirs, on=[*VIEW, *_BODY], how="inner").where(F.col("stamp") < F.col("high.stamp"))
