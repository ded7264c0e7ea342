"""Virtual synchrony: who leave a view together had the same messages in it, and the same signal among them.

Implements: [Spread 2.7], [Spread 2.8.2]. Deviations: D-cut.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.held import STAY, TOGETHER, fingerprint, left_event, nothing
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    AGREED,
    MESSAGE,
    RELIABLE,
    SIDE,
    event,
    few,
    findings,
    no_findings,
    witness,
)

_BODY = MESSAGE[2:]


def virtual_synchrony(n: Normal) -> DataFrame:
    """2.7."""
    stays = n.together
    strong = n.held.where(F.col("service") >= RELIABLE)
    sums = strong.groupBy(*STAY).agg(*fingerprint(F.lit(True), "sum"))
    summed = stays.join(sums, on=list(STAY), how="left").withColumn("sum", F.coalesce("sum", nothing()))
    companies = few(summed.groupBy(*TOGETHER).agg(F.min("sum").alias("low"), F.max("sum").alias("high")))
    exercised = companies.where(F.col("high") != nothing())
    suspects = few(stays.join(companies.where("low != high").select(*TOGETHER), on=list(TOGETHER), how="left_semi"))
    return findings(exercised, _missing(suspects, strong))


def _missing(suspects: DataFrame, strong: DataFrame) -> DataFrame:
    """What one had and another, who left with it, had not."""
    key = [*TOGETHER, *_BODY]
    moves = suspects.select(*STAY, "next", left_event().alias("left_event"))
    if suspects.isEmpty():
        return no_findings(suspects)
    theirs = few(strong.join(moves, on=list(STAY), how="inner"))
    union = theirs.select(*key).distinct()
    wanted = union.join(
        suspects.select(*TOGETHER, *STAY[2:5], left_event().alias("lacks")), on=list(TOGETHER), how="inner"
    )
    lacking = wanted.join(theirs.select(*key, *STAY[2:5]), on=[*key, *STAY[2:5]], how="left_anti")
    pairs = lacking.select(*key, "lacks").join(theirs.select(*key, "event", "left_event"), on=key, how="inner")
    return pairs.select(*SIDE, witness(F.col("event"), F.col("left_event"), F.col("lacks")))


def signals_together(n: Normal) -> DataFrame:
    """2.8.2: all or none have the signal, with the same agreed messages before and after it."""
    stays = n.together
    agreed = n.held.where(F.col("service") >= AGREED)
    late = F.col("is_late")
    sums = agreed.groupBy(*STAY).agg(*fingerprint(~late, "before"), *fingerprint(late, "after"))
    summed = _summed(stays, sums)
    companies = summed.groupBy(*TOGETHER).agg(
        F.min("sum").alias("low"),
        F.max("sum").alias("high"),
        F.bool_or(F.col("signal").isNotNull()).alias("is_signalled"),
    )
    signalled = few(companies.where("is_signalled"))
    suspects = few(stays.join(signalled.where("low != high").select(*TOGETHER), on=list(TOGETHER), how="left_semi"))
    if suspects.isEmpty():
        return findings(signalled, no_findings(suspects))
    pairs = few(_pairs(suspects))
    lonely = pairs.where("other_signal IS NULL").select(*SIDE, witness(*_rows("signal", "left_at", "other_left_at")))
    return findings(signalled, lonely.unionByName(_sides(pairs, agreed)))


def _summed(stays: DataFrame, sums: DataFrame) -> DataFrame:
    renamed = sums.withColumnRenamed("before", "sum_before").withColumnRenamed("after", "sum_after")
    joined = stays.join(renamed, on=list(STAY), how="left")
    before, after = F.coalesce("sum_before", nothing()), F.coalesce("sum_after", nothing())
    return joined.withColumn("sum", F.struct(F.col("signal").isNotNull(), before, after))


def _pairs(suspects: DataFrame) -> DataFrame:
    """One that had a signal, and another of its company."""
    mine = suspects.where("signal IS NOT NULL").select(*TOGETHER, *STAY[2:5], "at", "signal", "left_at")
    names = (*STAY[2:5], "at", "signal", "left_at")
    theirs = suspects.select(*TOGETHER, *(F.col(name).alias(f"other_{name}") for name in names))
    return mine.join(theirs, on=list(TOGETHER), how="inner").where("process != other_process OR node != other_node")


def _rows(*names: str) -> list[Column]:
    """The rows of the one and, by names that begin so, of the other."""
    return [
        event(name, "other_node", "other_incarnation") if name.startswith("other_") else event(name) for name in names
    ]


def _sides(pairs: DataFrame, agreed: DataFrame) -> DataFrame:
    """What the one had before (or after) its signal and the other not before (or after) its own."""
    both = pairs.where("other_signal IS NOT NULL")
    mine = both.join(agreed.select(*STAY, *_BODY, "is_late", "event"), on=list(STAY), how="inner")
    theirs = agreed.select(
        *SIDE,
        "group",
        *(F.col(name).alias(f"other_{name}") for name in (*STAY[2:5], "at")),
        *_BODY,
        F.col("is_late").alias("other_late"),
        F.col("event").alias("other_event"),
    )
    key = [*SIDE, "group", *(f"other_{name}" for name in (*STAY[2:5], "at")), *_BODY]
    compared = mine.join(theirs, on=key, how="left").where("other_late IS NULL OR other_late != is_late")
    rows = _rows("signal", "other_signal", "left_at", "other_left_at")
    return compared.select(*SIDE, witness(F.col("event"), F.col("other_event"), *rows))
