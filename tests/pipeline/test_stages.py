"""Tables that follow their trace files: the same files change nothing, more files add rows, a kill is made up for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isotone.pipeline import schema, stages
from isotone.pipeline.bronze import Bronze, kept, read_bronze
from isotone.pipeline.stages import refresh
from isotone.pipeline.tables import manifests, read_table
from isotone.trace.events import Connected, Recovered, Row
from isotone.trace.jsonl import write_jsonl
from isotone.trace.parquet import write_parquet
from isotone.trace.records import frame
from isotone.trace.spool import begin_spool, encode_row
from tests.pipeline import test_records as records


def _rows(node: str) -> list[Row]:
    return [Row(node, 1, 0, 0, Recovered(f"{node}#1")), Row(node, 1, 1, 1, Connected(f"#c#{node}#1#1"))]


def _count(spark: SparkSession, out: Path) -> dict[str, int]:
    return {row["run"]: row["count"] for row in read_table(spark, out / "silver").groupBy("run").count().collect()}


def test_tables_follow_their_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    write_parquet(traces / "a1.parquet", "a", _rows("d1"))
    write_parquet(traces / "b.parquet", "b", _rows("d1"))
    (traces / "c.parquet").write_bytes(b"no")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stages, "judge", die)
        with pytest.raises(KeyboardInterrupt):
            refresh(spark, [traces], out, measuring=False)
    monkeypatch.setattr(stages, "judge", _verdicts)
    done = refresh(spark, [traces], out, measuring=False)
    assert done.runs == ("a", "b")
    assert [Path(each.path).name for each in done.problems] == ["c.parquet"]
    assert _count(spark, out) == {"a": 2, "b": 2}
    before = manifests(out / "silver")
    assert refresh(spark, [traces], out, measuring=False).runs == ()
    assert manifests(out / "silver") == before
    write_parquet(traces / "a2.parquet", "a", _rows("d2"))
    assert refresh(spark, [traces], out, measuring=False).runs == ("a",)
    assert _count(spark, out) == {"a": 4, "b": 2}
    assert manifests(out / "silver")["b"] == before["b"]


def _verdicts(silver):  # type: ignore[no-untyped-def]
    """Judging is tested elsewhere."""
    nothing = f"CAST(null AS {schema.WITNESS}) AS witness"
    return (
        silver.select("run")
        .distinct()
        .selectExpr("run", "'EVS-2.1' AS label", "'holds' AS state", nothing, "0 AS place")
    )


def _refresh(spark: SparkSession, traces: Path, out: Path) -> stages.Refreshed:
    return refresh(spark, [traces], out, judging=False, measuring=False)


def test_tables_and_the_files_they_are_made_from(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One story, for each refresh takes its time."""
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    torn = records.spool(traces, "a", 0, records.rows(0, 2))
    torn.write_bytes(torn.read_bytes() + frame(b"\x93\x03\x00\x01"))
    first = records.write(traces, "b", 0, records.rows(0, 2), records.CLOSED)
    write_jsonl(traces / "c.jsonl", "c", [])
    done = _refresh(spark, traces, out)
    assert [Path(each.path) for each in done.problems] == [torn]
    assert _count(spark, out) == {"a": 3, "b": 2, "c": 1}
    again = _refresh(spark, traces, out)
    assert (again.problems, again.runs) == (done.problems, ())  # a damaged part is named as often as one asks
    assert refresh(spark, [first], out, judging=False, measuring=False).present == ("b",)

    # What comes while a file is read is read the next time; and a part without rows belongs to its run too.
    new = records.spool(traces, "d", 0, records.rows(0, 1))

    def read_and_grow(spark: SparkSession, paths: Iterable[Path]) -> Bronze:
        found = kept(read_bronze(spark, paths), rows_too=True)
        new.write_bytes(begin_spool(records.header("d", 0)) + b"".join(map(encode_row, records.rows(0, 5))))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(stages, "read_bronze", read_and_grow)
        refresh(spark, [new], out, judging=False, measuring=False)
    assert _count(spark, out)["d"] == 2
    grown = records.spool(traces, "b", 1, [])
    _refresh(spark, traces, out)
    assert _count(spark, out) == {"a": 3, "b": 3, "c": 1, "d": 6}

    # A run whose files are gone keeps what it has.
    first.unlink()
    grown.write_bytes(grown.read_bytes() + encode_row(records.rows(2, 3)[0]))
    lost = _refresh(spark, traces, out)
    assert str(first) in [each.path for each in lost.problems]
    assert _count(spark, out)["b"] == 3


def test_a_table_has_the_columns_that_are_written_down(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1)], "run string, place int")
    assert stages.formed(rows, "place bigint, run string").columns == ["place", "run"]
    for form in ("run string", "run string, place int, more int"):
        with pytest.raises(AssertionError):
            stages.formed(rows, form)
