"""One Spark session for all tests of the pipeline, and one run of ``isotone pipeline`` that several look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from isotone.cli.main import commands
from isotone.pipeline.little import in_several, is_in_one
from isotone.pipeline.session import session
from isotone.trace.jsonl import read_jsonl
from isotone.trace.parquet import write_parquet
from tests.pipeline.log.book import Book, write_book

TRACES = Path(__file__).parents[1] / "traces"
BROKEN = "2.12.2"
"""The one property that ``broken`` violates; the survey doubts no other, so the exact look is a short one."""


class Piped(NamedTuple):
    """A run of ``isotone pipeline run``: from which traces, into which tables, and what it said. Nobody changes it."""

    traces: Path
    out: Path
    told: Result


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = session("local[2]", is_small=True, name="isotone-tests")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def spread(spark: SparkSession) -> SparkSession:
    """The same with tables in several partitions, as of much data and on clusters: what belongs together is moved."""
    other = spark.newSession()
    in_several(other)
    assert not is_in_one(other)
    return other


@pytest.fixture(scope="session")
def piped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Piped:
    """A good run and a broken one, beside a cut file, a foreign one and one of a newer version."""
    place = tmp_path_factory.mktemp("piped")
    traces, out = place / "traces", place / "out"
    traces.mkdir()
    for name in ("good", "broken"):
        rows = read_jsonl(TRACES / BROKEN / f"{name}-clients.jsonl").rows()
        write_parquet(traces / f"{name}.parquet", name, rows)
    (traces / "cut.parquet").write_bytes((traces / "good.parquet").read_bytes()[:-100])
    (traces / "foreign.jsonl").write_text("hello\n")
    (traces / "newer.jsonl").write_text('{"isotone_trace": 99, "run": "later"}\n')
    wanted = ["pipeline", "run", str(traces), "--out", str(out), "--json"]
    return Piped(traces, out, CliRunner().invoke(commands, wanted))


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """The archive of a replicated database. Nobody changes it."""
    return write_book(tmp_path_factory.mktemp("book"))
