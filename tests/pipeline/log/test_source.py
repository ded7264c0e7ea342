"""The data source ``isotone`` on Spark: batch, stream and sink, over an archive and over real servers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from isotone.core.errors import InputError, MachineError
from isotone.core.ordered_log import LogEntry
from isotone.pipeline.log import servers as servers_module
from isotone.pipeline.log.sink import Committed, Staged, committed_rows, encode_record
from isotone.pipeline.log.source import SCHEMA, IsotoneSource, register
from isotone.replicated.archive import segments
from isotone.replicated.archive.store import Archive
from isotone.replicated.archive.writer import ArchiveWriter
from tests.pipeline.log.serving import Servers, serving

ARCHIVED = 100


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(scope="module")
def archive(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first hundred positions of the servers' log; ten more are only with the servers."""
    place = tmp_path_factory.mktemp("archive")
    records = [b'{"user": "u%d", "amount": %d}' % (number, number) for number in range(ARCHIVED + 10)]
    servers.append(*records)  # of one server: in this order
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segments, "SEGMENT_RECORDS_MAX", 20)
        patched.setattr("isotone.replicated.archive.writer.SEGMENT_RECORDS_MAX", 20)
        log = servers.group.logs["a"]
        servers.do(lambda: ArchiveWriter(log, Archive(place), may_write=lambda: _has_room(place)).step())
    return place


def _has_room(place: Path) -> bool:
    return len(list(place.iterdir())) < ARCHIVED // 20


def load(spark: SparkSession, **options: object) -> DataFrame:
    reader = spark.read.format("isotone")
    for name, value in options.items():
        reader = reader.option(name.removesuffix("_"), str(value))
    return reader.load()


def together(*frames: DataFrame) -> list[list[Row]]:
    """The rows of each, by position, in one job."""
    named = (frame.withColumn("frame", F.lit(number)) for number, frame in enumerate(frames))
    found: list[list[Row]] = [[] for _ in frames]
    for row in reduce(DataFrame.unionByName, named).orderBy("position").collect():
        found[row["frame"]].append(row)
    return found


def positions(*frames: DataFrame) -> list[list[int]]:
    return [[row["position"] for row in rows] for rows in together(*frames)]


def test_archive_and_live_tail_are_one_table(source: SparkSession, archive: Path, servers: Servers) -> None:
    places = ({"archive": archive, "replica": servers.replica}, {"archive": archive}, {"replica": servers.replica})
    both, archived, live = together(*(load(source, **place) for place in places))
    assert [[row["position"] for row in rows] for rows in (both, archived, live)] == [
        list(range(1, last + 1)) for last in (ARCHIVED + 10, ARCHIVED, ARCHIVED + 10)
    ]
    rows = [[row[:4] for row in each] for each in (both, archived, live)]
    assert rows[0] == rows[2] and rows[1] == rows[2][:ARCHIVED], "whoever is asked"
    first = both[0]
    assert (first["sender"], bytes(first["record"])) == ("a", b'{"user": "u0", "amount": 0}')
    assert first["message"].startswith("a.")


def test_ranges_and_filters_on_the_position(source: SparkSession, archive: Path, servers: Servers) -> None:
    """Many queries of one DataFrame: what one of them leaves out, others must have."""
    both = {"archive": archive, "replica": servers.replica}
    rows = load(source, **both)
    found = positions(
        load(source, **both, from_=95, to=104),
        rows.where("position > 30 AND position <= 55 AND sender = 'a'"),
        rows.where("position > 1000"),
        rows.where("position = 101"),
        rows,
    )
    assert found == [list(range(95, 105)), list(range(31, 56)), [], [101], list(range(1, ARCHIVED + 11))]
    rows = load(source, archive=archive)
    assert [rows.where("position = 7").count(), rows.count()] == [1, ARCHIVED]


