"""Tables that follow the log: at each version what a replica has there, whatever was killed in between."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from isotone.cli.main import commands
from isotone.core.ordered_log import LogEntry
from isotone.pipeline.log import current_tables
from isotone.pipeline.log.current_tables import CURRENT, DATABASES, OBJECTS, follow, position_of
from isotone.pipeline.log.source import register
from isotone.replicated.archive.store import Archive
from isotone.replicated.database.change_log import FOLDER
from tests.pipeline.log.book import LENGTH, SEGMENT, Book, assert_written
from tests.pipeline.log.test_objects import expected, records

NOW = {"availableNow": True}


def test_tables_of_databases_follow_the_archive(spark: SparkSession, book: Book, tmp_path: Path) -> None:
    """In two batches."""
    register(spark)
    out, told = tmp_path / "out", list[int]()
    log, changes = {"archive": str(book.archive)}, {"archive": str(book.archive / FOLDER)}
    options = {**changes, "maxRecordsPerBatch": str(LENGTH // 2)}
    follow(spark, log, options, out, trigger=NOW, tell=told.append).awaitTermination()
    assert told == [LENGTH // 2, LENGTH]
    place = out / CURRENT / DATABASES
    found = [
        {"table": name, "path": str(path), "count": len(book.at[LENGTH][name])}
        for name, path in ((form, next(place.glob(f"*/{_quoted(form)}"))) for form in book.at[LENGTH])
    ]
    assert_written(spark, found, book, LENGTH)
    assert len(list(place.glob("*/*"))) == len(book.at[LENGTH])
    assert sorted(path.name for path in out.glob("at-*")) == [f"at-{LENGTH // 2}", f"at-{LENGTH}"]
    assert os.readlink(out / CURRENT) == f"at-{LENGTH}"
    assert LENGTH % SEGMENT == 0  # all of it is archived


def test_the_version_before_stays_and_older_ones_go(tmp_path: Path) -> None:
    for position in (9, 10, 11):
        (tmp_path / f"at-{position}").mkdir()
        current_tables._make_current(tmp_path, tmp_path / f"at-{position}")
        assert position_of(tmp_path) == position
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at-10", "at-11", CURRENT]


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def test_objects_follow_a_log_that_grows(spark: SparkSession, tmp_path: Path) -> None:
    """The driver of the second version dies before that is current; the next one makes it again."""
    register(spark)
    log, out, told = records(2), tmp_path / "out", list[int]()
    archive = Archive(tmp_path / "archive")
    source = {"archive": str(tmp_path / "archive")}

    def go_on() -> None:
        follow(spark, source, {}, out, trigger=NOW, tell=told.append).awaitTermination()

    def die(out: Path, place: Path) -> None:
        raise RuntimeError("the driver dies")

    for first, last in ((1, 70), (71, len(log))):
        archive.write([LogEntry(at, log[at - 1], f"a.1:{at}") for at in range(first, last + 1)])
        if first > 1:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(current_tables, "_make_current", die)
                with pytest.raises(Exception, match="the driver dies"):
                    go_on()
            assert told == [position_of(out)] == [first - 1]
        go_on()
        found: dict[str, dict[str, bytes]] = {}
        number = 0
        for row in spark.read.parquet(str(out / CURRENT / OBJECTS)).collect():
            assert row["as_of"] == last
            if row["kind"] == "dict":
                found.setdefault(row["object"], {})[row["key"]] = bytes(row["value"])
            elif row["object"] == "total":
                number = row["number"]
        assert (found, number) == expected(log, last)
        assert all(msgspec.msgpack.decode(each) is not None for values in found.values() for each in values.values())
    assert told == [70, len(log)]


def test_a_position_and_to_go_on_exclude_each_other(tmp_path: Path) -> None:
    wanted = ["pipeline", "tables", str(tmp_path), "--out", str(tmp_path / "out"), "--follow", "--as-of", "3"]
    done = CliRunner().invoke(commands, wanted)
    assert (done.exit_code, "choose one of them" in done.stderr) == (2, True)
