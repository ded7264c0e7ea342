"""Messages: what was sent, and what was delivered of it, by whom, for the first time or again.

A bundle stays one row as long as all deliveries of its sender cover whole bundles as they were sent. Only the bundles
of the other senders are expanded to single messages, so that a part of a bundle can be compared.

Implements: the terms of [Spread 2.5] and [Spread 2.6]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import sided
from isotone.pipeline.conformance.terms import DAEMONS, MESSAGE, PROCESS, event, few, kept

SENDER = ("run", "boundary", "sender")
_CONTENT = ("service", "groups", "count", "content")


def sends(rows: DataFrame, processes: DataFrame) -> DataFrame:
    """The sends that count: by true processes, before their end, of sequences not sent before."""
    sent = sided(rows).where(F.col("kind").isin("send", "ssend") & (F.col("count") > 0))
    named = sent.withColumn("process", F.get("clients", F.lit(0))).drop("sender", "stamp", "view", "members")
    alive = named.join(processes.select(*PROCESS, "is_ghost", "end", "crash"), on=list(PROCESS), how="inner").where(
        "NOT is_ghost AND (end IS NULL OR index < end) AND (crash IS NULL OR index < crash)"
    )
    kept = alive.withColumn("sender", F.col("process")).withColumn("last", F.col("first") + F.col("count") - 1)
    return _claimed(kept).select(
        *SENDER, "process", "node", "incarnation", "index", "first", "last", "lengths", "digests", *_CONTENT
    )


def _claimed(sent: DataFrame) -> DataFrame:
    """Without those that repeat a sequence; of daemons, whose sequences only grow, without those not above all before.

    The first pass finds the senders about whom there is a doubt, by the highest sequence before; only these are folded.
    """
    order = Window.partitionBy(*SENDER).orderBy("index")
    high = F.max("last").over(order.rowsBetween(Window.unboundedPreceding, -1))
    marked = sent.withColumn("_low", F.coalesce(F.col("first") <= high, F.lit(False)))
    doubtful = few(marked.where("_low").select(*SENDER).distinct())
    if doubtful.isEmpty():
        return sent
    clear = marked.join(doubtful, on=list(SENDER), how="left_anti")
    odd = marked.join(doubtful, on=list(SENDER), how="left_semi")
    kept = odd.join(_folded(odd), on=[*SENDER, "index"], how="left_semi")
    return clear.unionByName(kept).drop("_low")


def _folded(odd: DataFrame) -> DataFrame:
    ranges = odd.groupBy(*SENDER).agg(F.array_sort(F.collect_list(F.struct("index", "first", "last"))).alias("all"))
    start = F.array().cast("array<struct<index: bigint, first: bigint, last: bigint>>")

    def take(kept: Column, each: Column) -> Column:
        clash = F.exists(kept, lambda old: (old["last"] >= each["first"]) & (old["first"] <= each["last"]))
        lower = F.exists(kept, lambda old: old["last"] >= each["first"])
        refused = F.when(F.col("boundary") == DAEMONS, lower).otherwise(clash)
        return F.when(refused, kept).otherwise(F.concat(kept, F.array(each)))

    folded = ranges.select(*SENDER, F.explode(F.aggregate("all", start, take)).alias("each"))
    return folded.select(*SENDER, "each.index")


def pieces(rows: DataFrame, sent: DataFrame) -> DataFrame:
    """Every delivery row with the messages that it is about and what was sent; receivers stay together."""
    delivered = (
        sided(rows)
        .where(F.col("kind").isin("deliver", "sdeliver") & (F.col("count") > 0))
        .select(*SENDER, "node", "incarnation", "index", "clients", "first", "lengths", "digests", "stamp", *_CONTENT)
    )
    known = sent.select(
        *SENDER, "first", "last", _sent().alias("sent"), *(F.col(name).alias(f"sent_{name}") for name in _CONTENT)
    )
    matched = delivered.join(known, on=[*SENDER, "first"], how="left").select(
        *_PIECE[:-3],
        F.col("first").alias("bundle"),
        F.lit(False).alias("is_early"),
        F.coalesce(_is_exact(), F.lit(False)).alias("is_true"),
    )
    matched = kept(matched)
    ragged = few(matched.where("NOT is_true").select(*SENDER).distinct())
    if ragged.isEmpty():
        return matched
    whole = matched.join(F.broadcast(ragged), on=list(SENDER), how="left_anti")
    return kept(whole.unionByName(_single(delivered, sent, ragged)))


_PIECE = (
    *SENDER, "node", "incarnation", "index", "clients", "first", "last", "stamp", "service", "groups", "sent",
    "bundle", "is_early", "is_true",
)  # fmt: skip


def _sent(prefix: str = "") -> Column:
    return event(f"{prefix}index", f"{prefix}node", f"{prefix}incarnation")


def _is_early() -> Column:
    """Delivered at the sender's node before it was sent there."""
    return (F.col("sent.node") == F.col("node")) & (F.col("sent") > event())


