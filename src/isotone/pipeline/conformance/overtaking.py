"""Where causal order can be broken, by the rows that are there: stamps tell, and no record need be whole.

A process breaks the order when it delivers *m* behind a causal *c* that *m* precedes. Then *m* is of the sender of *c*
and no later than it; or there are *c1*, …, *ck* of which the sender of *c* had delivered *c1* when it sent *c*, the
sender of each that follows the next, and *m* is of the sender of *ck* and no later than it. All these sends and
deliveries are rows that are there, since from what is lost the checkers learn nothing. So *m* has a stamp at or below
the *floor* of *c*, the highest that its sender had delivered before the send, provided that

- each delivery of a bundle has a stamp above all that the node of its sender had delivered when it was sent: then
  stamps fall from *c1* to *ck*;
- none has a stamp above one of a later bundle of its sender, nor above another of its own: then *m* is not above *ck*;
- rows about messages of one sender are about the same bundle or have none in common, no bundle is empty, and sends
  stand in the order of their sequences.

Where that is so, no process delivers anything at or below the floor of a causal message that it had before, and none
anything of a sender behind a later causal message, nothing can be broken. Nor do deliveries wait for sends in a circle:
around it stamps would fall for ever. First the node is asked as if it were one process; only where that does not do,
each process. If one does, all that can tell whether *m* precedes such a *c*, and which *c* the witness names, has a
stamp between that of *m* and the highest of the causal messages that the process had before it: a *stretch*. Stretches
that overlap are one.

Implements: [Spread 2.12.2], a necessary condition of its violations. Deviations: none.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import CAUSAL, CLIENTS, DAEMONS, PROCESS, RELIABLE, SIDE, event, kept

_SENDS = ("send", "ssend")
_BUNDLE = (*SIDE, "sender", "first")
_FAR = Window.unboundedPreceding
STRETCHES_MAX = 100
"""Of one run and boundary; the last takes in all that is above it."""


class Doubts(NamedTuple):
    """Runs whose stamps tell nothing; and of others the bundles of each stretch, none where there is no stretch."""

    unruly: DataFrame
    stretches: DataFrame | None


def doubts(rows: DataFrame) -> Doubts:
    """What there is in these runs that may be a witness against causal order."""
    said = kept(_said(rows))
    unruly = kept(_unruly(said))
    orderly = said.join(F.broadcast(unruly), on="run", how="left_anti")
    nodes = orderly.withColumn("process", F.lit(""))
    sides = kept(_overtaken(nodes, _sent(nodes)).select(*SIDE).distinct())
    if sides.isEmpty():
        return Doubts(unruly, None)
    mine = kept(
        orderly.join(F.broadcast(sides), on=list(SIDE), how="left_semi").withColumn("process", F.explode("clients"))
    )
    sent = kept(_sent(mine))
    stretches = kept(_stretches(_overtaken(mine, sent)))
    inside = sent.join(F.broadcast(stretches), on=list(SIDE), how="inner").where("_lamport BETWEEN low AND high")
    return Doubts(unruly, kept(inside.select(*_BUNDLE, "stretch")))


def _stretches(overtaken: DataFrame) -> DataFrame:
    """From the lowest to the highest stamp of such as overlap, by their numbers."""
    upwards = Window.partitionBy(*SIDE).orderBy("low", "high")
    below = F.max("high").over(upwards.rowsBetween(_FAR, -1))
    begins = (below.isNull() | (F.col("low") > below)).cast("int")
    number = F.sum("begins").over(upwards.rowsBetween(_FAR, Window.currentRow)).cast("int")
    numbered = overtaken.withColumn("begins", begins).withColumn("stretch", F.least(number, F.lit(STRETCHES_MAX)))
    return numbered.groupBy(*SIDE, "stretch").agg(F.min("low").alias("low"), F.max("high").alias("high"))


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
        F.min(F.when(F.col("is_send"), event())).alias("sent"),
    )
    order = Window.partitionBy(*SIDE, "sender").orderBy("first")
    earlier = order.rowsBetween(_FAR, -1)
    below = F.max("last").over(earlier)
    highest = F.max("high").over(order.rowsBetween(_FAR, Window.currentRow))
    known = bundles.withColumns({"below": below, "highest": highest, "sent_before": F.max("sent").over(earlier)})
    torn = "low_last != last OR last < first OR below >= first OR sent_before > sent"
    return known.where(f"{torn} OR had >= low OR highest > low").select("run").distinct()


def _sent(said: DataFrame) -> DataFrame:
    """Bundles that were sent, for others stand in no order, each with the floor of its sender."""
    order = Window.partitionBy(*PROCESS).orderBy("index")
    floor = F.max("lamport").over(order.rowsBetween(_FAR, Window.currentRow))
    bundles = said.withColumn("floor", floor).groupBy(*_BUNDLE)
    return bundles.agg(
        F.max("service").alias("_service"), F.min("lamport").alias("_lamport"), _of_sends("floor").alias("_floor"),
        F.bool_or("is_send").alias("_is_sent"),
    ).where("_is_sent")  # fmt: skip


def _overtaken(said: DataFrame, sent: DataFrame) -> DataFrame:
    """Deliveries behind a causal message that may have known of them: their stamp, and the highest causal before."""
    delivered = said.where("NOT is_send").select(*PROCESS, "index", "sender", "first", "last", "lamport")
    placed = delivered.join(sent, on=list(_BUNDLE), how="inner").where(F.col("_service") >= RELIABLE)
    is_causal = F.col("_service") >= CAUSAL
    before = Window.partitionBy(*PROCESS).orderBy("index").rowsBetween(_FAR, -1)
    of_sender = Window.partitionBy(*PROCESS, "sender").orderBy("index").rowsBetween(_FAR, -1)
    judged = placed.withColumns(
        {
            "highest": F.max(F.when(is_causal, F.col("_floor"))).over(before),
            "high": F.max(F.when(is_causal, F.col("lamport"))).over(before),
            "reached": F.max(F.when(is_causal, F.col("last"))).over(of_sender),
        }
    )
    return judged.where("lamport <= highest OR first <= reached").select(*SIDE, F.col("lamport").alias("low"), "high")
