"""Sends and deliveries in common time: what every metric of messages begins with; and the few rows of other kinds.

Silver is gone through once for sends, once for deliveries, once for the other kinds and once for the lives of records;
and where the network below is recorded, once for that.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import CLIENT_KINDS, DAEMON_KINDS
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS, HOME
from isotone.pipeline.little import as_one
from isotone.pipeline.metrics.clocks import clocks
from isotone.pipeline.silver import LINK_COUNT

STEPS_MAX = 300
"""Time is cut into at most about so many steps, of a power of ten."""
_SENDS, _DELIVERIES = ("send", "ssend"), ("deliver", "sdeliver")
_BUNDLE = ("run", "boundary", "sender", "first")
SERVICES = ("UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE")
CHANGES = (
    "view", "sview", "transsig", "stranssig", "selfleave", "connect", "disconnect", "crash", "recover", "linkfailed",
    "faults", "stable", "end", "gap", "truncated",
)  # fmt: skip
"""The kinds of rows that change something for a node."""
_OF_CHANGES = ("clients", "groups", "view", "members", "reason", "components", "network", "extra")


class Traffic(NamedTuple):
    """What metrics are made from, ``at`` in common time.

    Sends by bundle; receipts by bundle and record; the rows of `CHANGES` and counts of links; of each record its first
    rows and its last; receipts of the network below, as they are in silver; the offsets of the clocks.
    """

    sends: DataFrame
    receipts: DataFrame
    changes: DataFrame
    lives: DataFrame
    network: DataFrame
    offsets: DataFrame


def traffic(silver: DataFrame) -> Traffic:
    """The messages of all runs, their times set side by side."""
    silver = as_one(silver)
    sends = _bundles(silver, _SENDS).withColumn("sender", F.get("clients", F.lit(0)))
    sends = (
        sends.groupBy(*_BUNDLE)
        .agg(F.min(F.struct("incarnation", "index", "node", "at", "service", "count", "bytes", "sizes")).alias("sent"))
        .localCheckpoint(eager=True)
    )
    receipts = _bundles(silver, _DELIVERIES).drop("clients").join(sends, on=list(_BUNDLE), how="left")
    receipts = receipts.localCheckpoint(eager=True)
    pairs = receipts.where("sent IS NOT NULL AND sent.node != node").groupBy(
        "run", F.col("sent.node").alias("from_node"), F.col("sent.incarnation").alias("from_incarnation"),
        "node", "incarnation",
    ).agg(F.min(F.col("at") - F.col("sent.at")).alias("least"))  # fmt: skip
    offsets = clocks(pairs).localCheckpoint(eager=True)
    return Traffic(
        _stepped(_sent_in_common_time(sends, offsets)).localCheckpoint(eager=True),
        _received_in_common_time(receipts, offsets).localCheckpoint(eager=True),
        _in_common_time(_changes(silver), offsets).localCheckpoint(eager=True),
        _lives(silver, offsets).localCheckpoint(eager=True),
        silver.where(F.col("kind") == "nreceive").select("run", "node", "network", "sender", "first"),
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
        F.when(boundary == DAEMONS, F.array(F.lit(""))).otherwise(F.col("groups")).alias("groups"),
        "sender",
        "first",
        "count",
        "service",
        size.alias("bytes"),
        _sizes().alias("sizes"),
        F.size("clients").alias("receivers"),
    )


def _sizes() -> Column:
    """What sizes the messages of a bundle have, and how many of them; one entry where all are alike."""

    def entry(size: Column, times: Column) -> Column:
        return F.struct(size.cast("bigint").alias("size"), times.cast("bigint").alias("times"))

    least, most = F.array_min("lengths"), F.array_max("lengths")
    each = F.transform("lengths", lambda size: entry(size, F.lit(1)))
    return F.when(least == most, F.array(entry(least, F.size("lengths")))).otherwise(each)


def by_size(bundles: DataFrame) -> DataFrame:
    """Each bundle once for each of its ``sizes``: in column ``each``."""
    return bundles.withColumn("each", F.explode("sizes"))


def _changes(silver: DataFrame) -> DataFrame:
    return silver.where(F.col("kind").isin(*CHANGES, LINK_COUNT)).select(*HOME, "index", "at", "kind", *_OF_CHANGES)


def _lives(silver: DataFrame, offsets: DataFrame) -> DataFrame:
    """Per record: its first row at each boundary and its last of all; how many rows of messages, and of the network."""
    kind, at = F.col("kind"), F.col("at")
    found = silver.where("node != ''").groupBy(*HOME).agg(
        F.min(F.when(kind.isin(*CLIENT_KINDS), at)).alias("clients_first"),
        F.min(F.when(kind.isin(*DAEMON_KINDS), at)).alias("daemons_first"),
        F.max(at).alias("last"),
        F.count_if(kind.isin("send", "deliver")).alias("clients_messages"),
        F.count_if(kind.isin("ssend", "sdeliver")).alias("daemons_messages"),
        F.count_if(kind == "nmcast").alias("multicasts"),
        F.count_if(kind == "nreceive").alias("received"),
    )  # fmt: skip
    return _in_common_time(found, offsets, "clients_first", "daemons_first", "last")


def _in_common_time(rows: DataFrame, offsets: DataFrame, *times: str) -> DataFrame:
    joined = rows.join(F.broadcast(offsets.drop("error")), on=list(HOME), how="left")
    ahead = F.coalesce("offset", F.lit(0))
    return joined.withColumns({name: F.col(name) - ahead for name in times or ("at",)}).drop("offset")


def _sent_in_common_time(sends: DataFrame, offsets: DataFrame) -> DataFrame:
    return _in_common_time(sends.select(*_BUNDLE, "sent.*"), offsets)


def _received_in_common_time(receipts: DataFrame, offsets: DataFrame) -> DataFrame:
    names = {"node": "sent_node", "incarnation": "sent_incarnation", "offset": "sent_offset"}
    theirs = F.broadcast(offsets.drop("error").withColumnsRenamed(names))
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


def daemon_sends(traffic: Traffic) -> DataFrame:
    """How often daemons sent to their daemon views, by run."""
    return traffic.sends.where(F.col("boundary") == DAEMONS).groupBy("run").agg(F.count("*").alias("sends"))


def service_name() -> Column:
    """The service by its name."""
    return F.get(F.array(*map(F.lit, SERVICES)), F.col("service"))


def who(name: str) -> Column:
    """A metric of clients, or the same of daemons under a name of its own."""
    return F.when(F.col("boundary") == DAEMONS, f"daemon {name}").otherwise(name)
