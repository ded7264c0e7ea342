"""Sends and deliveries in common time: what every metric of messages begins with.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS, HOME
from isotone.pipeline.metrics.clocks import clocks

STEPS_MAX = 300
"""Time is cut into at most about so many steps, of a power of ten."""
_SENDS, _DELIVERIES = ("send", "ssend"), ("deliver", "sdeliver")
_BUNDLE = ("run", "boundary", "sender", "first")
SERVICES = ("UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE")


class Traffic(NamedTuple):
    """All rows, ``at`` in common time; sends by bundle; receipts by bundle and record; the offsets of the clocks."""

    rows: DataFrame
    sends: DataFrame
    receipts: DataFrame
    offsets: DataFrame


def traffic(silver: DataFrame) -> Traffic:
    """The messages of all runs, their times set side by side."""
    sends = _bundles(silver, _SENDS).withColumn("sender", F.get("clients", F.lit(0)))
    sends = sends.groupBy(*_BUNDLE).agg(
        F.min(F.struct("incarnation", "index", "node", "at", "service", "count", "bytes")).alias("sent")
    )
    receipts = _bundles(silver, _DELIVERIES).join(sends, on=list(_BUNDLE), how="left")
    receipts = receipts.localCheckpoint(eager=True)
    pairs = receipts.where("sent IS NOT NULL AND sent.node != node").groupBy(
        "run", F.col("sent.node").alias("from_node"), F.col("sent.incarnation").alias("from_incarnation"),
        "node", "incarnation",
    ).agg(F.min(F.col("at") - F.col("sent.at")).alias("least"))  # fmt: skip
    offsets = clocks(pairs).localCheckpoint(eager=True)
    return Traffic(
        _in_common_time(silver, offsets),
        _stepped(_sent_in_common_time(sends, offsets)).localCheckpoint(eager=True),
        _received_in_common_time(receipts, offsets).localCheckpoint(eager=True),
        offsets,
    )


def _bundles(silver: DataFrame, kinds: tuple[str, ...]) -> DataFrame:
    kind = F.col("kind")
    boundary = F.when(kind.startswith("s") & (kind != "send"), DAEMONS).otherwise(CLIENTS)
    size = F.aggregate("lengths", F.lit(0).cast("bigint"), lambda total, each: total + each)
    return silver.where(kind.isin(*kinds) & (F.col("count") > 0)).select(
        *HOME,
        "index",
        "at",
        boundary.alias("boundary"),
        "clients",
        "sender",
        "first",
        "count",
        "service",
        size.alias("bytes"),
        F.size("clients").alias("receivers"),
    )


def _in_common_time(rows: DataFrame, offsets: DataFrame) -> DataFrame:
    joined = rows.join(F.broadcast(offsets), on=list(HOME), how="left")
    return joined.withColumn("at", F.col("at") - F.coalesce("offset", F.lit(0))).drop("offset")


def _sent_in_common_time(sends: DataFrame, offsets: DataFrame) -> DataFrame:
    return _in_common_time(sends.select(*_BUNDLE, "sent.*"), offsets)


def _received_in_common_time(receipts: DataFrame, offsets: DataFrame) -> DataFrame:
    names = {"node": "sent_node", "incarnation": "sent_incarnation", "offset": "sent_offset"}
    theirs = F.broadcast(offsets.withColumnsRenamed(names))
    apart = receipts.select(
        *(name for name in receipts.columns if name != "sent"),
        F.col("sent.node").alias("sent_node"),
        F.col("sent.incarnation").alias("sent_incarnation"),
        F.col("sent.at").alias("sent_at"),
    )
    joined = _in_common_time(apart, offsets).join(theirs, on=["run", "sent_node", "sent_incarnation"], how="left")
    sent_at = F.col("sent_at") - F.coalesce("sent_offset", F.lit(0))
    timed = joined.withColumn("sent_at", sent_at).drop("sent_offset")
    return _stepped(timed.withColumn("latency", F.greatest(F.lit(0), F.col("at") - F.col("sent_at"))))


def _stepped(rows: DataFrame) -> DataFrame:
    """With the step of time that each row falls into; a run's steps have one width."""
    spans = rows.groupBy("run").agg((F.max("at") - F.min("at")).alias("span"))
    power = F.ceil(F.log10(F.greatest(F.col("span"), F.lit(1)) / F.lit(STEPS_MAX)))
    widths = spans.select("run", F.pow(F.lit(10.0), F.greatest(F.lit(3), power)).cast("bigint").alias("width_us"))
    placed = rows.join(F.broadcast(widths), on="run", how="left")
    return placed.withColumn("step", (F.floor(F.col("at") / F.col("width_us")) * F.col("width_us")).cast("bigint"))


def service_name() -> Column:
    """The service by its name."""
    return F.get(F.array(*map(F.lit, SERVICES)), F.col("service"))


def who(name: str) -> Column:
    """A metric of clients, or the same of daemons under a name of its own."""
    return F.when(F.col("boundary") == DAEMONS, f"daemon {name}").otherwise(name)
