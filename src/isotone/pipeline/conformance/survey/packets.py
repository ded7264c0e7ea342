"""The network below in sums: which of its messages all servers received alike, and which need an exact look.

Messages of one sender on one network go by *stretches* of their sequence numbers. A stretch is *clear* when its sender
multicast each message once and received it behind that, when every other server of the network received as many
messages with the same sum of hashes, and when all these rows lie within the use of that network at their nodes, before
a link failed in it. What is not clear goes on row by row; starts and failures of links always do, for they are few.

Implements: [Spread 2.21], [Spread 2.22], [Spread 2.23], summaries. Deviations: none.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.network_uses import TRAFFIC
from isotone.pipeline.conformance.terms import HOME, NETWORK, NEVER, kept

PACKETS = ("nmcast", "nreceive")
"""What there is much of."""
STRETCH = 1024
"""Sequence numbers."""
KEYS_MAX = 200_000
"""Stretches for an exact look that every worker is told; more are joined by sorting."""
_STRETCH = ("run", "network", "sender", "stretch")
_SUMS = ("messages", "sum", "parity")
_TURNS = ("ninit", "crash", "gap", "truncated")


class Surveyed(NamedTuple):
    """By run and property: whether it was exercised, as far as clear stretches tell; and the stretches not clear."""

    found: DataFrame
    suspects: DataFrame


def survey_packets(silver: DataFrame) -> Surveyed:
    """All runs of these rows."""
    packets = _packets(silver)
    stretches = kept(_stretches(packets, _uses(silver)))
    exercised = stretches.groupBy("run").agg(F.max("is_clear").alias("is_clear"))
    runs = silver.where(F.col("kind").isin(*TRAFFIC)).select("run").distinct().join(exercised, on="run", how="left")
    ids = F.array(
        F.struct(F.lit("2.21").alias("id"), F.col("is_clear").isNotNull().alias("is_exercised")),
        F.struct(F.lit("2.22").alias("id"), F.coalesce("is_clear", F.lit(False)).alias("is_exercised")),
        F.struct(F.lit("2.23").alias("id"), F.lit(False).alias("is_exercised")),
    )
    found = runs.select("run", F.lit(NETWORK).alias("boundary"), F.explode(ids).alias("told"))
    found = found.select("run", "boundary", "told.*", F.lit(True).alias("is_doubtful"), F.lit(False).alias("is_full"))
    return Surveyed(kept(found), stretches.where("NOT is_clear").select(*_STRETCH))


def packets_of(silver: DataFrame, suspects: DataFrame) -> DataFrame:
    """The rows of these stretches."""
    wanted = suspects.withColumnRenamed("sender", "_sender")
    wanted = F.broadcast(wanted) if wanted.count() <= KEYS_MAX else wanted
    rows = silver.where(F.col("kind").isin(*PACKETS)).withColumns({"_sender": _sender(), "stretch": _stretch()})
    return rows.join(wanted, on=["run", "network", "_sender", "stretch"], how="left_semi").select(*silver.columns)


def _sender() -> Column:
    return F.coalesce("sender", F.get("clients", F.lit(0)))


def _stretch() -> Column:
    return F.floor(F.col("first") / STRETCH)


def _packets(silver: DataFrame) -> DataFrame:
    kind = F.col("kind")
    return silver.where(kind.isin(*PACKETS) & (F.col("node") != "")).select(
        *HOME,
        "index",
        "network",
        (kind == "nmcast").alias("is_sent"),
        F.get("clients", F.lit(0)).alias("daemon"),
        _sender().alias("sender"),
        "first",
        _stretch().alias("stretch"),
        F.xxhash64("first", F.get("digests", F.lit(0))).alias("hash"),
    )


def _uses(silver: DataFrame) -> DataFrame:
    """By record and network: who its servers are, and between which rows it is used; only those begun once."""
    kind = F.col("kind")
    rows = silver.where(kind.isin(*_TURNS, "linkfailed")).select(*HOME, "index", "kind", "network", "servers")
    order = Window.partitionBy(*HOME).orderBy("index")
    coming = order.rowsBetween(1, Window.unboundedFollowing)
    turn = F.min(F.when(kind.isin(*_TURNS), F.col("index"))).over(coming)
    until = Window.partitionBy(*HOME, "network").orderBy("index").rowsBetween(1, Window.unboundedFollowing)
    failure = F.min(F.when(kind == "linkfailed", F.col("index"))).over(until)
    ended = F.coalesce(F.least(turn, failure), F.lit(NEVER))
    starts = rows.withColumn("until", ended).where(kind == "ninit")
    return (
        starts.groupBy(*HOME, "network")
        .agg(F.count("*").alias("starts"), F.first("servers").alias("servers"), F.min("index").alias("from"),
             F.min("until").alias("until"))
        .where("starts = 1")
        .drop("starts")
    )  # fmt: skip


def _stretches(packets: DataFrame, uses: DataFrame) -> DataFrame:
    is_own = F.col("daemon") == F.col("sender")
    own = _placed(_own(packets.where(is_own)), uses)
    other = _placed(_summed(packets.where(~is_own).withColumn("is_fine", ~F.col("is_sent")), "daemon"), uses)
    own = own.groupBy(*_STRETCH).agg(
        F.count("*").alias("records"), F.min("is_fine").alias("is_fine"), F.first("servers").alias("servers"),
        *(F.first(name).alias(name) for name in _SUMS),
    )  # fmt: skip
    other = other.groupBy(*_STRETCH).agg(
        F.count("*").alias("receivers"), F.min("is_fine").alias("is_all_fine"),
        F.array_sort(F.collect_set("daemon")).alias("daemons"),
        *(F.min(name).alias(f"{name}_min") for name in _SUMS), *(F.max(name).alias(f"{name}_max") for name in _SUMS),
    )  # fmt: skip
    both = own.join(other, on=list(_STRETCH), how="full")
    awaited = F.array_sort(F.array_except("servers", F.array("sender")))
    alike = F.lit(True)
    for name in _SUMS:
        alike &= (F.col(f"{name}_min") == F.col(name)) & (F.col(f"{name}_max") == F.col(name))
    whole = F.col("is_all_fine") & (F.col("receivers") == F.size(awaited)) & (F.col("daemons") == awaited) & alike
    alone = (F.size(awaited) == 0) & F.col("receivers").isNull()
    is_clear = (F.col("records") == 1) & F.col("is_fine") & (whole | alone)
    return both.select(*_STRETCH, F.coalesce(is_clear, F.lit(False)).alias("is_clear"))


def _own(packets: DataFrame) -> DataFrame:
    """What a sender did with its own messages: each multicast once, received once behind that, and the same."""
    is_sent = F.col("is_sent")
    sent, received = F.when(is_sent, F.col("index")), F.when(~is_sent, F.col("index"))
    single = packets.groupBy(*HOME, *_STRETCH[1:], "daemon", "first").agg(
        F.count(sent).alias("sends"), F.count(received).alias("receipts"),
        F.min("index").alias("index"), F.max("index").alias("last"),
        F.min(sent).alias("sent"), F.min("hash").alias("hash"), F.max("hash").alias("other"),
    )  # fmt: skip
    once = (F.col("sends") == 1) & (F.col("receipts") == 1) & (F.col("sent") == F.col("index"))
    fine = F.coalesce(once & (F.col("hash") == F.col("other")), F.lit(False))
    return _summed(single.withColumn("is_fine", fine), "daemon", last="last")


def _summed(rows: DataFrame, *keys: str, last: str = "index") -> DataFrame:
    """By record and stretch. Sums of so many bits do not overflow: ten million messages would have to be in one."""
    return rows.groupBy(*HOME, *_STRETCH[1:], *keys).agg(
        F.count("*").alias("messages"),
        F.sum(F.shiftrightunsigned("hash", 24)).alias("sum"),
        F.bit_xor("hash").alias("parity"),
        F.min("is_fine").alias("is_fine"),
        F.min("index").alias("early"),
        F.max(last).alias("late"),
    )


def _placed(rows: DataFrame, uses: DataFrame) -> DataFrame:
    """Whether all of it lies within the use of the network, among its servers."""
    found = rows.join(F.broadcast(uses), on=[*HOME, "network"], how="left")
    within = (F.col("from") < F.col("early")) & (F.col("late") < F.col("until"))
    among = F.array_contains("servers", F.col("daemon")) & F.array_contains("servers", F.col("sender"))
    return found.withColumn("is_fine", F.coalesce(F.col("is_fine") & within & among, F.lit(False)))
