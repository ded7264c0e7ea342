"""Tables of replicated SQLite on Spark: at every position what a replica has there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.cli.main import commands
from isotone.cli.pipeline_objects import NEW, _changes_of, _last_position
from isotone.pipeline.log.current_tables import DATABASES, OBJECTS, put_in_place
from isotone.pipeline.log.databases import row_changes, rows_as_of
from isotone.pipeline.log.source import register
from isotone.replicated.archive.store import Archive
from isotone.replicated.database.change_log import FOLDER
from isotone.replicated.database.changes import TableForm
from tests.pipeline.log.book import CHECKED, LENGTH, SEGMENT, Book, Tables, assert_written


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


def test_the_last_position_is_one_that_log_and_changes_have(book: Book, tmp_path: Path) -> None:
    """The archives are written by and by: either may be ahead of the other."""
    whole = {"archive": str(book.archive)}
    behind = {"archive": str(shutil.copytree(book.archive, tmp_path / "behind"))}
    log = Archive(behind["archive"])
    log.remove(log.listing().segments[-1])
    assert _changes_of(str(book.archive), "") == (str(book.archive / FOLDER), LENGTH)
    assert _last_position(whole, LENGTH) == LENGTH
    assert _last_position(behind, LENGTH) == LENGTH - SEGMENT
    assert _last_position(whole, LENGTH - SEGMENT) == LENGTH - SEGMENT
    assert _last_position(whole, 0) == LENGTH  # a log without databases


def test_tables_that_are_replaced_are_never_of_two_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is killed before each of its renames; the next one goes through."""
    rename, left = Path.rename, 0

    def killed(path: Path, target: Path) -> Path:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return rename(path, target)

    def write(place: Path, text: str) -> None:
        for name in (OBJECTS, DATABASES):
            (place / name).mkdir(parents=True, exist_ok=True)
            (place / name / "rows").write_text(text)

    def there() -> list[str]:
        return [(tmp_path / name / "rows").read_text() for name in (OBJECTS, DATABASES) if (tmp_path / name).exists()]

    monkeypatch.setattr(Path, "rename", killed)
    seen = []
    for renames in range(4):
        write(tmp_path, "old")
        write(tmp_path / NEW, "new")
        left = renames
        with pytest.raises(KeyboardInterrupt):
            put_in_place(tmp_path / NEW, tmp_path)
        seen.append(there())
        left = 9
        shutil.rmtree(tmp_path / NEW)
        write(tmp_path / NEW, "newer")
        put_in_place(tmp_path / NEW, tmp_path)
        assert there() == ["newer", "newer"]
        assert sorted(path.name for path in tmp_path.iterdir()) == [DATABASES, OBJECTS]
    assert seen == [["old", "old"], ["old"], [], ["new"]]


def test_changes_are_a_stream_too(spark: SparkSession, changes: DataFrame, book: Book, tmp_path: Path) -> None:
    reader = spark.readStream.format("isotone").option("archive", str(book.archive / FOLDER))
    rows = row_changes(reader.load())
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start().awaitTermination()
    found = spark.read.schema(changes.schema).parquet(str(tmp_path / "rows"))
    assert sorted(map(str, found.collect())) == sorted(map(str, changes.collect()))
