"""Replicated objects as tables: at every position what a replica has there."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from isotone.cli.main import commands
from isotone.core.choice import Choice
from isotone.core.ordered_log import LogEntry
from isotone.pipeline.log.objects import as_json, objects_as_of
from isotone.pipeline.log.source import register
from isotone.replicated.archive.store import Archive
from isotone.replicated.dict_state import DictState
from isotone.replicated.machine import Machine
from isotone.replicated.records import Called, Opened, encode

RECORDS = 120


def records(seed: int) -> list[bytes]:
    """A session that sets and deletes keys of two dicts, adds to a counter and a set, beside records of others."""
    choice = Choice(f"objects/{seed}")
    made = [encode(Opened("nonce", 5))]
    for request in range(1, RECORDS):
        key, value = f"k{choice.between(0, 9)}", msgspec.msgpack.encode(choice.between(0, 999))
        command = choice.pick(
            (
                ("dict", "stock", "set", (key, value, False)),
                ("dict", "stock", "delete", (key,)),
                ("dict", "prices", "set", (key, value, False)),
                ("counter", "total", "add", (choice.between(-9, 9),)),
                ("set", "seen", "add", (value,)),
            )
        )
        made.append(encode(Called(1, request, request, *command)))
        if choice.chance(0.1):
            made.append(b"of another program")
    return made


def expected(log: list[bytes], position: int) -> tuple[dict[str, dict[str, bytes]], int]:
    """The dicts and the counter, by the machine itself."""
    machine = Machine()
    for at, record in enumerate(log[:position], 1):
        machine.apply(at, record)
    dicts = {
        name: {key: entry.value for key, entry in state.entries.items()}
        for name, state in machine.state.objects.items()
        if isinstance(state, DictState) and state.entries
    }
    counter = machine.state.objects.get("total")
    return dicts, getattr(counter, "value", 0)


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, list[bytes]]:
    log = records(1)
    store = Archive(tmp_path / "archive")
    entries = [LogEntry(at, record, f"a.1:{at}") for at, record in enumerate(log, 1)]
    for first in range(0, len(entries), 50):
        store.write(entries[first : first + 50])
    return tmp_path / "archive", log


def test_tables_are_what_a_replica_has_at_that_position(spark: SparkSession, archive: tuple[Path, list[bytes]]) -> None:
    place, log = archive
    register(spark)
    rows = spark.read.format("isotone").option("archive", str(place)).load()
    checked = (1, 7, 60, len(log))
    together = reduce(DataFrame.unionByName, (objects_as_of(rows, position) for position in checked)).collect()
    for position in checked:
        found = [row for row in together if row["as_of"] == position]
        dicts: dict[str, dict[str, bytes]] = {}
        for row in found:
            if row["kind"] == "dict":
                dicts.setdefault(row["object"], {})[row["key"]] = bytes(row["value"])
                assert json.loads(row["json"]) == msgspec.msgpack.decode(bytes(row["value"]))
        counter = next((row["number"] for row in found if row["object"] == "total"), 0)
        assert (dicts, counter) == expected(log, position)


def test_a_log_that_does_not_begin_or_ends_too_early_is_an_error(
    spark: SparkSession, archive: tuple[Path, list[bytes]]
) -> None:
    place, log = archive
    register(spark)
    rows = spark.read.format("isotone").option("archive", str(place)).load()
    with pytest.raises(PySparkException, match="position 1 is missing"):
        objects_as_of(rows.where("position > 10")).count()
    with pytest.raises(PySparkException, match=f"the log ends at {len(log)}, before 5000"):
        objects_as_of(rows, 5000).count()


def test_the_command_writes_one_table(spark: SparkSession, archive: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    place, log = archive
    arguments = ["pipeline", "tables", str(place), "--out", str(tmp_path / "out"), "--as-of", "60", "--json"]
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
    dicts, _ = expected(log, 60)
    told = {each["object"]: each["count"] for each in json.loads(result.stdout)["objects"] if each["kind"] == "dict"}
    assert told == {name: len(entries) for name, entries in dicts.items()}
    assert f"databases are left out: there are no row changes in {place}/changes" in result.stderr
    assert CliRunner().invoke(commands, ["pipeline", "tables", "--out", str(tmp_path / "x")]).exit_code == 2
    for more, told_error in (
        ([str(tmp_path / "none")], "there is no archive at"),
        ([str(place), "--as-of", "5000"], "position 5000 is not there yet"),
    ):
        result = CliRunner().invoke(commands, ["pipeline", "tables", *more, "--out", str(tmp_path / "x")])
        assert (result.exit_code, told_error in result.stderr) == (2, True), result.stderr


def test_values_that_are_no_messagepack_have_no_words() -> None:
    assert as_json(msgspec.msgpack.encode({"a": 1})) == '{"a":1}'
    assert as_json(b"\xc1") is None
