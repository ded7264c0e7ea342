"""The network below in sums: which of its messages all servers received alike, and which need an exact look.

Messages of one sender on one network go by *stretches* of their sequence numbers. A stretch is *alike* when its sender
multicast each message once and received it behind that, and every other server that received any of it received as many
messages with the same sums of hashes. What is left of all of this is small, however long the run: who received from
whom, and between which rows of each record. A task per run compares that with starts and ends of networks
(`isotone.pipeline.conformance.survey.networks`) and says what is in doubt; of that, stretches go on row by row.

Implements: [Spread 2.21], [Spread 2.22], [Spread 2.23], summaries. Deviations: none.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.network_uses import TRAFFIC
from isotone.pipeline.conformance.survey.networks import FOUND, TURNS, judge_networks
from isotone.pipeline.conformance.terms import HOME, NETWORK, kept, told_to_all

PACKETS = ("nmcast", "nreceive")
"""What there is much of."""
STRETCH = 1024
"""Sequence numbers."""
_STRETCH = ("run", "network", "sender", "stretch")
_SUMS = ("messages", "sum", "parity")


class Surveyed(NamedTuple):
    """By run and property whether it was exercised and is in doubt; none where nothing is recorded of the network.

    ``suspects`` are the stretches for an exact look.
    """

    found: DataFrame
    suspects: DataFrame


def survey_packets(silver: DataFrame) -> Surveyed | None:
    """All runs of these rows."""
    rows = silver.where(F.col("kind").isin(*TRAFFIC) & (F.col("node") != ""))
    if rows.isEmpty():
        return None
    sums = kept(_sums(_packets(rows)))
    stretches = kept(_stretches(sums))
    told = _turns(silver).unionByName(_ranges(sums), allowMissingColumns=True)
    told = told.unionByName(_senders(stretches), allowMissingColumns=True)
    judged = kept(told.groupBy("run").applyInArrow(judge_networks, FOUND))
    found = judged.where("id IS NOT NULL").select(
        "run", F.lit(NETWORK).alias("boundary"), "id", "is_exercised", "is_doubtful", F.lit(False).alias("is_full")
    )
    return Surveyed(found, _suspects(stretches, judged.where("id IS NULL")))


def packets_of(silver: DataFrame, suspects: DataFrame) -> DataFrame:
    """The rows of these stretches."""
    wanted = told_to_all(kept(suspects.withColumnRenamed("sender", "_sender")))
    rows = silver.where(F.col("kind").isin(*PACKETS)).withColumns({"_sender": _sender(), "stretch": _stretch()})
    return rows.join(wanted, on=["run", "network", "_sender", "stretch"], how="left_semi").select(*silver.columns)


def _sender() -> Column:
    return F.coalesce("sender", F.get("clients", F.lit(0)))


def _stretch() -> Column:
    return F.floor(F.col("first") / STRETCH)


def _packets(rows: DataFrame) -> DataFrame:
    kind = F.col("kind")
    return rows.where(kind.isin(*PACKETS)).select(
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


# --- sums ------------------------------------------------------------------------------------------------------------


def _sums(packets: DataFrame) -> DataFrame:
    """By record, stretch and daemon: how many messages, which, and from which row to which."""
    is_own = F.col("daemon") == F.col("sender")
    other = packets.where(~is_own).withColumns({"is_fine": ~F.col("is_sent"), "last": F.col("index")})
    own = _summed(_single(packets.where(is_own))).withColumn("is_own", F.lit(True))
    return own.unionByName(_summed(other).withColumn("is_own", F.lit(False)))


def _single(own: DataFrame) -> DataFrame:
    """What a sender did with a message of its own: multicast once, received once behind that, and the same."""
    is_sent = F.col("is_sent")
    sent, received = F.when(is_sent, F.col("index")), F.when(~is_sent, F.col("index"))
    single = own.groupBy(*HOME, *_STRETCH[1:], "daemon", "first").agg(
        F.count(sent).alias("sends"), F.count(received).alias("receipts"),
        F.min("index").alias("index"), F.max("index").alias("last"),
        F.min(sent).alias("sent"), F.min("hash").alias("hash"), F.max("hash").alias("other"),
    )  # fmt: skip
    once = (F.col("sends") == 1) & (F.col("receipts") == 1) & (F.col("sent") == F.col("index"))
    return single.withColumn("is_fine", F.coalesce(once & (F.col("hash") == F.col("other")), F.lit(False)))


def _summed(rows: DataFrame) -> DataFrame:
    """Sums of so few bits do not overflow, however often messages are repeated."""
    return rows.groupBy(*HOME, *_STRETCH[1:], "daemon").agg(
        F.count("*").alias("messages"),
        F.sum(F.shiftrightunsigned("hash", 40)).alias("sum"),
        F.bit_xor("hash").alias("parity"),
        F.min("is_fine").alias("is_fine"),
        F.min("index").alias("early"),
        F.max("last").alias("late"),
    )


def _stretches(sums: DataFrame) -> DataFrame:
    """Whether all who had something of a stretch had the same, its sender among them; and who they are."""
    found = sums.groupBy(*_STRETCH).agg(
        F.count("*").alias("records"),
        F.count_if("is_own").alias("own"),
        F.min("is_fine").alias("is_fine"),
        F.array_sort(F.collect_set("daemon")).alias("daemons"),
        *(F.min(name).alias(f"{name}_min") for name in _SUMS),
        *(F.max(name).alias(f"{name}_max") for name in _SUMS),
    )
    alike = (F.col("own") == 1) & F.col("is_fine") & (F.col("records") == F.size("daemons"))
    for name in _SUMS:
        alike &= F.col(f"{name}_min") == F.col(f"{name}_max")
    return found.select(*_STRETCH, "daemons", alike.alias("is_alike"))


# --- what a task per run looks at ------------------------------------------------------------------------------------


def _turns(silver: DataFrame) -> DataFrame:
    """Where networks begin and end in records."""
    rows = silver.where(F.col("kind").isin(*TURNS) & (F.col("node") != ""))
    return rows.select(*HOME, "index", "kind", F.get("clients", F.lit(0)).alias("daemon"), "network", "servers")


def _ranges(sums: DataFrame) -> DataFrame:
    """By record and network: from which row to which there are messages, and of whom."""
    return sums.groupBy(*HOME, "network").agg(
        F.min("early").alias("early"),
        F.max("late").alias("late"),
        F.array_union(F.collect_set("daemon"), F.collect_set("sender")).alias("peers"),
    )


def _senders(stretches: DataFrame) -> DataFrame:
    """By network, sender and receivers: whether all of its stretches are alike, and whether any is."""
    return stretches.groupBy("run", "network", "sender", "daemons").agg(
        F.min("is_alike").alias("is_alike"), F.max("is_alike").alias("is_some_alike")
    )


def _suspects(stretches: DataFrame, doubts: DataFrame) -> DataFrame:
    """The stretches that are not alike, those of networks in doubt, and those that not all of its servers had."""
    wrong = F.broadcast(doubts.select("run", "network", F.col("daemons").alias("_daemons")))
    others = stretches.join(wrong, on=["run", "network"], how="inner")
    others = others.where(F.col("_daemons").isNull() | (F.col("_daemons") == F.col("daemons")))
    unlike = stretches.where("NOT is_alike")
    return unlike.select(*_STRETCH).unionByName(others.select(*_STRETCH)).distinct()
