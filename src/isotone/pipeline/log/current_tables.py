"""Tables that follow the log: with every batch a new version of all of them, as of one position.

A version is a directory, ``DIR/at-POSITION``: the objects and the databases there, and from what the next version is
made: a snapshot of the state machine, and as few row changes as make the same tables. ``DIR/current`` is a link to the
newest; it is replaced by a rename, so who opens it finds all tables as of one position. A batch that comes again, since
a driver died, finds its position there. Each version is written whole: it costs what the tables cost, not the batch.

Implements: [DESIGN 5], tables as of one position. Deviations: none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from isotone.pipeline.log.databases import compacted, row_changes, rows_as_of, table_of_rows, tables_in
from isotone.pipeline.log.objects import MACHINE, objects_as_of
from isotone.pipeline.log.options import parse_options
from isotone.pipeline.log.reading import extent

OBJECTS, DATABASES = "objects", "databases"
CURRENT, CHECKPOINT = "current", "checkpoint"
OLD = ".old"
_CHANGES, _MACHINE = ".changes", ".machine"
_VERSION = "at-"
KEPT = 2
"""Versions that stay: readers of the last but one may still be at it."""
Options = Mapping[str, str]


def read_log(spark: SparkSession, options: Options, first: int, last: int | None) -> DataFrame:
    """The positions ``first`` … ``last`` of the log, or of the changes, that these options name."""
    given = {**options, "from": str(first), "to": str(last or "")}
    return spark.read.format("isotone").options(**{name: value for name, value in given.items() if value}).load()


def follow(
    spark: SparkSession,
    log: Options,
    changes: Options,
    out: Path,
    *,
    trigger: Mapping[str, Any],
    tell: Callable[[int], object] = lambda position: None,
) -> StreamingQuery:
    """Keep the tables in ``out`` current; ``tell`` is called with the position of each version.

    ``changes`` is empty for a log without databases. Otherwise tables come as far as both are.
    """
    out.mkdir(parents=True, exist_ok=True)
    wanted = parse_options({name: value for name, value in log.items() if value})

    def write(batch: DataFrame, number: int) -> None:
        del number
        end = min(batch.agg(F.max("position")).collect()[0][0] or 0, extent(wanted).last)
        if end > position_of(out):
            write_version(spark, log, changes, out, end)
            tell(end)

    source = {name: value for name, value in (changes or log).items() if value}
    rows = spark.readStream.format("isotone").options(**source).load().select("position")
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(out / CHECKPOINT))
    return writer.trigger(**trigger).start()


def position_of(out: Path) -> int:
    """Of the newest version; 0 if there is none."""
    current = out / CURRENT
    return int(os.readlink(current).removeprefix(_VERSION)) if current.is_symlink() else 0


def write_version(spark: SparkSession, log: Options, changes: Options, out: Path, position: int) -> None:
    """The tables as of this position, from those of the newest version and what has come behind."""
    before = position_of(out)
    older = out / f"{_VERSION}{before}"
    place = out / f"{_VERSION}{position}"
    shutil.rmtree(place, ignore_errors=True)  # of a driver that was killed while it wrote
    since = (older / _MACHINE).read_bytes() if before else b""
    rows = objects_as_of(read_log(spark, log, before + 1, position), position, since=since, with_machine=True).persist()
    write_objects(rows.where(F.col("kind") != MACHINE), place / OBJECTS)
    (place / _MACHINE).write_bytes(rows.where(F.col("kind") == MACHINE).collect()[0]["value"])
    rows.unpersist()
    if changes:
        come = row_changes(read_log(spark, changes, before + 1, position))
        known = come if not before else come.unionByName(spark.read.schema(come.schema).parquet(str(older / _CHANGES)))
        compacted(known).write.parquet(str(place / _CHANGES))
        kept = spark.read.schema(come.schema).parquet(str(place / _CHANGES))
        write_databases(rows_as_of(kept), place / DATABASES)
    _make_current(out, place)


def _make_current(out: Path, place: Path) -> None:
    link = out / f".{CURRENT}"
    link.unlink(missing_ok=True)
    link.symlink_to(place.name)
    link.replace(out / CURRENT)
    versions = sorted(out.glob(f"{_VERSION}*"), key=lambda path: int(path.name.removeprefix(_VERSION)))
    for old in versions[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def write_objects(rows: DataFrame, place: Path) -> None:
    """One table of all objects, partitioned by them."""
    rows.write.mode("overwrite").partitionBy("object").parquet(str(place))


def put_in_place(new: Path, out: Path) -> None:
    """Replace what there is by what is new. Killed at any moment this leaves tables of one position, or none."""
    old = out / OLD
    shutil.rmtree(old, ignore_errors=True)
    old.mkdir(parents=True)
    for name in (DATABASES, OBJECTS):  # databases go first and come last: they are never beside other objects
        if (out / name).exists():
            (out / name).rename(old / name)
    for name in (OBJECTS, DATABASES):
        if (new / name).exists():
            (new / name).rename(out / name)
    shutil.rmtree(old)
    shutil.rmtree(new)


def write_databases(rows: DataFrame, place: Path) -> list[dict[str, Any]]:
    """Each table of each database, from the rows of all of them; where each is, and how many rows it has."""
    rows = rows.persist()
    told = []
    for database, form, count in tables_in(rows):
        path = place / quote(database, safe="") / quote(form.name, safe="")
        table_of_rows(rows, database, form).write.parquet(str(path))
        told.append({"database": database, "table": form.name, "path": str(path), "count": count})
    rows.unpersist()
    return told
