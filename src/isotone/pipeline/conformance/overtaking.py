"""Runs in which causal order can be broken, by the rows that are there: stamps tell, and no record need be whole.

A process breaks the order when it delivers *m* behind a causal *c* that *m* precedes. Then *m* is of the sender of *c*
and no later than it; or there are *c1*, …, *ck* of which the sender of *c* had delivered *c1* when it sent *c*, the
sender of each that follows the next, and *m* is of the sender of *ck* and no later than it. All these sends and
deliveries are rows that are there, since from what is lost the checkers learn nothing. So *m* has a stamp at or below
the *floor* of *c*, the highest that its sender had delivered before the send, provided that

- each delivery of a bundle has a stamp above all that the node of its sender had delivered when it was sent: then
  stamps fall from *c1* to *ck*;
- none has a stamp above one of a later bundle of its sender, nor above another of its own: then *m* is not above *ck*;
- rows about messages of one sender are about the same bundle or have none in common, and no bundle is empty.

Where that is so, no process delivers anything at or below the floor of a causal message that it had before, and none
anything of a sender behind a later causal message, nothing can be broken. Nor do deliveries wait for sends in a circle:
around it stamps would fall for ever. First the node is asked as if it were one process; only where that does not do,
each process.

Implements: [Spread 2.12.2], a necessary condition of its violations. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import CAUSAL, CLIENTS, DAEMONS, PROCESS, RELIABLE, SIDE, kept

_SENDS = ("send", "ssend")
_BUNDLE = (*SIDE, "sender", "first")
_FAR = Window.unboundedPreceding


def doubted_runs(rows: DataFrame) -> DataFrame:
    """The runs that may have a witness against causal order."""
    said = kept(_said(rows))
    unruly = kept(_unruly(said))
    orderly = said.join(F.broadcast(unruly), on="run", how="left_anti")
    sides = kept(_overtaken(orderly.withColumn("process", F.lit(""))))
    if sides.isEmpty():
        return unruly
    mine = orderly.join(F.broadcast(sides), on=list(SIDE), how="left_semi")
    return kept(
        unruly.unionByName(_overtaken(mine.withColumn("process", F.explode("clients"))).select("run")).distinct()
    )


def _said(rows: DataFrame) -> DataFrame:
    """Sends and deliveries; ``had``: the highest Lamport time delivered at the node so far, at either boundary."""
    kind = F.col("kind")
    is_send = kind.isin(*_SENDS)
    said = rows.where(kind.isin(*_SENDS, "deliver", "sdeliver")).select(
        "run", F.when(kind.isin("send", "deliver"), CLIENTS).otherwise(DAEMONS).alias("boundary"),
        "node", "incarnation", "index", is_send.alias("is_send"), "clients",
        F.when(is_send, F.get("clients", F.lit(0))).otherwise(F.col("sender")).alias("sender"),
        "first", (F.col("first") + F.col("count") - 1).alias("last"), "service",
        F.when(~is_send, F.coalesce("stamp.lamport", F.lit(0))).alias("lamport"),
    )  # fmt: skip
    node = Window.partitionBy("run", "node").orderBy("incarnation", "index")
    return said.withColumn("had", F.max("lamport").over(node.rowsBetween(_FAR, Window.currentRow)))


def _of_sends(name: str) -> Column:
    return F.max(F.when(F.col("is_send"), F.col(name)))


def _unruly(said: DataFrame) -> DataFrame:
    """Runs whose stamps do not grow along causality, or whose rows do not agree on what a bundle is."""
    bundles = said.groupBy(*_BUNDLE).agg(
        F.min("last").alias("low_last"),
        F.max("last").alias("last"),
        F.min("lamport").alias("low"),
        F.max("lamport").alias("high"),
        _of_sends("had").alias("had"),
    )
    order = Window.partitionBy(*SIDE, "sender").orderBy("first")
    below = F.max("last").over(order.rowsBetween(_FAR, -1))
    highest = F.max("high").over(order.rowsBetween(_FAR, Window.currentRow))
    known = bundles.withColumns({"below": below, "highest": highest})
    torn = "low_last != last OR last < first OR below >= first"
    return known.where(f"{torn} OR had >= low OR highest > low").select("run").distinct()


def _overtaken(said: DataFrame) -> DataFrame:
    """Sides on which a process may deliver something behind a causal message that knew of it."""
    order = Window.partitionBy(*PROCESS).orderBy("index")
    floor = F.max("lamport").over(order.rowsBetween(_FAR, Window.currentRow))
    bundles = said.withColumn("floor", floor).groupBy(*_BUNDLE)
    sent = bundles.agg(
        F.max("service").alias("_service"), _of_sends("floor").alias("_floor"), F.bool_or("is_send").alias("_is_sent")
    ).where("_is_sent")  # what was not sent stands in no order
    delivered = said.where("NOT is_send").select(*PROCESS, "index", "sender", "first", "last", "lamport")
    placed = delivered.join(sent, on=list(_BUNDLE), how="inner").where(F.col("_service") >= RELIABLE)
    is_causal = F.col("_service") >= CAUSAL
    before = order.rowsBetween(_FAR, -1)
    of_sender = Window.partitionBy(*PROCESS, "sender").orderBy("index").rowsBetween(_FAR, -1)
    judged = placed.withColumns(
        {
            "highest": F.max(F.when(is_causal, F.col("_floor"))).over(before),
            "reached": F.max(F.when(is_causal, F.col("last"))).over(of_sender),
        }
    )
    return judged.where("lamport <= highest OR first <= reached").select(*SIDE).distinct()
