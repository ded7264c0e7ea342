"""A replicated database with its archive, and what SQLite held at many positions: what Spark's tables must equal."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from isotone.core.choice import Choice
from isotone.core.memory_log import MemoryLog
from isotone.pipeline.log.databases import OTHER, schema_of
from isotone.replicated.archive import segments, writer
from isotone.replicated.archive.store import Archive
from isotone.replicated.archive.writer import ArchiveWriter
from isotone.replicated.database.change_log import FOLDER, ChangeLog
from isotone.replicated.database.changes import TableForm
from isotone.replicated.database.state import Databases
from isotone.replicated.database.tables import forms_of, quoted
from isotone.replicated.machine import Machine
from tests.replicated.database_workload import NAME, records, workload_procedures

LENGTH, CHECKED, SEGMENT = 600, 50, 100
Tables = dict[str, list[tuple[Any, ...]]]


class Book(NamedTuple):
    """An archive; what the replica's SQLite held at some positions; and the forms of its tables at the last of them."""

    archive: Path
    at: dict[int, Tables]
    forms: dict[int, dict[str, TableForm]]

    @property
    def fullest(self) -> int:
        """The last position at which all three tables have rows."""
        return max(at for at, tables in self.at.items() if len(tables) == 3 and all(tables.values()))


def write_book(place: Path) -> Book:
    """A workload through a log in memory, a replica that applies it, and both archives."""
    choice = Choice("positions")
    positions = {1, 2, LENGTH} | {choice.between(3, LENGTH - 1) for _ in range(CHECKED)}
    book = Book(place, {}, {})

    async def work() -> None:
        log, machine = MemoryLog(), Machine(databases=Databases([workload_procedures()]))
        for record in records(11, LENGTH):
            machine.apply(await log.append(record), record)
            if machine.state.position in positions:
                book.forms[machine.state.position], book.at[machine.state.position] = _tables_of(machine)
        await ArchiveWriter(log, Archive(place)).step()
        await ArchiveWriter(ChangeLog(machine), Archive(place / FOLDER)).step()

    with pytest.MonkeyPatch.context() as patched:
        for module in (segments, writer):
            patched.setattr(module, "SEGMENT_RECORDS_MAX", SEGMENT)
        asyncio.run(work())
    return book


def _tables_of(machine: Machine) -> tuple[dict[str, TableForm], Tables]:
    """What SQLite itself says, in the file of the replica."""
    state = machine.state.objects.get(NAME)
    if state is None:
        return {}, {}
    connection = machine.databases.copy_of(state)._connection  # type: ignore[arg-type]
    assert connection is not None
    forms = dict(forms_of(connection))
    rows = {
        name: sorted(connection.execute(f"SELECT {', '.join(map(quoted, form.columns))} FROM {quoted(name)}"), key=repr)
        for name, form in forms.items()
    }
    return forms, rows


def assert_written(spark: SparkSession, told: Iterable[Mapping[str, Any]], book: Book, position: int) -> None:
    """The files that `isotone pipeline tables` told of hold what SQLite held: nothing is lost."""
    found = {each["table"]: each for each in told}
    assert {name: each["count"] for name, each in found.items()} == {
        name: len(rows) for name, rows in book.at[position].items()
    }
    for name, form in book.forms[position].items():
        rows = spark.read.parquet(found[name]["path"])
        assert rows.schema.names == schema_of(form).names
        back = sorted((_as_sqlite(form, row.asDict()) for row in rows.collect()), key=repr)
        assert back == book.at[position][name], f"{name} as of {position}"


def _as_sqlite(form: TableForm, row: dict[str, Any]) -> tuple[Any, ...]:
    others = json.loads(row[OTHER] or "{}")
    untyped = {name for name, sql in (("amount", "DECIMAL"), ("extra", "extra")) if sql in form.sql}
    cells = []
    for column in form.columns:
        cell = others.get(column, row[column])
        if column in untyped and isinstance(cell, str) and column not in others:
            cell = json.loads(cell)
        cells.append(bytes(cell) if isinstance(cell, bytearray) else _plain(cell))
    return tuple(cells)


def _plain(cell: Any) -> Any:
    return base64.b64decode(cell["base64"]) if isinstance(cell, dict) else cell
