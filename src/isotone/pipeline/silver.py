"""Silver: bronze rows typed, each (run, node, incarnation, index) once, holes said, unfinished records ended.

The rules are those of the plain reader (docs/trace.md, Reading): a hole in the indices is a `gap`; a record that may
have gone on ends with `truncated`, or with the `crash` that its process could not write. A file that is a whole trace
counts only if all of it could be read.

Implements: [DESIGN 5]. Deviations: bundles stay bundles, with the lengths and digests of their messages; who needs
single messages expands those (`isotone.pipeline.metrics.messages.by_size`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.core.errors import InputError
from isotone.pipeline import schema
from isotone.pipeline.bronze import ChangedError, is_note, together
from isotone.pipeline.records import ends_of, records_of
from isotone.pipeline.schema import RECORD
from isotone.spec.check.layers import layer_entries
from isotone.trace.events import LinkCounted
from isotone.trace.vocabulary import kind_of

FROM = ("file", "is_part")
"""The columns that say where a row comes from."""
_SERVICES = ["UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"]
LINK_COUNT = kind_of(LinkCounted)
_EXTRA = "lost bigint, quiet boolean, components array<array<string>>"


GONE = "a file of the run is gone, and nothing is known of its rows"


class Silver(NamedTuple):
    """The rows, and how many each run must have: who uses them counts them (`isotone.pipeline.bronze.ChangedError`)."""

    rows: DataFrame
    counts: DataFrame

    def expected(self) -> dict[str, int]:
        """The counts by run."""
        return {row["run"]: row["count"] for row in self.counts.collect()}


class Older(NamedTuple):
    """Of files that are gone: their rows as they are in silver, their notes, and their names."""

    rows: DataFrame | None
    notes: DataFrame
    files: tuple[str, ...]


def silver(bronze: DataFrame, notes: DataFrame | None = None) -> DataFrame:
    """Everything a checker needs of the runs in these bronze rows; ``notes`` are those among them, if known."""
    return counted_silver(bronze, notes).rows


def counted_silver(bronze: DataFrame, notes: DataFrame | None = None, older: Older | None = None) -> Silver:
    """The same, with what is known of files that are gone, and how many rows each run must have."""
    notes = together(bronze.where(is_note())) if notes is None else notes
    typed = _typed(whole(bronze.where(~is_note()), notes))
    if older is not None:
        notes = notes.unionByName(older.notes)
        typed = typed if older.rows is None else typed.unionByName(older.rows)
    told = _spans(notes).localCheckpoint(eager=True)
    rows, spans = _once(typed, told, () if older is None else older.files)
    ends = ends_of(told, records_of(notes, told)).localCheckpoint(eager=True)
    behind = ends.select(*RECORD, "index", (F.col("index") + 1).alias("next"), "at")
    gaps = _gaps(spans.select(*behind.columns).unionByName(behind))
    few = [ends, gaps, _empty(notes, spans, ends), *(() if older is None else (_lost(notes, told),))]
    added = reduce(DataFrame.unionByName, (_padded(each, rows) for each in few)).localCheckpoint(eager=True)
    counts = spans.select("run", "rows").unionByName(added.select("run", F.lit(1).cast("bigint").alias("rows")))
    counts = counts.groupBy("run").agg(F.sum("rows").alias("count"))
    return Silver(rows if added.isEmpty() else rows.unionByName(added), counts)


def sources(notes: DataFrame) -> DataFrame:
    """Which file tells of which run: run and file."""
    kinds = (schema.RUN, schema.PART, schema.SPAN, schema.LOST)
    return notes.where(F.col("kind").isin(*kinds)).select("run", "file").distinct()


def _empty(notes: DataFrame, spans: DataFrame, ends: DataFrame) -> DataFrame:
    """A row for each run that has files, and nothing in them."""
    known = spans.select("run").union(ends.select("run"))
    runs = sources(notes).select("run").distinct().join(known, on="run", how="left_anti")
    blank = {"node": F.lit(""), "incarnation": F.lit(0), "index": F.lit(0), "at": F.lit(0)}
    longs = {name: value.cast("bigint") for name, value in blank.items() if name != "node"}
    return runs.withColumns({**blank, **longs, "kind": F.lit(schema.RUN)})


def _lost(notes: DataFrame, spans: DataFrame) -> DataFrame:
    """A row for each run of which rows are lost and nobody knows which: an end of the record of who drove it."""
    driver = (F.col("node") == "") & (F.col("incarnation") == 0)
    last = spans.groupBy("run").agg(F.max(F.when(driver, F.col("next"))).alias("next"), F.max("last_at").alias("at"))
    runs = notes.where(F.col("kind") == schema.LOST).select("run").distinct().join(last, on="run", how="left")
    return runs.select(
        "run",
        F.lit("").alias("node"),
        F.lit(0).cast("bigint").alias("incarnation"),
        (F.coalesce("next", F.lit(0)) + 1).cast("bigint").alias("index"),  # one further: another end may stand there
        F.coalesce("at", F.lit(0)).cast("bigint").alias("at"),
        F.lit("truncated").alias("kind"),
        F.lit(GONE).alias("reason"),
    )


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


def _is_of_layer() -> Column:
    """Those rows are judged as they were written."""
    return F.col("kind").isin(*(kind_of(each) for each in layer_entries()))


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
        F.when(_is_of_layer(), F.col("servers")).otherwise(_set("servers")).alias("servers"),
        extra["lost"].alias("lost"),
        "reason",
        extra["components"].alias("components"),
        extra["quiet"].alias("quiet"),
        F.when(_is_of_layer() | (F.col("kind") == LINK_COUNT), F.col("extra")).alias("extra"),
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
        F.col("extra").try_cast("bigint").alias("rows"),
        "file",
        "is_part",
    )


def _once(rows: DataFrame, spans: DataFrame, gone: Sequence[str] = ()) -> tuple[DataFrame, DataFrame]:
    """Of rows of one place the one that the plain reader takes; and the spans of what is left.

    Only records in which spans overlap are looked at row by row, and most runs have none.
    """
    earlier = Window.partitionBy(*RECORD).orderBy("index", "next").rowsBetween(Window.unboundedPreceding, -1)
    doubled = spans.withColumn("_before", F.max("next").over(earlier)).where("index < _before")
    records = doubled.select(*RECORD).distinct().localCheckpoint(eager=True)
    if records.isEmpty():
        return rows, spans
    some = _of(rows, records, "left_semi").localCheckpoint(eager=True)
    _check(some, _of(spans, records, "left_semi"), gone)
    _check_same(some)
    order = Window.partitionBy(*RECORD, "index").orderBy("is_part", "file", F.xxhash64(*rows.columns))
    numbered = some.withColumn("_place", F.row_number().over(order))
    single = numbered.where("_place = 1").drop("_place")
    marks = single.select(
        *RECORD,
        "index",
        _after().alias("next"),
        "at",
        F.col("at").alias("last_at"),
        F.col("kind").alias("last_kind"),
        F.lit(1).cast("bigint").alias("rows"),
        *FROM,
    )
    return (
        _of(rows, records, "left_anti").unionByName(single),
        _of(spans, records, "left_anti").unionByName(marks),
    )


def _check_same(rows: DataFrame) -> None:
    """Two rows of one id that differ are of two runs, or one was altered."""
    said = F.xxhash64(*(name for name in rows.columns if name not in FROM))
    ends = F.col("kind").isin("gap", "truncated", schema.RUN)
    both = (
        rows.where(~ends)
        .groupBy(*RECORD, "index")
        .agg(F.collect_set(said).alias("said"), F.collect_set("file").alias("files"))
    )
    for row in both.where(F.size("said") > 1).orderBy(*RECORD, "index").limit(1).collect():
        place = f"{row['node']}#{row['incarnation']} row {row['index']}"
        files = " and ".join(sorted(row["files"]))
        raise InputError(f"two records of {place} in run {row['run']!r}, which do not agree: {files}")


def _check(rows: DataFrame, spans: DataFrame, gone: Sequence[str]) -> None:
    """These are the rows that were told of; of files that are gone, some may have been left out before."""
    is_read = ~F.col("file").isin(*gone) if gone else F.lit(True)
    told = spans.where(is_read).agg(F.coalesce(F.sum("rows"), F.lit(0)).alias("rows")).collect()[0]["rows"]
    if rows.where(is_read).count() != told:
        raise ChangedError


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
