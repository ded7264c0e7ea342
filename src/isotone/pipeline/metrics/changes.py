"""View changes, phase by phase, and silences.

As a node saw them, in each group: from the last delivery to the signal, from the signal to the next view, from the view
to the first delivery in it; and, over all nodes, from the first installation of a view to its last.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import sided
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS, HOME, NEVER
from isotone.pipeline.metrics.form import dimension, measured, undivided
from isotone.pipeline.metrics.messages import Traffic, who

PHASES = ("last delivery to signal", "signal to view", "view to first delivery", "first to last installation")
_DELIVERED, _SIGNALLED, _INSTALLED = "D", "S", "V"
_CODES = {"transsig": _SIGNALLED, "stranssig": _SIGNALLED, "view": _INSTALLED, "sview": _INSTALLED}
_MOMENT = (*HOME, "boundary", "index", "at")


def view_changes(traffic: Traffic) -> list[DataFrame]:
    """Measurements in microseconds, by phase."""
    kind = F.col("kind")
    code = F.coalesce(*(F.when(kind == name, code) for name, code in _CODES.items()))
    each_group = F.explode("groups").alias("group")
    changes = sided(traffic.changes).where(kind.isin(*_CODES)).select(
        *_MOMENT, "view", code.alias("code"), each_group
    )  # fmt: skip
    delivered = traffic.receipts.select(*_MOMENT, F.lit(_DELIVERED).alias("code"), each_group)
    rows = changes.drop("view").unionByName(delivered)
    order = Window.partitionBy(*HOME, "boundary", "group").orderBy("index")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    known = rows.select(
        "*",
        F.lag("code").over(order).alias("previous"),
        F.lag("at").over(order).alias("previous_at"),
        F.last(F.when(F.col("code") == _SIGNALLED, F.struct("index", "at")), ignorenulls=True)
        .over(before)
        .alias("signal"),
        F.last(F.when(F.col("code") == _INSTALLED, F.col("index")), ignorenulls=True).over(before).alias("installed"),
    )
    told = known.select("run", "boundary", F.explode(F.array(*_phases())).alias("phase")).where(
        "phase.time IS NOT NULL"
    )
    return [_measured(told), _measured(_spread(changes))]


def _phases() -> list[Column]:
    is_fresh = F.coalesce(F.col("signal.index") > F.col("installed"), F.col("signal").isNotNull())
    code, previous = F.col("code"), F.col("previous")
    waited = F.col("at") - F.col("previous_at")
    times = (
        F.when((code == _SIGNALLED) & (previous == _DELIVERED), waited),
        F.when((code == _INSTALLED) & is_fresh, F.col("at") - F.col("signal.at")),
        F.when((code == _DELIVERED) & (previous == _INSTALLED), waited),
    )
    return [_phase(place, time) for place, time in enumerate(times)]


def _phase(place: int, time: Column) -> Column:
    return F.struct(F.lit(place).alias("place"), F.lit(PHASES[place]).alias("name"), time.cast("bigint").alias("time"))


def _spread(changes: DataFrame) -> DataFrame:
    installed = changes.where(F.col("code") == _INSTALLED).groupBy("run", "boundary", "group", "view")
    times = installed.agg((F.max("at") - F.min("at")).alias("time"), F.count_distinct("node").alias("nodes"))
    return times.where("nodes > 1").select("run", "boundary", _phase(3, F.col("time")).alias("phase"))


def _measured(told: DataFrame) -> DataFrame:
    phase = dimension("phase", F.col("phase.name"), F.col("phase.place"))
    return measured(told, who("view change"), "us", F.greatest(F.lit(0), F.col("phase.time")), F.lit(1), phase)


def silences(traffic: Traffic) -> DataFrame:
    """How long each node went without a delivery: from its first row at the boundary to the end of its record."""
    order = Window.partitionBy(*HOME, "boundary").orderBy("index")
    moments = traffic.receipts.select(*_MOMENT).unionByName(_ends(traffic.lives))
    gaps = moments.withColumn("silence", F.col("at") - F.lag("at").over(order))
    return measured(
        gaps, who("silence"), "us", F.col("silence"), F.lit(1), undivided(), dimension("node", F.col("node"))
    )  # fmt: skip


def _ends(lives: DataFrame) -> DataFrame:
    """Before and behind all deliveries of a record at a boundary, where a run has messages at that."""
    run = Window.partitionBy("run")
    ends = []
    for boundary, side in ((CLIENTS, "clients"), (DAEMONS, "daemons")):
        is_used = F.col(f"{side}_first").isNotNull() & (F.sum(f"{side}_messages").over(run) > 0)
        ends += [_end(boundary, -1, is_used, f"{side}_first"), _end(boundary, NEVER, is_used, "last")]
    told = lives.select(*HOME, F.array(*ends).alias("ends")).select(*HOME, F.explode("ends").alias("end"))
    return told.select(*HOME, "end.boundary", "end.index", "end.at").where("at IS NOT NULL")


def _end(boundary: int, index: int, is_used: Column, at: str) -> Column:
    time = F.when(is_used, F.col(at)).alias("at")
    return F.struct(F.lit(boundary).alias("boundary"), F.lit(index).cast("bigint").alias("index"), time)
