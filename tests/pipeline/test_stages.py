"""Tables that follow their trace files: the same files change nothing, more files add rows, a kill is made up for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isotone.pipeline import stages
from isotone.pipeline.stages import refresh
from isotone.pipeline.tables import manifests, read_table
from isotone.trace.events import Connected, Recovered, Row
from isotone.trace.parquet import write_parquet


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
    return silver.select("run").distinct().selectExpr("run", "'EVS-2.1' AS label", "'holds' AS state")
