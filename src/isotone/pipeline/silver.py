"""Silver: bronze rows typed, each (run, node, incarnation, index) once, holes said, unfinished records ended.

The rules are those of the plain reader (docs/trace.md, Reading): a hole in the indices is a `gap`; a record that may
have gone on ends with `truncated`, or with the `crash` that its process could not write. A file that is a whole trace
counts only if all of it could be read.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline import schema
from isotone.trace.record import NOT_CLOSED
from isotone.trace.writer import Level

RECORD = ("run", "node", "incarnation")
_SERVICES = ["UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"]
_ABOUT = "part int, level string, boot string, died boolean, closed boolean, problem string, spool boolean"
_EXTRA = "lost bigint, quiet boolean, components array<array<string>>"


def silver(bronze: DataFrame) -> DataFrame:
    """Everything a checker needs of the runs in these bronze rows."""
    rows = _once(_typed(whole_rows(bronze)))
    ends = _ends(rows, _records(bronze))
    told = rows.unionByName(ends)
    return told.unionByName(_gaps(told))


def _is_row() -> Column:
    return ~F.col("kind").startswith("_")


def whole_rows(bronze: DataFrame) -> DataFrame:
    """Rows, without those of whole traces that could not be read to the end."""
    bad = bronze.where(F.col("kind") == schema.PROBLEM).select("file").distinct()
    rows = bronze.where(_is_row())
    kept = rows.where("NOT is_part").join(F.broadcast(bad), on="file", how="left_anti")
    return rows.where("is_part").unionByName(kept)


# --- types -----------------------------------------------------------------------------------------------------------


def daemon_name(text: Column) -> Column:
    """What stands before the last ``#``."""
    return F.when(F.contains(text, F.lit("#")), F.regexp_replace(text, "#[^#]*$", "")).otherwise(F.lit(""))


def daemon_incarnation(text: Column, otherwise: int = 0) -> Column:
    """The number behind the last ``#``."""
    digits = F.substring_index(text, "#", -1)
    return F.when(digits.rlike("^[0-9]+$"), digits.try_cast("bigint")).otherwise(F.lit(otherwise).cast("bigint"))


def _daemon_view(epoch: Column, coordinator: Column) -> Column:
    name, incarnation = daemon_name(coordinator), daemon_incarnation(coordinator)
    return F.struct(epoch.alias("epoch"), name.alias("name"), incarnation.alias("incarnation"))


def _stamp(lamport: Column, stamper: Column) -> Column:
    name, incarnation = daemon_name(stamper), daemon_incarnation(stamper)
    return F.struct(lamport.alias("lamport"), name.alias("name"), incarnation.alias("incarnation"))


def _view() -> Column:
    view = F.struct(
        _daemon_view(F.col("view.epoch"), F.col("view.coordinator")).alias("daemon_view"),
        _daemon_view(F.col("view.next_epoch"), F.col("view.next_coordinator")).alias("next_daemon_view"),
        _stamp(F.col("view.lamport"), F.col("view.stamper")).alias("stamp"),
    )
    return F.when(F.col("view").isNotNull(), view)


def _set(name: str) -> Column:
    return F.array_sort(F.array_distinct(F.col(name))).alias(name)


def _typed(rows: DataFrame) -> DataFrame:
    extra = F.from_json("extra", _EXTRA)
    service = F.array_position(F.array(*map(F.lit, _SERVICES)), F.col("service")) - 1
    stamped = F.when(F.col("lamport").isNotNull(), _stamp(F.col("lamport"), F.col("stamper")))
    return rows.select(
        *RECORD,
        "index",
        "at",
        "kind",
        "clients",
        _set("groups"),
        service.cast("int").alias("service"),
        "sender",
        F.col("first_sequence").alias("first"),
        F.size("digests").alias("count"),
        "lengths",
        "digests",
        F.when(F.col("digests").isNotNull(), F.xxhash64("lengths", "digests")).alias("content"),
        stamped.alias("stamp"),
        _view().alias("view"),
        _set("members"),
        _set("transitional"),
        "network",
        _set("servers"),
        extra["lost"].alias("lost"),
        "reason",
        extra["components"].alias("components"),
        extra["quiet"].alias("quiet"),
    )


