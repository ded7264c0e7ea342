"""Causal order where messages overtook each other: most of them knew nothing of each other, and a join can tell.

What precedes a message was sent by the same sender, or its stamp is not above the highest that the sender's node had
delivered when the message was sent (its *floor*): stamps grow along causality, which the bundles have shown. So a node
that delivers nothing at or below the floor of a causal message that it had before keeps the order, whatever the stamps
of the two are. The order of one sender's messages is looked at in its record.

Implements: [Spread 2.12.2]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.survey.table import Survey
from isotone.pipeline.conformance.terms import CAUSAL, CLIENTS, DAEMONS, RELIABLE, kept

ID = "2.12.2"
_SIDE = ("run", "boundary")
_BUNDLE = (*_SIDE, "sender", "first")


def clear_causal(silver: DataFrame, surveyed: Survey) -> Survey:
    """The same survey without doubts about causal order that the floors of the messages remove."""
    doubts = surveyed.found.where((F.col("id") == ID) & F.col("is_doubtful") & F.col("is_exercised"))
    sides = kept(doubts.select(*_SIDE))
    if sides.isEmpty():
        return surveyed
    wrong = _below(silver, surveyed.bundles, sides)
    cleared = kept(sides.join(wrong, on=list(_SIDE), how="left_anti"))
    marks = F.broadcast(cleared.withColumns({"id": F.lit(ID), "_is_clear": F.lit(True)}))
    found = surveyed.found.join(marks, on=[*_SIDE, "id"], how="left")
    found = found.withColumn("is_doubtful", F.col("is_doubtful") & F.col("_is_clear").isNull())
    return surveyed._replace(found=kept(found.select(*surveyed.found.columns)))


def _below(silver: DataFrame, bundles: DataFrame, sides: DataFrame) -> DataFrame:
    """The sides on which a node delivers something at or below the floor of a causal message that it had before."""
    few = F.broadcast(sides)
    floors = bundles.join(few, on=list(_SIDE), how="left_semi").groupBy(*_BUNDLE).agg(F.max("floor").alias("floor"))
    kind = F.col("kind")
    delivered = silver.where(kind.isin("deliver", "sdeliver") & (F.col("service") >= RELIABLE)).select(
        "run", F.when(kind == "deliver", CLIENTS).otherwise(DAEMONS).alias("boundary"), "node", "incarnation", "index",
        "sender", "first", "service", F.col("stamp.lamport").alias("lamport"),
    )  # fmt: skip
    placed = delivered.join(few, on=list(_SIDE), how="left_semi").join(floors, on=list(_BUNDLE), how="left")
    order = Window.partitionBy(*_SIDE, "node", "incarnation").orderBy("index")
    causal = F.when(F.col("service") >= CAUSAL, F.col("floor"))  # none: its send is among rows that were lost
    highest = F.max(causal).over(order.rowsBetween(Window.unboundedPreceding, -1))
    return placed.withColumn("_highest", highest).where("lamport <= _highest").select(*_SIDE).distinct()
