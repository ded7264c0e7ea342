"""Traces that are judged while they grow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from isotone.cli.main import commands
from isotone.pipeline import live_verdicts
from isotone.pipeline.live_verdicts import Look, watch
from isotone.pipeline.trace_source import TraceReader
from isotone.trace.jsonl import read_jsonl
from isotone.trace.parquet import write_parquet
from tests.pipeline.conftest import BROKEN, TRACES

NOW = {"availableNow": True}


def _write(traces: Path, name: str) -> None:
    write_parquet(traces / f"{name}.parquet", name, read_jsonl(TRACES / BROKEN / f"{name}-clients.jsonl").rows())


def test_a_run_that_comes_later_is_judged_and_its_violation_told_once(spark: SparkSession, tmp_path: Path) -> None:
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    _write(traces, "good")
    looks: list[Look] = []
    for name in ("", "broken", ""):
        if name:
            _write(traces, name)
        watch(spark, [traces], out, trigger=NOW, tell=looks.append).awaitTermination()
    assert [look.runs for look in looks] == [("good",), ("broken",)]  # the third found nothing new
    assert [len(look.new) for look in looks] == [0, 1]
    [violation] = looks[1].new
    assert violation.property == f"EVS-{BROKEN}" and violation.witness
    assert [(row["run"], row["minute"]) for row in looks[0].minutes] == [("good", 0)]
    assert looks[0].minutes[0]["delivered"] > 0 and looks[0].minutes[0]["latency_p50_us"] is not None


def test_the_command_ends_at_the_first_violation(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path
) -> None:
    """Without an end of its own; what is judged is a stand-in, for it is that of the other test."""
    (tmp_path / "a.parquet").touch()
    found = live_verdicts.Failure(None, "EVS-2.6", "In run a, these events break: …", (("d1", 1, 7),), "")
    row = {"run": "a", "minute": 3, "delivered": 1500, "latency_p50_us": 800.0, "latency_p99_us": 2500.0,
           "lag_p50_us": None, "lag_p99_us": None}  # fmt: skip
    look = Look(("a",), live_verdicts.summary_of(spark, tmp_path, [], []), [row], (found,), ())
    monkeypatch.setattr(live_verdicts, "_refreshed", lambda *_: look)
    wanted = ["pipeline", "watch", str(tmp_path), "--out", str(tmp_path / "out"), "--every", "1"]
    done = CliRunner().invoke(commands, [*wanted, "--fail-fast"])
    assert done.exit_code == 1, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "run a: minute 3: 1,500 delivered, latency 0.80 ms (99 %: 2.50 ms)"
    assert lines[1] == "VIOLATED EVS-2.6: In run a, these events break: … (d1#1 row 7)"
    other = ["--out", str(tmp_path / "other"), "--once", "--json"]
    done = CliRunner().invoke(commands, ["pipeline", "watch", str(tmp_path), *other])
    assert (done.exit_code, json.loads(done.stdout)["minutes"]) == (1, [row])


def test_offsets_grow_with_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("one")
    first = TraceReader([tmp_path]).latestOffset({}, None)  # type: ignore[arg-type]
    path.write_text("one more")
    second = TraceReader([tmp_path]).latestOffset({}, None)  # type: ignore[arg-type]
    assert (first["files"], first["bytes"], second["bytes"]) == (1, 3, 8)
    assert second["changed"] >= first["changed"]
    assert json.dumps(first) != json.dumps(second)
