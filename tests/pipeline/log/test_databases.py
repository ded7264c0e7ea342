"""Tables of replicated SQLite on Spark: at every position what a replica has there."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.cli.main import commands
from isotone.pipeline.log.databases import row_changes, rows_as_of
from isotone.pipeline.log.source import register
from isotone.replicated.database.change_log import FOLDER
from isotone.replicated.database.changes import TableForm
from tests.pipeline.log.book import CHECKED, LENGTH, Book, Tables, assert_written


@pytest.fixture(scope="module")
def changes(spark: SparkSession, book: Book) -> DataFrame:
    register(spark)
    log = spark.read.format("isotone").option("archive", str(book.archive / FOLDER)).load()
    return row_changes(log).persist()


def test_tables_are_those_of_sqlite_at_that_position(spark: SparkSession, changes: DataFrame, book: Book) -> None:
    """One job for all positions: what was changed up to each of them, as if it were of a database of its own."""
    ends = spark.createDataFrame([(position,) for position in book.at], "end bigint")
    until = changes.join(F.broadcast(ends), on=F.col("position") <= F.col("end"), how="inner")
    found: dict[int, Tables] = {position: {} for position in book.at}
    for row in rows_as_of(until.withColumn("database", F.col("end").cast("string"))).collect():
        form = msgspec.msgpack.decode(bytes(row["form"]), type=TableForm)
        rows = found[int(row["database"])].setdefault(form.name, [])
        if row["cells"] is not None:
            rows.append(tuple(msgspec.msgpack.decode(bytes(row["cells"]))))
    for position, expected in sorted(book.at.items()):
        tables = {name: sorted(rows, key=repr) for name, rows in found[position].items()}
        assert tables == expected, f"as of {position}"
    assert len(book.at) >= CHECKED
    assert len({name for tables in book.at.values() for name, rows in tables.items() if rows}) == 3


def test_a_workload_has_all_kinds_of_changes(changes: DataFrame) -> None:
    kinds = {row["kind"]: row["count"] for row in changes.groupBy("kind").count().collect()}
    assert kinds.keys() == {"define", "drop", "insert", "update", "delete"}
    assert min(kinds.values()) >= 3, kinds
    updated = changes.where("kind = 'update' AND key IS NOT NULL").limit(1).collect()[0]
    old, new = json.loads(updated["old"]), json.loads(updated["new"])
    assert old.keys() == new.keys() and old != new


def test_the_command_writes_each_table_with_types(spark: SparkSession, book: Book, tmp_path: Path) -> None:
    arguments = ["pipeline", "tables", str(book.archive), "--out", str(tmp_path), "--as-of", str(book.fullest)]
    result = CliRunner().invoke(commands, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert_written(spark, json.loads(result.stdout)["tables"], book, book.fullest)
    result = CliRunner().invoke(commands, [*arguments[:-1], str(LENGTH + 1)])
    assert (result.exit_code, "is not there yet" in result.stderr) == (2, True), result.stderr


def test_changes_are_a_stream_too(spark: SparkSession, changes: DataFrame, book: Book, tmp_path: Path) -> None:
    reader = spark.readStream.format("isotone").option("archive", str(book.archive / FOLDER))
    rows = row_changes(reader.option("maxRecordsPerBatch", "250").load())
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start().awaitTermination()
    found = spark.read.schema(changes.schema).parquet(str(tmp_path / "rows"))
    assert found.count() == changes.count()
    assert found.exceptAll(changes).count() == 0