# --- records -------------------------------------------------------------------------------------------------------


def _once(rows: DataFrame) -> DataFrame:
    """Of rows of one place any, but always the same. Most runs have none twice, and that is cheap to see."""
    if rows.groupBy(*RECORD, "index").count().where("count > 1").isEmpty():
        return rows
    order = Window.partitionBy(*RECORD, "index").orderBy("kind", "at", "content")
    return rows.withColumn("_place", F.row_number().over(order)).where("_place = 1").drop("_place")


def _after() -> Column:
    """The index at which a record goes on after a row."""
    lost = F.greatest(F.lit(1), F.coalesce("lost", F.lit(1)))
    return F.col("index") + F.when(F.col("kind") == "gap", lost).otherwise(1)


def _gaps(rows: DataFrame) -> DataFrame:
    order = Window.partitionBy(*RECORD).orderBy("index")
    before = F.coalesce(F.lag(_after()).over(order), F.lit(0))
    holes = rows.withColumn("_from", before).where("index > _from AND node != ''")
    filled = holes.select(
        *RECORD,
        F.col("_from").alias("index"),
        "at",
        F.lit("gap").alias("kind"),
        (F.col("index") - F.col("_from")).alias("lost"),
    )
    return _padded(filled, rows)


def _padded(few: DataFrame, like: DataFrame) -> DataFrame:
    types = {field.name: field.dataType for field in like.schema.fields}
    return few.select(
        *(F.col(name) if name in few.columns else F.lit(None).cast(types[name]).alias(name) for name in types)
    )


def _records(bronze: DataFrame) -> DataFrame:
    """One row per record that was written in parts: its last tail, its weakest level, and the next one's boot."""
    parts = bronze.where(F.col("kind") == schema.PART).withColumn("about", F.from_json("extra", _ABOUT))
    bad = bronze.where(F.col("kind") == schema.PROBLEM).groupBy("file").agg(F.min("reason").alias("damage"))
    parts = parts.join(F.broadcast(bad), on="file", how="left")
    order = F.struct("about.part", "about.spool")
    weak = F.min(F.when(F.col("about.level") == Level.FULL.value, 1).otherwise(0))
    records = parts.groupBy(*RECORD).agg(
        F.max_by(F.col("about.closed") & F.col("damage").isNull(), order).alias("closed"),
        F.max_by(F.coalesce("damage", "about.problem"), order).alias("problem"),
        F.min("about.boot").alias("boot"),
        F.min("about.died").alias("gone"),
        weak.alias("full"),
    )
    later = Window.partitionBy("run", "node").orderBy("incarnation")
    return records.withColumn("later", F.lead("boot").over(later))


def _ends(rows: DataFrame, records: DataFrame) -> DataFrame:
    """What stands at the end of a record that nobody closed: a crash where nothing else can be, else truncated."""
    last = rows.groupBy(*RECORD).agg(
        F.max_by("kind", "index").alias("last_kind"),
        F.max_by(_after(), "index").alias("index"),
        F.max_by("at", "index").alias("at"),
    )
    unfinished = records.join(last, on=list(RECORD), how="left").where(
        "NOT closed AND coalesce(last_kind, '') NOT IN ('crash', 'truncated')"
    )
    alone = F.coalesce(F.col("later") == F.col("boot"), F.col("gone")) & (F.col("boot") != "")
    died = alone & (F.col("full") == 1) & (F.col("problem") == "")
    reason = F.when(F.col("problem") == "", NOT_CLOSED).otherwise(F.concat(F.lit(f"{NOT_CLOSED}: "), "problem"))
    home = F.concat("node", F.lit("#"), F.col("incarnation").cast("string"))
    ended = unfinished.select(
        *RECORD,
        F.coalesce("index", F.lit(0)).alias("index"),
        F.coalesce("at", F.lit(0)).alias("at"),
        F.when(F.coalesce(died, F.lit(False)), "crash").otherwise("truncated").alias("kind"),
        F.array(home).alias("clients"),
        reason.alias("reason"),
    )
    return _padded(ended, rows)
