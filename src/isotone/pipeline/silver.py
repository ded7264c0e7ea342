"""Silver: bronze rows typed, each (run, node, incarnation, index) once, holes said, unfinished records ended.

The rules are those of the plain reader (docs/trace.md, Reading): a hole in the indices is a `gap`; a record that may
have gone on ends with `truncated`, or with the `crash` that its process could not write. A file that is a whole trace
counts only if all of it could be read.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline import schema
from isotone.pipeline.bronze import is_note, together
from isotone.pipeline.records import ends_of, records_of
from isotone.pipeline.schema import RECORD
from isotone.spec.check.corel.checker import ENTRIES
from isotone.trace.vocabulary import kind_of

_FROM = ("file", "is_part")
_SERVICES = ["UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"]
_EXTRA = "lost bigint, quiet boolean, components array<array<string>>"


def silver(bronze: DataFrame, notes: DataFrame | None = None) -> DataFrame:
    """Everything a checker needs of the runs in these bronze rows; ``notes`` are those among them, if known."""
    notes = together(bronze.where(is_note())) if notes is None else notes
    told = _spans(notes)
    rows, spans = _once(_typed(whole(bronze.where(~is_note()), notes)), told)
    ends = ends_of(told, records_of(notes, told)).localCheckpoint(eager=True)
    behind = ends.select(*RECORD, "index", (F.col("index") + 1).alias("next"), "at")
    gaps = _gaps(spans.select(*behind.columns).unionByName(behind))
    few = [ends, gaps, _empty(notes, spans, ends)]
    added = reduce(DataFrame.unionByName, (_padded(each, rows) for each in few)).localCheckpoint(eager=True)
    return rows if added.isEmpty() else rows.unionByName(added)


def sources(notes: DataFrame) -> DataFrame:
    """Which file tells of which run: run and file."""
    kinds = (schema.RUN, schema.PART, schema.SPAN)
    return notes.where(F.col("kind").isin(*kinds)).select("run", "file").distinct()


def _empty(notes: DataFrame, spans: DataFrame, ends: DataFrame) -> DataFrame:
    """A row for each run that has files, and nothing in them."""
    known = spans.select("run").union(ends.select("run"))
    runs = sources(notes).select("run").distinct().join(known, on="run", how="left_anti")
    blank = {"node": F.lit(""), "incarnation": F.lit(0), "index": F.lit(0), "at": F.lit(0)}
    longs = {name: value.cast("bigint") for name, value in blank.items() if name != "node"}
    return runs.withColumns({**blank, **longs, "kind": F.lit(schema.RUN)})


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
        "file",
        "is_part",
    )


# --- records -------------------------------------------------------------------------------------------------------


def _spans(notes: DataFrame) -> DataFrame:
    """Which indices of each record are there, in ranges."""
    return whole(notes.where(F.col("kind") == schema.SPAN), notes).select(
        *RECORD,
        "index",
        F.col("first_sequence").alias("next"),
        "at",
        F.col("lamport").alias("last_at"),
        F.col("reason").alias("last_kind"),
        "file",
        "is_part",
    )


def _once(rows: DataFrame, spans: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Of rows of one place the one that the plain reader takes; and the spans of what is left.

    Only records in which spans overlap are looked at row by row, and most runs have none.
    """
    earlier = Window.partitionBy(*RECORD).orderBy("index", "next").rowsBetween(Window.unboundedPreceding, -1)
    doubled = spans.withColumn("_before", F.max("next").over(earlier)).where("index < _before")
    records = doubled.select(*RECORD).distinct().localCheckpoint(eager=True)
    if records.isEmpty():
        return rows.drop(*_FROM), spans
    order = Window.partitionBy(*RECORD, "index").orderBy("is_part", "file", F.xxhash64(*rows.columns))
    numbered = _of(rows, records, "left_semi").withColumn("_place", F.row_number().over(order))
    single = numbered.where("_place = 1").drop("_place")
    marks = single.select(
        *RECORD,
        "index",
        _after().alias("next"),
        "at",
        F.col("at").alias("last_at"),
        F.col("kind").alias("last_kind"),
        *_FROM,
    )
    return (
        _of(rows, records, "left_anti").unionByName(single).drop(*_FROM),
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
    holes = spans.withColumn("_from", before).where("index > _from")
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
