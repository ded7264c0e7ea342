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
from isotone.pipeline.bronze import is_note, together
from isotone.spec.check.corel.checker import ENTRIES
from isotone.trace.record import NOT_CLOSED
from isotone.trace.vocabulary import kind_of
from isotone.trace.writer import Level

RECORD = ("run", "node", "incarnation")
_SERVICES = ["UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"]
_ABOUT = "part int, level string, boot string, died boolean, closed boolean, problem string, spool boolean"
_EXTRA = "lost bigint, quiet boolean, components array<array<string>>"


def silver(bronze: DataFrame, notes: DataFrame | None = None) -> DataFrame:
    """Everything a checker needs of the runs in these bronze rows; ``notes`` are those among them, if known."""
    notes = together(bronze.where(is_note())) if notes is None else notes
    rows, spans = _once(_typed(whole(bronze.where(~is_note()), notes)), _spans(notes))
    ends = _padded(_ends(spans, _records(notes)), rows)
    added = ends.unionByName(_padded(_gaps(spans), rows)).localCheckpoint(eager=True)
    return rows if added.isEmpty() else rows.unionByName(added)


def whole(some: DataFrame, notes: DataFrame) -> DataFrame:
    """Of some rows of bronze, those that count: of a whole trace none, if a part of it could not be read."""
    bad = notes.where(F.col("kind") == schema.PROBLEM).select("file").distinct()
    return some.join(F.broadcast(bad.withColumn("is_part", F.lit(False))), on=["file", "is_part"], how="left_anti")


# --- types -----------------------------------------------------------------------------------------------------------


def daemon_name(text: Column) -> Column:
    """What stands before the last ``#``."""
    rest = F.length(text) - F.length(F.substring_index(text, "#", -1))  # 0 where there is none
    return F.substring(text, F.lit(1), F.greatest(rest - 1, F.lit(0)))


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
    values = F.col(name)
    ordered = F.when(F.size(values) > 1, F.sort_array(F.array_distinct(values))).otherwise(values)
    return ordered.alias(name)


def _is_of_replica() -> Column:
    """Those rows are judged as they were written."""
    return F.col("kind").isin(*(kind_of(each) for each in ENTRIES))


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
        F.when(_is_of_replica(), F.col("servers")).otherwise(_set("servers")).alias("servers"),
        extra["lost"].alias("lost"),
        "reason",
        extra["components"].alias("components"),
        extra["quiet"].alias("quiet"),
        F.when(_is_of_replica(), F.col("extra")).alias("extra"),
    )


# --- records -------------------------------------------------------------------------------------------------------


def whole_spans(notes: DataFrame) -> DataFrame:
    """The notes of which rows there are that count."""
    return whole(notes.where(F.col("kind") == schema.SPAN), notes)


def _spans(notes: DataFrame) -> DataFrame:
    """Which indices of each record are there, in ranges."""
    return whole_spans(notes).select(
        *RECORD,
        "index",
        F.col("first_sequence").alias("next"),
        "at",
        F.col("lamport").alias("last_at"),
        F.col("reason").alias("last_kind"),
    )


def _once(rows: DataFrame, spans: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Of rows of one place any, but always the same; and the spans of what is left.

    Only records in which spans overlap are looked at row by row, and most runs have none.
    """
    earlier = Window.partitionBy(*RECORD).orderBy("index", "next").rowsBetween(Window.unboundedPreceding, -1)
    doubled = spans.withColumn("_before", F.max("next").over(earlier)).where("index < _before")
    records = doubled.select(*RECORD).distinct().localCheckpoint(eager=True)
    if records.isEmpty():
        return rows, spans
    order = Window.partitionBy(*RECORD, "index").orderBy("kind", "at", "content")
    numbered = _of(rows, records, "left_semi").withColumn("_place", F.row_number().over(order))
    single = numbered.where("_place = 1").drop("_place")
    marks = single.select(
        *RECORD, "index", _after().alias("next"), "at", F.col("at").alias("last_at"), F.col("kind").alias("last_kind")
    )
    return (
        _of(rows, records, "left_anti").unionByName(single),
        _of(spans, records, "left_anti").unionByName(marks),
    )


def _of(rows: DataFrame, records: DataFrame, how: str) -> DataFrame:
    return rows.join(F.broadcast(records), on=list(RECORD), how=how)


def _after() -> Column:
    """The index at which a record goes on after a row."""
    lost = F.greatest(F.lit(1), F.coalesce("lost", F.lit(1)))
    return F.col("index") + F.when(F.col("kind") == "gap", lost).otherwise(1)


def _gaps(spans: DataFrame) -> DataFrame:
    order = Window.partitionBy(*RECORD).orderBy("index")
    before = F.coalesce(F.lag("next").over(order), F.lit(0))
    holes = spans.withColumn("_from", before).where("index > _from AND node != ''")
    return holes.select(
        *RECORD,
        F.col("_from").alias("index"),
        "at",
        F.lit("gap").alias("kind"),
        (F.col("index") - F.col("_from")).alias("lost"),
    )


def _padded(few: DataFrame, like: DataFrame) -> DataFrame:
    types = {field.name: field.dataType for field in like.schema.fields}
    return few.select(
        *(F.col(name) if name in few.columns else F.lit(None).cast(types[name]).alias(name) for name in types)
    )


def _records(notes: DataFrame) -> DataFrame:
    """One row per record that was written in parts: its last tail, its weakest level, and the next one's boot."""
    parts = notes.where(F.col("kind") == schema.PART).withColumn("about", F.from_json("extra", _ABOUT))
    bad = notes.where(F.col("kind") == schema.PROBLEM).groupBy("file").agg(F.min("reason").alias("damage"))
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


def _ends(spans: DataFrame, records: DataFrame) -> DataFrame:
    """What stands at the end of a record that nobody closed: a crash where nothing else can be, else truncated."""
    last = spans.groupBy(*RECORD).agg(
        F.max_by("last_kind", "index").alias("last_kind"),
        F.max_by("next", "index").alias("index"),
        F.max_by("last_at", "index").alias("at"),
    )
    unfinished = records.join(last, on=list(RECORD), how="left").where(
        "NOT closed AND coalesce(last_kind, '') NOT IN ('crash', 'truncated')"
    )
    alone = F.coalesce(F.col("later") == F.col("boot"), F.col("gone")) & (F.col("boot") != "")
    died = alone & (F.col("full") == 1) & (F.col("problem") == "")
    reason = F.when(F.col("problem") == "", NOT_CLOSED).otherwise(F.concat(F.lit(f"{NOT_CLOSED}: "), "problem"))
    home = F.concat("node", F.lit("#"), F.col("incarnation").cast("string"))
    return unfinished.select(
        *RECORD,
        F.coalesce("index", F.lit(0)).alias("index"),
        F.coalesce("at", F.lit(0)).alias("at"),
        F.when(F.coalesce(died, F.lit(False)), "crash").otherwise("truncated").alias("kind"),
        F.array(home).alias("clients"),
        reason.alias("reason"),
    )
