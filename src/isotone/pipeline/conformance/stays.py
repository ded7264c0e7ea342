"""Stays: one process in one view of one group, from the installation to what ended it.

Computed from the few rows that change views; deliveries have no part in it.

Implements: the terms of [Spread 2.2.1] and Definition 2.5. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import sided
from isotone.pipeline.conformance.terms import END, HOME, INSTALL, LEAVE, LOSS, PLACE, PROCESS, SIGNAL

_CODES = {"view": INSTALL, "sview": INSTALL, "selfleave": LEAVE, "transsig": SIGNAL, "stranssig": SIGNAL}
FIRST, UNKNOWN, KNOWN = "first", "unknown", "known"


def touches(rows: DataFrame) -> DataFrame:
    """Installations, leaves and signals, one row per process."""
    kind = F.col("kind")
    code = F.coalesce(*(F.when(kind == name, code) for name, code in _CODES.items()))
    touched = sided(rows).where(kind.isin(*_CODES))
    return touched.select(
        *PROCESS[:4],
        F.posexplode("clients").alias("position", "process"),
        F.get("groups", F.lit(0)).alias("group"),
        "index",
        code.alias("code"),
        "view",
        "members",
        "transitional",
    )


def turns(touched: DataFrame, processes: DataFrame, losses: DataFrame) -> DataFrame:
    """All that begins or ends a stay: installations and leaves, and ends and losses at every place of a process."""
    places = touched.select(*PLACE).distinct().join(processes.select(*PROCESS, "end"), on=list(PROCESS), how="left")
    ends = places.where("end IS NOT NULL").select(*PLACE, F.col("end").alias("index"), F.lit(END).alias("code"))
    lost = places.join(losses, on=list(HOME), how="inner").where("end IS NULL OR index < end")
    lost = lost.select(*PLACE, "index", F.lit(LOSS).alias("code"))
    moves = touched.where(F.col("code") != SIGNAL)
    return moves.unionByName(ends.unionByName(lost), allowMissingColumns=True)


def stays(turned: DataFrame, touched: DataFrame, processes: DataFrame) -> DataFrame:
    """One row per installation: where it came from, how it ended, the signal in it, whether it can be compared."""
    order = Window.partitionBy(*PLACE).orderBy("index", "position")
    before, after = F.lag("code").over(order), F.lead("code").over(order)
    linked = turned.select(
        *PLACE,
        "index",
        "position",
        "code",
        "view",
        "members",
        "transitional",
        before.alias("before"),
        F.lag("view").over(order).alias("previous"),
        F.lag("members").over(order).alias("previous_members"),
        after.alias("left"),
        F.lead("index").over(order).alias("left_at"),
        F.lead("view").over(order).alias("next"),
        F.lead("transitional").over(order).alias("next_transitional"),
    ).where(F.col("code") == INSTALL)
    about = processes.select(*PROCESS, "name", "is_ghost", "end", "loss")
    known = linked.join(about, on=list(PROCESS), how="left").select(
        "*",
        _origin().alias("origin"),
        _is_complete().alias("is_complete"),
        F.col("index").alias("at"),
    )
    return _with_signals(_with_memberships(_with_highest(known)), turned, touched)


def _origin() -> Column:
    blind = F.col("loss") < F.col("index")
    fresh = F.when(F.coalesce(blind, F.lit(False)), UNKNOWN).otherwise(FIRST)
    before = F.col("before")
    return F.when(before == INSTALL, KNOWN).when(before == LOSS, UNKNOWN).when(before.isNull(), fresh).otherwise(FIRST)


def _is_complete() -> Column:
    """No row of its home was lost before it ended."""
    return F.col("loss").isNull() | (F.col("left_at") < F.col("loss"))


def _with_highest(known: DataFrame) -> DataFrame:
    """The highest id that the name installed before in the group, and where; ghosts have no part in it."""
    order = Window.partitionBy("run", "boundary", "name", "group", "is_ghost").orderBy(
        "incarnation", "index", "position"
    )
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    place = F.struct("view", (-F.col("incarnation")).alias("incarnation"), (-F.col("index")).alias("index"), "node")
    highest = F.when(~F.col("is_ghost"), F.max(place).over(earlier))
    found = known.withColumn("highest", highest)
    ended = F.coalesce(F.col("end") < F.col("index"), F.lit(False))
    grows = F.col("highest").isNull() | (F.col("highest.view") < F.col("view"))
    regular = ~F.col("is_ghost") & ~ended & F.array_contains("members", F.col("process")) & grows
    return found.withColumn("is_regular", regular).withColumn("is_ended", ended)


def _with_memberships(known: DataFrame) -> DataFrame:
    order = Window.partitionBy(*PLACE).orderBy("index", "position")
    begins = F.when(F.col("origin") == KNOWN, 0).otherwise(1)
    return known.withColumn("membership", F.sum(begins).over(order))


def _with_signals(known: DataFrame, turned: DataFrame, touched: DataFrame) -> DataFrame:
    signals = located_signals(touched.where(F.col("code") == SIGNAL), turned)
    firsts = signals.where(F.col("at").isNotNull()).groupBy(*PLACE, "at").agg(F.min("index").alias("signal"))
    return known.join(firsts, on=[*PLACE, "at"], how="left")


def located_signals(signals: DataFrame, turned: DataFrame) -> DataFrame:
    """Signals with the stay that they fall into: ``at`` is its installation, ``is_sure`` whether the view is known."""
    both = signals.unionByName(turned)
    order = Window.partitionBy(*PLACE).orderBy("index", "position")
    stay = F.last(F.when(F.col("code") != SIGNAL, F.struct("code", "index", "view")), ignorenulls=True).over(order)
    known = F.last(F.when(F.col("code").isin(INSTALL, LEAVE, LOSS), F.col("code")), ignorenulls=True).over(order)
    inside = F.col("stay.code") == INSTALL
    located = both.withColumn("stay", stay).withColumn("known", known).where(F.col("code") == SIGNAL)
    return located.select(
        *PLACE,
        "index",
        "position",
        "view",
        F.when(inside, F.col("stay.index")).alias("at"),
        F.when(inside, F.col("stay.view")).alias("stay_view"),
        "known",
    )
