"""Virtual synchrony for RELIABLE, FIFO and CAUSAL messages of clients, which may overtake a join, leave or kill.

Owed by who was a member in an earlier daemon view: at once where the network made the next view in a later daemon view;
else if both stay together until they come to a later daemon view than that of the next view, and by then.

Implements: [Spread 2.7]. Deviations: D-weak.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.held import STAY, TOGETHER, fingerprint, left_event, nothing
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    AGREED,
    CLIENTS,
    MESSAGE,
    NEVER,
    PLACE,
    PROCESS,
    SIDE,
    few,
    no_findings,
    witness,
)

_BODY = MESSAGE[2:]
_WHO = PROCESS[2:]


def judge_weak(n: Normal, stays: DataFrame, had: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Where the premise was true, and the witnesses."""
    weak = had.where((F.col("boundary") == CLIENTS) & (F.col("service") < AGREED))
    leaving = stays.where(F.col("boundary") == CLIENTS).withColumn("is_due", _is_due()).withColumn("is_old", _is_old())
    sums = weak.groupBy(*STAY).agg(*fingerprint(F.lit(True), "sum"))
    summed = leaving.join(sums, on=list(STAY), how="left").withColumn("sum", F.coalesce("sum", nothing()))
    companies = few(summed.groupBy(*TOGETHER, "is_due").agg(
        F.min("sum").alias("low"), F.max("sum").alias("high"), F.count(F.when(F.col("is_old"), 1)).alias("old"),
        F.count(F.when(F.col("sum") != nothing(), 1)).alias("holders"),
        F.count(F.when(F.col("is_old") & (F.col("sum") != nothing()), 1)).alias("old_holders"),
    ))  # fmt: skip
    alone = (F.col("old") == 1) & (F.col("holders") == 1) & (F.col("old_holders") == 1)
    owed = companies.where((F.col("old") > 0) & (F.col("holders") > 0) & ~alone)
    due = owed.where("is_due").select(*SIDE)
    suspects = few(leaving.join(owed.where("low != high").select(*TOGETHER), on=list(TOGETHER), how="left_semi"))
    if suspects.isEmpty():
        return due, no_findings(due)
    missing = few(_with_deadlines(n, few(_missing(suspects, weak))))
    late = _undelivered(n, missing.where("deadline IS NOT NULL"))
    exercised = due.unionByName(missing.where("deadline IS NOT NULL").select(*SIDE))
    return exercised, late.select(*SIDE, witness(F.col("event"), F.col("left_event"), F.col("lacks")))


def _is_due() -> Column:
    """The network made the next view, in a later daemon view."""
    following = F.col("next")
    bare = (following["stamp"]["lamport"] == 0) & (following["stamp"]["name"] == "")
    return bare & (following["daemon_view"] > F.col("view.daemon_view"))


def _is_old() -> Column:
    return F.col("first_view.daemon_view") < F.col("view.daemon_view")


def _missing(suspects: DataFrame, weak: DataFrame) -> DataFrame:
    """A message of one, and another, a member of old, that had it not in the view."""
    key = [*TOGETHER, *_BODY]
    moves = suspects.select(*STAY, "next", "number", "membership", left_event().alias("left_event"))
    theirs = few(weak.join(moves, on=list(STAY), how="inner"))
    owing = suspects.where("is_old").select(
        *TOGETHER, *_WHO, "is_due", "left_at", "number", "membership", left_event().alias("lacks")
    )
    wanted = theirs.select(*key).distinct().join(owing, on=list(TOGETHER), how="inner")
    lacking = wanted.join(theirs.select(*key, *_WHO), on=[*key, *_WHO], how="left_anti")
    has = theirs.select(
        *key, "event", "left_event", *(F.col(name).alias(f"has_{name}") for name in (*_WHO, "number", "membership"))
    )
    return lacking.join(has, on=key, how="inner")


def _chains(n: Normal, prefix: str) -> DataFrame:
    """The views of a membership, in order, and whether it goes on at the end."""
    key = (*PLACE, "membership")
    views = F.array_sort(F.collect_list(F.struct("number", "view", "at"))).alias(f"{prefix}chain")
    ends = F.max_by(F.coalesce("left", F.lit("")), "number").alias(f"{prefix}last")
    chains = n.stays.where(F.col("boundary") == CLIENTS).groupBy(*key).agg(views, ends)
    names = {name: f"{prefix}{name}" for name in (*_WHO, "membership")}
    return chains.withColumnsRenamed(names)


def _with_deadlines(n: Normal, missing: DataFrame) -> DataFrame:
    """Up to which row the one that lacks the message owes it; null if it does not."""
    chained = missing.join(_chains(n, ""), on=[*PLACE, "membership"], how="left").join(
        _chains(n, "has_"), on=[*SIDE, "group", *(f"has_{name}" for name in (*_WHO, "membership"))], how="left"
    ).join(n.runs.select("run", "is_settled"), on="run", how="left")  # fmt: skip
    mine = F.filter("chain", lambda each: each["number"] > F.col("number"))
    theirs = F.filter("has_chain", lambda each: each["number"] > F.col("has_number"))
    paths = chained.withColumn("mine", mine).withColumn("theirs", theirs)
    later = F.transform("mine", lambda each: each["view"]["daemon_view"] > F.col("next.daemon_view"))
    placed = paths.withColumn("place", F.array_position(later, F.lit(True)).cast("int"))
    meets = (F.col("place") > 0) & (_views("mine", F.col("place")) == _views("theirs", F.col("place")))
    size = F.size("mine")
    open_end = (F.col("last") == "") & (F.col("has_last") == "") & F.col("is_settled")
    stays_on = (F.col("place") == 0) & open_end & (_views("mine", size) == _views("theirs", F.size("theirs")))
    met = F.get(F.col("mine"), F.col("place") - 1)["at"]
    deadline = F.when(F.col("is_due"), F.col("left_at")).when(meets, met).when(stays_on, F.lit(NEVER))
    return placed.withColumn("deadline", deadline)


def _views(path: str, count: Column) -> Column:
    return F.transform(F.slice(path, F.lit(1), F.greatest(count, F.lit(0))), lambda each: each["view"])


def _undelivered(n: Normal, missing: DataFrame) -> DataFrame:
    """Those that were not delivered, in whatever view, before their deadline."""
    firsts = n.deliveries.where("turn = 1").select(*PROCESS, *_BODY, F.col("index").alias("delivered"))
    judged = missing.join(firsts, on=[*PROCESS, *_BODY], how="left")
    return judged.where("delivered IS NULL OR delivered >= deadline")
