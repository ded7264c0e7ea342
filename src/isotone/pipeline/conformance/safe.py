"""SAFE: when one process delivers, all members have it, or those who go on together.

Daemons have it in the view; clients in whatever view, before the step by which it is too late. What all members had in
the view itself is fine at once; the rest is looked at member by member.

Implements: [Spread 2.14.2], [Spread 2.14.3]. Deviations: D-other-side.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.members import states
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    INSTALL,
    MESSAGE,
    PROCESS,
    SAFE,
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


def safe_before(n: Normal) -> DataFrame:
    """2.14.2."""
    had = n.held.where(F.col("service") == SAFE)
    holders = had.where("NOT is_late").select(*VIEW, *_BODY, "process", "event")
    counts = _counted(n, had)
    easy = counts.where("holders >= size AND size > 1 AND is_before").select(*SIDE)
    partial = few(counts.where("holders < size AND is_before"))
    if partial.isEmpty():
        return findings(easy, no_findings(easy))
    judged = states(n, partial)
    owed = judged.join(holders, on=[*VIEW, *_BODY], how="inner").where("member != process AND is_fine IS NOT NULL")
    broken = owed.where("NOT is_fine").select(*SIDE, witness(F.col("event"), F.col("row")))
    return findings(easy.unionByName(owed.select(*SIDE)), broken)


def safe_after(n: Normal) -> DataFrame:
    """2.14.3."""
    had = n.held.where(F.col("service") == SAFE)
    moves = n.regular.where(F.col("left") == INSTALL)
    moves = moves.select(
        *STAY, event("signal").alias("signal"), event("left_at").alias("left_event"), "next_transitional"
    )
    late = few(had.where("is_late").join(moves, on=list(STAY), how="inner"))
    if late.isEmpty():
        return findings(late, no_findings(late))
    holders = late.select(*VIEW, *_BODY, "process", "event", "signal", "left_event", "next_transitional")
    counts = _counted(n, had)
    partial, whole = counts.where("holders < size"), counts.where("holders >= size")
    easy = holders.join(whole, on=[*VIEW, *_BODY], how="inner")
    mates = F.array_intersect("next_transitional", "members")
    easy = easy.where(F.size(F.array_except(mates, F.array("process"))) > 0)
    judged = states(n, partial.join(holders, on=[*VIEW, *_BODY], how="left_semi"))
    owed = judged.join(holders, on=[*VIEW, *_BODY], how="inner").where(
        (F.col("member") != F.col("process"))
        & F.array_contains("next_transitional", F.col("member"))
        & F.col("is_fine").isNotNull()
    )
    rows = witness(F.col("signal"), F.col("event"), F.col("left_event"), F.col("row"))
    return findings(easy.select(*SIDE).unionByName(owed.select(*SIDE)), owed.where("NOT is_fine").select(*SIDE, rows))


def _counted(n: Normal, had: DataFrame) -> DataFrame:
    """SAFE messages by view: how many of its members had them in it, and whether anyone before its signal."""
    views = n.regular.groupBy(*VIEW).agg(F.first("members").alias("members"))
    views = views.withColumn("size", F.size("members"))
    before = F.bool_or(~F.col("is_late")).alias("is_before")
    counts = had.groupBy(*VIEW, *_BODY).agg(F.count("*").alias("holders"), before)
    return few(counts.join(views, on=list(VIEW), how="inner"))
