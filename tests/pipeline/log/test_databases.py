"""Tables of replicated SQLite on Spark: at every position what a replica has there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from isotone.cli.main import commands
from isotone.core.choice import Choice
from isotone.core.memory_log import MemoryLog
from isotone.pipeline.log.databases import OTHER, row_changes, rows_as_of, schema_of, tables_in
from isotone.pipeline.log.source import register
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


class Replica(NamedTuple):
    """An archive, and what the replica's SQLite held at some positions."""

    archive: Path
    at: dict[int, Tables]


def tables_of(machine: Machine) -> Tables:
    """What SQLite itself says, in the file of the replica."""
    state = machine.state.objects.get(NAME)
    if state is None:
        return {}
    copy = machine.databases.copy_of(state)  # type: ignore[arg-type]
    connection = copy._connection
    assert connection is not None
    return {
        name: sorted(connection.execute(f"SELECT {', '.join(map(quoted, form.columns))} FROM {quoted(name)}"), key=repr)
        for name, form in forms_of(connection).items()
    }


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Replica:
    """A workload through a log in memory, a replica that applies it, and both archives."""
    place = tmp_path_factory.mktemp("archive")
    choice = Choice("positions")
    positions = {1, 2, LENGTH} | {choice.between(3, LENGTH - 1) for _ in range(CHECKED)}

    async def work() -> dict[int, Tables]:
        log, machine, found = MemoryLog(), Machine(databases=Databases([workload_procedures()])), {}
        for record in records(11, LENGTH):
            machine.apply(await log.append(record), record)
            if machine.state.position in positions:
                found[machine.state.position] = tables_of(machine)
        await ArchiveWriter(log, Archive(place)).step()
        await ArchiveWriter(ChangeLog(machine), Archive(place / FOLDER)).step()
        return found

    with pytest.MonkeyPatch.context() as patched:
        for module in (segments, writer):
            patched.setattr(module, "SEGMENT_RECORDS_MAX", SEGMENT)
        return Replica(place, asyncio.run(work()))


@pytest.fixture(scope="module")
def changes(spark: SparkSession, replica: Replica) -> DataFrame:
    register(spark)
    log = spark.read.format("isotone").option("archive", str(replica.archive / FOLDER)).load()
    return row_changes(log).persist()


def test_tables_are_those_of_sqlite_at_that_position(changes: DataFrame, replica: Replica) -> None:
    seen: set[str] = set()
    for position, expected in sorted(replica.at.items()):
        found: Tables = {}
        for row in rows_as_of(changes, position).collect():
            form = msgspec.msgpack.decode(bytes(row["form"]), type=TableForm)
            rows = found.setdefault(form.name, [])
            if row["cells"] is not None:
                rows.append(tuple(msgspec.msgpack.decode(bytes(row["cells"]))))
        assert {name: sorted(rows, key=repr) for name, rows in found.items()} == expected, f"as of {position}"
        seen |= {form for name, rows in expected.items() if rows for form in (name,)}
    assert len(replica.at) >= CHECKED and len(seen) == 3


def test_a_workload_has_all_kinds_of_changes(changes: DataFrame) -> None:
    kinds = {row["kind"]: row["count"] for row in changes.groupBy("kind").count().collect()}
    assert kinds.keys() == {"define", "drop", "insert", "update", "delete"}
    assert min(kinds.values()) >= 3, kinds
    updated = changes.where("kind = 'update' AND key IS NOT NULL").limit(1).collect()[0]
    old, new = json.loads(updated["old"]), json.loads(updated["new"])
    assert old.keys() == new.keys() and old != new


def test_the_command_writes_each_table_with_types(
    spark: SparkSession, changes: DataFrame, replica: Replica, tmp_path: Path
) -> None:
    position = max(at for at, tables in replica.at.items() if len(tables) == 3 and all(tables.values()))
    arguments = ["pipeline", "tables", str(replica.archive), "--out", str(tmp_path), "--as-of", str(position), "--json"]
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
    told = {each["table"]: each for each in json.loads(result.stdout)["tables"]}
    assert {name: each["count"] for name, each in told.items()} == {
        name: len(rows) for name, rows in replica.at[position].items()
    }
    for _, form in tables_in(rows_as_of(changes, position)):
        rows = spark.read.parquet(told[form.name]["path"])
        assert rows.schema.names == schema_of(form).names
        back = sorted((_as_sqlite(form, row.asDict()) for row in rows.collect()), key=repr)
        assert back == replica.at[position][form.name]
    beyond = [*arguments[:-2], str(LENGTH + 1)]
    result = CliRunner().invoke(commands, beyond)
    assert (result.exit_code, "is not there yet" in result.stderr) == (2, True), result.stderr


def _as_sqlite(form: TableForm, row: dict[str, Any]) -> tuple[Any, ...]:
    """What SQLite holds, from a typed row: nothing is lost."""
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
    import base64

    return base64.b64decode(cell["base64"]) if isinstance(cell, dict) else cell


def test_changes_are_a_stream_too(spark: SparkSession, changes: DataFrame, replica: Replica, tmp_path: Path) -> None:
    reader = spark.readStream.format("isotone").option("archive", str(replica.archive / FOLDER))
    rows = row_changes(reader.option("maxRecordsPerBatch", "250").load())
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start().awaitTermination()
    found = spark.read.schema(changes.schema).parquet(str(tmp_path / "rows"))
    assert found.count() == changes.count()
    assert found.exceptAll(changes).count() == 0