def _is_exact() -> Column:
    same = F.col("sent").isNotNull() & ~_is_early()
    for name in _CONTENT:
        same &= F.col(name) == F.col(f"sent_{name}")
    return same


def _messages(bundles: DataFrame) -> DataFrame:
    each = F.posexplode(F.arrays_zip("lengths", "digests")).alias("_place", "body")
    apart = bundles.select("*", each).withColumn("bundle", F.col("first"))
    return apart.withColumn("first", F.col("first") + F.col("_place")).drop("_place", "lengths", "digests", "count")


def _single(delivered: DataFrame, sent: DataFrame, ragged: DataFrame) -> DataFrame:
    """The same for senders whose deliveries are not all whole bundles: message by message."""
    theirs = _messages(delivered.join(F.broadcast(ragged), on=list(SENDER), how="left_semi"))
    bodies = _messages(sent.join(F.broadcast(ragged), on=list(SENDER), how="left_semi")).select(
        *SENDER,
        "first",
        F.col("bundle").alias("sent_bundle"),
        _sent().alias("sent"),
        F.col("service").alias("sent_service"),
        F.col("groups").alias("sent_groups"),
        F.col("body").alias("sent_body"),
    )
    matched = theirs.join(bodies, on=[*SENDER, "first"], how="left")
    early = F.coalesce(_is_early(), F.lit(False))
    same = (F.col("service") == F.col("sent_service")) & (F.col("groups") == F.col("sent_groups"))
    same &= F.col("body") == F.col("sent_body")
    judged = matched.withColumn("is_early", early).withColumn("is_true", F.when(F.col("sent").isNotNull(), same))
    return _own_words(judged).withColumn("last", F.col("first")).select(*_PIECE)


def _own_words(judged: DataFrame) -> DataFrame:
    """What was sent says service and groups; where nothing was, the first delivery does."""
    order = Window.partitionBy(*MESSAGE).orderBy("node", "incarnation", "index")
    alone = F.col("sent").isNull() | F.col("is_early")
    first = F.first(F.struct("service", "groups", "bundle")).over(order)
    told = F.when(alone, first).otherwise(
        F.struct(
            F.col("sent_service").alias("service"),
            F.col("sent_groups").alias("groups"),
            F.col("sent_bundle").alias("bundle"),
        )
    )
    worded = judged.withColumn("_told", told)
    return worded.select(
        *(name for name in worded.columns if name not in ("service", "groups", "bundle", "_told")),
        "_told.service",
        "_told.groups",
        "_told.bundle",
    )


def deliveries(piece: DataFrame) -> DataFrame:
    """One row per receiver and piece; ``turn`` counts how often the receiver delivered it."""
    told = piece.select(
        *SENDER, "node", "incarnation", "index", "first", "last", "bundle", "is_early", "service", "groups", "stamp",
        F.when(~F.col("is_early"), F.col("sent")).alias("sent"),
        F.posexplode("clients").alias("position", "process"),
    )  # fmt: skip
    order = Window.partitionBy(*PROCESS, *MESSAGE[2:]).orderBy("index", "position")
    return told.withColumn("turn", F.row_number().over(order))
