"""Replicated SQLite on Spark: the changes of rows, and every table as of one position.

Replicas archive what each transaction changed, beside the log: procedures are code, so the log alone does not say it.
Records of changes are independent of each other, so tasks read them in parallel: a table at a position is, for each
key, the newest row behind the newest definition of the table.

Implements: [DESIGN 5], tables as of one position. Deviations: none.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StringType, StructField, StructType

from isotone.replicated.archive.places import require_pyarrow
from isotone.replicated.database.change_log import PositionChanges, decode_changes
from isotone.replicated.database.changes import Cells, RowChange, TableChange, TableForm, encoder

_TEXTS = ("database", "procedure", "table", "kind", "old", "new")
CHANGES = StructType(
    [
        *(StructField(name, LongType()) for name in ("position", "place")),
        *(StructField(name, StringType()) for name in _TEXTS),
        *(StructField(name, BinaryType()) for name in ("key", "cells", "form")),
    ]
)
"""``kind`` is define, drop, insert, update or delete; ``old`` and ``new`` are rows as JSON objects. ``key``, ``cells``
and ``form`` are MessagePack, for `rows_as_of`."""
OTHER = "isotone_other"
REALS = ("REAL", "FLOA", "DOUB")
BATCH_ROWS = 8_192
_form_decoder = msgspec.msgpack.Decoder(TableForm)
_cells_decoder = msgspec.msgpack.Decoder(tuple[Any, ...])
Row = tuple[Any, ...]


def row_changes(log: DataFrame) -> DataFrame:
    """A row for each row that a transaction changed and each table that it defined, altered or dropped.

    ``log`` is the archive of changes as ``format("isotone")`` reads it.
    """
    return log.select("position", "record").mapInArrow(_changes, CHANGES)


def rows_as_of(changes: DataFrame, position: int | None = None) -> DataFrame:
    """All rows of all tables as of this position: database, table, form, key, cells. An empty table has one row without
    a key.
    """
    until = changes if position is None else changes.where(F.col("position") <= position)
    return _living(until).select("database", "table", "form", "key", "cells")


def compacted(changes: DataFrame) -> DataFrame:
    """As few changes as make the same tables, now and with any changes that come behind: of each table its last
    definition, and each row that is there.
    """
    living = _living(changes)
    define, insert = F.lit("define").alias("kind"), F.lit("insert").alias("kind")
    tables = living.select("database", "table", define, F.col("since").alias("at"), "form").distinct()
    rows = living.where(F.col("key").isNotNull()).select("database", "table", insert, "at", "key", "cells")
    both = tables.unionByName(rows, allowMissingColumns=True).select("*", "at.position", "at.place")
    nothing = [F.lit(None).cast("string").alias(name) for name in CHANGES.names if name not in both.columns]
    return both.select("*", *nothing).select(*CHANGES.names)


def _living(changes: DataFrame) -> DataFrame:
    """Of each table its form and since when it has that; each row that is there, and since when."""
    until = changes.withColumn("at", F.struct("position", "place"))
    is_definition = F.col("kind").isin("define", "drop")
    tables = (
        until.where(is_definition)
        .groupBy("database", "table")
        .agg(F.max("at").alias("since"), F.max_by("kind", "at").alias("last"), F.max_by("form", "at").alias("form"))
        .where(F.col("last") == "define")
        .select("database", "table", "since", "form")
    )
    newest = (
        until.where(F.col("key").isNotNull())
        .groupBy("database", "table", "key")
        .agg(F.max("at").alias("at"), F.max_by(F.struct("kind", "cells"), "at").alias("newest"))
        .where(F.col("newest.kind") != "delete")
        .select("database", "table", "key", "at", F.col("newest.cells").alias("cells"))
    )
    # Every definition stands for its whole table: rows from before it do not count.
    behind = (F.col("t.database") == F.col("r.database")) & (F.col("t.table") == F.col("r.table"))
    joined = tables.alias("t").join(newest.alias("r"), behind & (F.col("r.at") > F.col("t.since")), how="left")
    return joined.select("t.database", "t.table", "t.form", "t.since", "r.key", "r.cells", "r.at")


def tables_in(rows: DataFrame) -> list[tuple[str, TableForm, int]]:
    """The tables of these rows: their databases, their forms, and how many rows each has."""
    found = rows.groupBy("database", "form").agg(F.count("key").alias("rows")).collect()
    return sorted(
        ((row["database"], _form_decoder.decode(bytes(row["form"])), row["rows"]) for row in found),
        key=lambda each: (each[0], each[1].name),
    )


def table_of_rows(rows: DataFrame, database: str, form: TableForm) -> DataFrame:
    """One table with typed columns, from the rows of all.

    SQLite lets a column hold values of any type. What does not fit the column's type is null there, and stands in the
    column ``isotone_other``, a JSON object by column, which is null for all other rows.
    """
    own = (F.col("database") == database) & (F.col("table") == form.name) & F.col("key").isNotNull()
    schema = schema_of(form)
    return rows.where(own).select("cells").mapInArrow(_typing(form, schema), schema)


def schema_of(form: TableForm) -> StructType:
    """By the declared types: INTEGER, REAL, TEXT and BLOB have one of Spark; all else is text as JSON."""
    types = [_SPARKS.get(kind, StringType()) for kind in _kinds(form)]
    fields = [StructField(column, kind) for column, kind in zip(form.columns, types, strict=True)]
    return StructType([*fields, StructField(OTHER, StringType())])


_SPARKS: dict[type | None, DataType] = {int: LongType(), float: DoubleType(), bytes: BinaryType()}


def _kinds(form: TableForm) -> list[type | None]:
    """The type of Python's that cells of each column should have; None for any."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(form.sql)
        declared = dict(connection.execute("SELECT name, type FROM pragma_table_xinfo(?)", (form.name,)).fetchall())
    finally:
        connection.close()
    return [_kind_of(declared[column]) for column in form.columns]


