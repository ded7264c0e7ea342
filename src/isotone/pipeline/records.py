"""Records that were written in parts: which of them nobody closed, and what stands at their ends then.

The rules are those of the plain reader (`isotone.trace.record`), as joins over what is told of the files. Where the
last part of a record is gone (``kept``: what was told of it is all that there is), it ends as it did when it was read:
more may have been written since.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline import schema
from isotone.pipeline.schema import RECORD
from isotone.trace.record import NOT_CLOSED
from isotone.trace.writer import Level

_ABOUT = (
    "part int, level string, boot string, died boolean, number int, there array<int>, closed boolean, problem string, "
    "spool boolean, kept boolean"
)


def records_of(notes: DataFrame, spans: DataFrame) -> DataFrame:
    """One row per record that was written in parts: how it ended, its weakest level, and the next one's boot."""
    weak = F.min(F.when(F.col("level") == Level.FULL.value, 1).otherwise(0))
    seen = F.when(~F.col("kept"), F.col("there"))
    unread = F.array_except(F.flatten(F.collect_set(seen)), F.collect_set("number"))
    carried = (F.col("problem") != "") & (F.col("place") >= F.coalesce("since", F.lit(0)))
    records = (
        _parts(notes, spans)
        .groupBy(*RECORD)
        .agg(
            F.max_by("closed", "place").alias("closed"),
            F.max(F.when(carried, F.col("place"))).alias("damaged_at"),
            F.max("place").alias("last_place"),
            F.coalesce(F.max_by("problem", F.when(carried, F.col("place"))), F.lit("")).alias("problem"),
            F.min("boot").alias("boot"),
            (F.min(F.when(~F.col("kept"), F.col("died"))) & (F.size(unread) == 0)).alias("gone"),
            F.max_by(F.when(F.col("kept"), F.col("died")), "place").alias("ended"),
            weak.alias("full"),
        )
    )
    whole_end = F.coalesce(F.col("damaged_at") == F.col("last_place"), F.lit(True))
    later = Window.partitionBy("run", "node").orderBy("incarnation")
    return records.withColumn("closed", F.col("closed") & whole_end).withColumn("later", F.lead("boot").over(later))


def _parts(notes: DataFrame, spans: DataFrame) -> DataFrame:
    """Every part of every record in its place, and the last place up to which the record went on: ``since``.

    What was damaged before that is a gap, and no longer how the record ends.
    """
    bad = notes.where(F.col("kind") == schema.PROBLEM).groupBy("file").agg(F.min("reason").alias("damage"))
    reach = spans.where("is_part").groupBy("file").agg(F.max("next").alias("reach"))
    told = notes.where(F.col("kind") == schema.PART).select(
        *RECORD, "file", F.from_json("extra", _ABOUT).alias("about")
    )
    parts = told.select(*RECORD, "file", "about.*").join(F.broadcast(bad), on="file", how="left")
    parts = parts.withColumn("kept", F.coalesce("kept", F.lit(False)))
    parts = parts.withColumn("closed", F.col("closed") & F.col("damage").isNull())
    parts = parts.withColumn("problem", F.coalesce("damage", "problem")).join(reach, on="file", how="left")
    order = Window.partitionBy(*RECORD).orderBy("part", "spool", "file")
    before = F.max("reach").over(order.rowsBetween(Window.unboundedPreceding, -1))
    placed = parts.withColumn("place", F.row_number().over(order))
    goes_on = F.coalesce(F.col("reach") > F.coalesce(before, F.lit(0)), F.lit(False))
    marked = placed.withColumn("_on", F.when(goes_on, F.col("place")))
    return marked.withColumn("since", F.max("_on").over(Window.partitionBy(*RECORD)))


def ends_of(spans: DataFrame, records: DataFrame) -> DataFrame:
    """What stands at the end of a record that nobody closed: a crash where nothing else can be, else truncated."""
    last = (
        spans.where("is_part")
        .groupBy(*RECORD)
        .agg(
            F.max_by("last_kind", "next").alias("last_kind"),
            F.max("next").alias("index"),
            F.max_by("last_at", "next").alias("at"),
        )
    )
    unfinished = records.join(last, on=list(RECORD), how="left").where(
        "NOT closed AND coalesce(last_kind, '') NOT IN ('crash', 'truncated')"
    )
    alone = F.coalesce(F.col("ended"), F.col("later") == F.col("boot"), F.col("gone")) & (F.col("boot") != "")
    died = F.coalesce(alone & (F.col("full") == 1) & (F.col("problem") == ""), F.lit(False))
    reason = F.when(F.col("problem") == "", NOT_CLOSED).otherwise(F.concat(F.lit(f"{NOT_CLOSED}: "), "problem"))
    home = F.concat("node", F.lit("#"), F.col("incarnation").cast("string"))
    ends = unfinished.select(
        *RECORD,
        F.coalesce("index", F.lit(0)).alias("index"),
        F.coalesce("at", F.lit(0)).alias("at"),
        F.when(died, "crash").otherwise("truncated").alias("kind"),
        F.when(died, F.array(home)).alias("clients"),
        F.when(~died, reason).alias("reason"),
    )
    return _beyond(ends, spans.where("NOT is_part"))


def _beyond(ends: DataFrame, wholes: DataFrame) -> DataFrame:
    """Without those at a place where another file has a row of the record."""
    there = wholes.select(*RECORD, F.col("index").alias("_from"), F.col("next").alias("_to"))
    inside = (F.col("index") >= F.col("_from")) & (F.col("index") < F.col("_to"))
    same = reduce(Column.__and__, (ends[name] == there[name] for name in RECORD))
    return ends.join(there, on=same & inside, how="left_anti")
