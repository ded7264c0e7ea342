"""What each process had in each view: the table from which processes are compared with each other.

Only installations that can be compared count; of a message and a process the first delivery. Comparing begins with
order-free sums of hashes per stay: where they agree, all is said.

Implements: the terms of [Spread 2.7]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import DELIVER, INSTALL, MESSAGE, PLACE, RELIABLE, STAY, TOGETHER, VIEW, event

__all__ = [
    "STAY",
    "TOGETHER",
    "VIEW",
    "fingerprint",
    "held",
    "inside",
    "left_event",
    "nothing",
    "regular_stays",
    "together",
]


def held(placed: DataFrame) -> DataFrame:
    """Reliable messages by stay."""
    return (
        inside(placed)
        .where("stay.is_regular")
        .select(
            *PLACE,
            F.col("stay.at").alias("at"),
            F.col("stay.view").alias("view"),
            F.col("stay.members").alias("members_hash"),
            *MESSAGE[2:],
            "service",
            "stamp",
            "is_late",
            "index",
            event().alias("event"),
        )
    )


def inside(placed: DataFrame) -> DataFrame:
    """First deliveries of reliable messages in views."""
    return placed.where(
        (F.col("code") == DELIVER) & F.col("stay").isNotNull() & (F.col("turn") == 1) & (F.col("service") >= RELIABLE)
    )


def regular_stays(stays: DataFrame) -> DataFrame:
    """Stays that can be compared, with the key of their view."""
    return stays.where("is_regular").withColumn("members_hash", F.xxhash64("members"))


def together(regular: DataFrame) -> DataFrame:
    """Stays that were left together with others for the same view, all of whose rows are known."""
    moved = regular.where((F.col("left") == INSTALL) & F.col("is_complete"))
    companies = moved.groupBy(*TOGETHER).agg(F.count("*").alias("company")).where("company > 1")
    return moved.join(companies, on=list(TOGETHER), how="inner")


def fingerprint(condition: Column, name: str) -> list[Column]:
    """Aggregates that tell two sets of messages apart: their number, and the sums of both halves of their hashes."""
    hashed = F.xxhash64(*MESSAGE[2:])
    low = F.sum(F.when(condition, hashed.bitwiseAND(F.lit(0xFFFFFFFF))))
    high = F.sum(F.when(condition, F.shiftright(hashed, 32).cast("bigint")))
    count = F.count(F.when(condition, 1))
    return [F.struct(count, F.coalesce(low, F.lit(0)), F.coalesce(high, F.lit(0))).alias(name)]


def nothing() -> Column:
    """The fingerprint of no message."""
    zero = F.lit(0).cast("bigint")
    return F.struct(zero, zero, zero)


def left_event() -> Column:
    """The row by which a stay was left."""
    return event("left_at")