def test_decoded_columns(source: SparkSession, archive: Path) -> None:
    rows = load(source, archive=archive, decode="json", columns="user string, amount bigint, missing double")
    total = rows.selectExpr("sum(amount) AS total", "count(missing) AS missing", "max(user) AS user").collect()[0]
    assert (total["total"], total["missing"], total["user"]) == (sum(range(ARCHIVED)), 0, "u99")
    wrong = load(source, archive=archive, decode="json", columns="user bigint, amount string")
    other = load(source, archive=archive, decode="msgpack", columns="user string")
    found = positions(
        wrong.where("user IS NOT NULL OR amount IS NOT NULL").select("position"),
        other.where("user IS NOT NULL").select("position"),
    )
    assert found == [[], []]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "needs the option archive, or replica"),
        ({"archive": "A", "colour": "red"}, "has no option 'colour'"),
        ({"archive": "A/none"}, "there is no archive at"),
        ({"archive": "A", "from": 0}, "option from is a number from 1 on"),
        ({"archive": "A", "from": 9, "to": 3}, "behind to"),
        ({"archive": "A", "to": 500}, "position 500 is not there yet: the last is 100"),
        ({"archive": "A", "decode": "json"}, "go together"),
        ({"archive": "A", "decode": "xml", "columns": "a int"}, "option decode is json or msgpack"),
        ({"archive": "A", "decode": "json", "columns": "record int"}, "is a column of the log itself"),
        ({"replica": "127.0.0.1:9"}, "no server of the log answers"),
    ],
)
def test_wrong_options_are_named(
    archive: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], told: str
) -> None:
    """Here as Spark calls the source, without a Java between."""
    monkeypatch.setattr(servers_module, "FIRST_WITHIN_S", 0.0)  # nobody will answer

    def planned() -> None:
        source = IsotoneSource({name: str(value).replace("A", str(archive)) for name, value in options.items()})
        source.reader(source.schema()).partitions()

    with pytest.raises((InputError, MachineError), match=told):
        planned()


@pytest.mark.parametrize(
    ("options", "overwrite", "told"),
    [
        ({"archive": "A"}, False, "needs the option replica"),
        ({"replica": "127.0.0.1:9"}, False, "needs the option query"),
        ({"replica": "127.0.0.1:9", "query": "q"}, True, "outputMode is append, not complete"),
    ],
)
def test_what_the_sink_cannot_do_is_named(options: dict[str, str], overwrite: bool, told: str) -> None:
    with pytest.raises(InputError, match=told):
        IsotoneSource(options).streamWriter(SCHEMA, overwrite)


def test_a_user_of_spark_reads_what_is_wrong(source: SparkSession, archive: Path) -> None:
    with pytest.raises(PySparkException, match="position 500 is not there yet: the last is 100"):
        load(source, archive=archive, to=500).count()


def test_a_segment_that_is_damaged_or_of_a_newer_version_is_named(
    source: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "ARCHIVE_VERSION", 2)
    newer = Archive(tmp_path).write([LogEntry(1, b"of later", "a.1:1")])
    monkeypatch.setattr(segments, "ARCHIVE_VERSION", 1)
    damaged = Archive(tmp_path).write([LogEntry(2, b"record", "a.1:2")])
    path = tmp_path / damaged.name
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    for position, told in ((1, f"{newer.name}: archive version 2 is unknown here"), (2, damaged.name)):
        with pytest.raises(PySparkException, match=told):
            load(source, archive=tmp_path, from_=position, to=position).count()


def test_messagepack_becomes_columns_too(source: SparkSession, tmp_path: Path) -> None:
    records = [msgspec.msgpack.encode({"user": "ü", "amount": 7, "blob": b"x"}), b"\xc1", msgspec.msgpack.encode([1])]
    Archive(tmp_path).write([LogEntry(at, record, f"a.1:{at}") for at, record in enumerate(records, 1)])
    rows = load(source, archive=tmp_path, decode="msgpack", columns="user string, amount bigint, blob binary, no int")
    found = rows.orderBy("position").select("user", "amount", "blob", "no").collect()
    assert [tuple(row) for row in found] == [("ü", 7, b"x", None), (None,) * 4, (None,) * 4]


def test_rows_count_that_the_first_commit_of_a_batch_names(source: SparkSession, servers: Servers) -> None:
    records = [
        Staged("q", "killed", 0, (b"lost",)),
        Staged("q", "one", 0, (b"1", b"2")),
        Staged("q", "one", 0, (b"1", b"2")),  # appended again after a *maybe*
        Staged("q", "two", 0, (b"3",)),
        Staged("q", "two", 1, (b"late",)),  # of an attempt that told of one chunk only
        Staged("other", "one", 0, (b"not ours",)),
        Committed("q", 7, (("two", 1), ("one", 1)), "here"),
        Staged("q", "again", 0, (b"4",)),
        Committed("q", 7, (("again", 1),), "here"),
        Committed("q", 8, (), "here"),
        Staged("q", "three", 0, (b"5",)),
        Committed("q", 7, (("three", 1),), "another checkpoint"),
    ]
    first = servers.append(*(encode_record(record) for record in records)) - len(records) + 1
    log = load(source, replica=servers.replica)
    found = committed_rows(log, "q").orderBy("position", "place").collect()
    assert [(row["checkpoint"], row["batch"], row["place"], bytes(row["row"])) for row in found] == [
        ("here", 7, 0, b"3"),
        ("here", 7, 1, b"1"),
        ("here", 7, 2, b"2"),
        ("another checkpoint", 7, 0, b"5"),
    ]
    with pytest.raises(PySparkException, match=f"rows of the commit at position {first + 6} are missing"):
        committed_rows(log.where(f"position > {first + 2}"), "q").count()