def _kind_of(declared: str) -> type | None:
    """By SQLite's rules for the affinity of a column."""
    upper = declared.upper()
    for parts, kind in ((("INT",), int), (("CHAR", "CLOB", "TEXT"), str), (("BLOB",), bytes), (REALS, float)):
        if any(part in upper for part in parts):
            return kind
    return None


def _typing(form: TableForm, schema: StructType) -> Any:
    kinds = _kinds(form)

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        arrow_form = to_arrow_schema(schema)
        for batch in batches:
            yield _batch(arrow_form, [_typed_row(form, kinds, each) for each in batch.column(0).to_pylist()])

    return apply


def _typed_row(form: TableForm, kinds: Sequence[type | None], cells: bytes) -> Row:
    others: dict[str, Any] = {}
    row: list[Any] = []
    for column, kind, cell in zip(form.columns, kinds, _cells_decoder.decode(cells), strict=True):
        if kind is None:
            row.append(None if cell is None else msgspec.json.encode(_plain(cell)).decode())
        elif cell is None or isinstance(cell, kind):
            row.append(cell)
        else:
            row.append(None)
            others[column] = _plain(cell)
    return (*row, msgspec.json.encode(others).decode() if others else None)


def _changes(batches: Iterator[Any]) -> Iterator[Any]:
    """In a task."""
    form = to_arrow_schema(CHANGES)
    for batch in batches:
        rows: list[Row] = []
        for position, record in zip(
            batch.column("position").to_pylist(), batch.column("record").to_pylist(), strict=True
        ):
            told = decode_changes(record)
            if told is not None:
                rows += [(position, place, *row) for place, row in enumerate(_rows_of(told))]
            if len(rows) >= BATCH_ROWS:
                yield _batch(form, rows)
                rows = []
        yield _batch(form, rows)


def _rows_of(told: PositionChanges) -> Iterator[Row]:
    """Without position and place. A row before a definition of its table in the same transaction has no key: that
    definition stands for the whole table, and the form that the row had is not kept.
    """
    last = {each.table: place for place, each in enumerate(told.changes) if isinstance(each, TableChange)}
    for place, each in enumerate(told.changes):
        head = (told.database, told.procedure, each.table)
        if isinstance(each, TableChange):
            form = None if each.form is None else encoder.encode(each.form)
            yield (*head, "drop" if form is None else "define", None, None, None, None, form)
            continue
        form_of_row = told.forms.get(each.table) if place > last.get(each.table, -1) else None
        old, new = (_row_as_json(cells, form_of_row) for cells in (each.old, each.new))
        key = None if form_of_row is None else encoder.encode(key_of(each, form_of_row))
        yield (*head, each.kind, old, new, key, None if each.new is None else encoder.encode(each.new), None)


def key_of(change: RowChange, form: TableForm) -> Cells:
    """The primary key of a row that changed."""
    cells = change.old if change.new is None else change.new
    assert cells is not None
    return tuple(cells[place] for place in form.key)


def _row_as_json(cells: Cells | None, form: TableForm | None) -> str | None:
    if cells is None:
        return None
    plain = [_plain(cell) for cell in cells]
    return msgspec.json.encode(plain if form is None else dict(zip(form.columns, plain, strict=True))).decode()


def _plain(cell: Any) -> Any:
    """A value of SQLite as JSON has it; bytes are said to be such."""
    if isinstance(cell, bytes):
        return {"base64": base64.b64encode(cell).decode()}
    return repr(cell) if isinstance(cell, float) and cell in (float("inf"), float("-inf")) else cell


def _batch(form: Any, rows: Sequence[Row]) -> Any:
    arrow = require_pyarrow()
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(form)
    arrays = [arrow.array(column, field.type) for column, field in zip(columns, form, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=form)
