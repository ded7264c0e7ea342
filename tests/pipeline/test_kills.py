"""A kill at every step by which tables are written: each run is as it was or as it is to be, and is made up for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from isotone.core.choice import Choice
from isotone.pipeline import schema, stages, tables
from isotone.pipeline.metrics.form import METRICS
from isotone.pipeline.report.page import build
from isotone.pipeline.stages import refresh, unfinished
from isotone.pipeline.sweep_spec import Simulation
from isotone.pipeline.sweeping import TABLE, TRACES, sweep
from isotone.pipeline.tables import manifests, read_notes, write_runs
from isotone.pipeline.timeline import TIMELINE
from isotone.sim.plan import Size
from isotone.sim.system import Setting
from isotone.trace.events import Connected, Recovered, Row
from isotone.trace.parquet import require_pyarrow, write_parquet
from tests.pipeline import test_report as pages
from tests.pipeline.moments import moments
from tests.pipeline.test_sweep import _row_of as result_of

KILLS = int(os.environ.get("ISOTONE_KILLS", "2"))
Runs = dict[str, tuple[object, ...]]


def _runs(table: Path) -> Runs:
    """What a reader finds of each run, without Spark: its rows, what they were made from, and what stands beside."""
    found: Runs = {}
    for run, each in manifests(table).items():
        place = table / "data" / each.directory
        rows: list[Any] = require_pyarrow().parquet.read_table(place).to_pylist() if each.rows else []
        assert len(rows) == each.rows
        found[run] = (sorted(map(str, rows)), each.inputs, read_notes(table, each))
    return found


def _assert_old_or_new(found: Runs, old: Runs, new: Runs, told: str) -> None:
    for run in {*old, *new}:
        assert found.get(run) in (old.get(run), new.get(run)), f"{told}: {run}"
    assert found.keys() <= {*old, *new}


def _assert_tidy(table: Path) -> None:
    """Nothing lies about that no manifest names."""
    known = {each.directory for each in manifests(table).values() if each.rows}
    assert {path.name for path in (table / "data").iterdir()} == known
    assert all(path.suffix == ".json" for path in (table / "manifests").iterdir())


def test_a_writer_that_is_killed_at_any_step(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is replaced, one is emptied, one is new and one stays; what Spark writes is there beforehand."""
    table, written = tmp_path / "table", tmp_path / "written"
    rows = spark.createDataFrame([("a", 5), ("a", 6), ("c/d", 7)], "run string, value int")
    made_from = {"a": ("2.parquet",), "b": ("3.parquet",), "c/d": ("4.parquet",)}
    counts = tables._write(rows, written, made_from)
    first = spark.createDataFrame([("a", 1), ("b", 2), ("e", 3)], "run string, value int")
    write_runs(table, first, notes={"a": b"old notes"})

    def copied(rows: DataFrame, aside: Path, runs: Iterable[str]) -> dict[str, int]:
        shutil.copytree(written, aside)
        return counts

    def write(table: Path) -> None:
        write_runs(table, rows, inputs=made_from, notes={"a": b"new notes"})

    monkeypatch.setattr(tables, "_write", copied)
    old = _runs(table)
    with moments(table, tmp_path / "moments") as taken:
        write(table)
    new = _runs(table)
    assert [len(each[0]) for _, each in sorted(new.items())] == [2, 0, 1, 1]  # type: ignore[arg-type]
    seen = [_runs(moment.place) for moment in taken]
    for moment, found in zip(taken, seen):
        _assert_old_or_new(found, old, new, moment.step)
    assert (seen[0], seen[-1]) == (old, new)
    assert len({str(sorted(found.items())) for found in seen}) == 4  # one run after the other
    for moment in taken:
        write(moment.place)
        assert _runs(moment.place) == new, moment.step
        _assert_tidy(moment.place)


def test_rows_are_on_the_disk_before_they_replace_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that stops is no worse than a kill."""
    synced, renamed = set(), []
    sync, rename = os.fsync, os.rename

    def noted_sync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        sync(file)

    def noted_rename(source: Path, target: Path) -> None:
        renamed.append({path.stat().st_ino for path in (source, *source.iterdir())} - synced)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "rename", noted_rename)
    write_runs(tmp_path, spark.createDataFrame([("a", 1), ("b", 2)], "run string, value int"), notes={"a": b"notes"})
    assert renamed == [set(), set()]


def _rows(node: str) -> list[Row]:
    return [Row(node, 1, 0, 0, Recovered(f"{node}#1")), Row(node, 1, 1, 1, Connected(f"#c#{node}#1#1"))]


def _content(out: Path) -> dict[str, Runs]:
    """What a reader finds in each table; what gold was made from has a new name each time."""
    found = {table: _runs(out / table) for table in stages.TABLES}
    gold = {
        table: {run: (rows,) for run, (rows, *_) in runs.items()}
        for table, runs in found.items()
        if table != stages.SILVER
    }
    return {**found, **gold}


def _counting(form: str, column: str) -> Callable[[DataFrame], DataFrame]:
    """A stand-in for what makes a gold table: of each run a row that says how many rows it has."""

    def counted(silver: DataFrame) -> DataFrame:
        columns = {field.name: F.lit(None).cast(field.dataType) for field in StructType.fromDDL(form)}
        some = silver.groupBy("run").agg(F.count("run").alias("rows"))
        columns |= {"run": F.col("run"), column: F.col("rows").cast(StructType.fromDDL(form)[column].dataType)}
        return some.select(*(value.alias(name) for name, value in columns.items()))

    return counted


def test_a_refresh_that_is_killed_at_any_step(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run comes more, one is new and one stays. Some of the kills are made up for; all with ISOTONE_KILLS=999."""
    monkeypatch.setattr(stages, "judge", _counting(schema.VERDICTS, "place"))
    monkeypatch.setattr(stages, "traffic", lambda silver: silver)
    monkeypatch.setattr(stages, "timeline", _counting(TIMELINE, "index"))
    monkeypatch.setattr(stages, "metrics_of", _counting(METRICS, "count"))
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    write_parquet(traces / "a1.parquet", "a", _rows("d1"))
    write_parquet(traces / "b.parquet", "b", _rows("d1"))
    refresh(spark, [traces], out)
    old = _content(out)
    write_parquet(traces / "a2.parquet", "a", _rows("d2"))
    write_parquet(traces / "c.parquet", "c", _rows("d1"))
    with moments(out, tmp_path / "moments") as taken:
        refresh(spark, [traces], out)
    new = _content(out)
    states = {}
    for moment in taken:
        found = _content(moment.place)
        assert (unfinished(moment.place) == ()) == (found in (old, new)), moment.step
        for table in stages.TABLES:
            _assert_old_or_new(found[table], old[table], new[table], f"{moment.step}: {table}")
        states.setdefault(str(sorted(found.items())), moment)
    assert len(states) == 1 + 2 * len(stages.TABLES)  # one run of one table after the other
    chosen = list(states.values())[1:-1]
    Choice("kill a refresh").shuffle(chosen)
    chosen.insert(0, taken[-2])  # all that is left to do is to tidy up
    with pytest.raises(AssertionError):
        _assert_tidy(taken[-2].place / stages.METRICS)
    chosen += [moment for moment in taken if moment not in chosen]
    for moment in chosen[:KILLS]:
        refresh(spark, [traces], moment.place)
        assert _content(moment.place) == new, moment.step
        for table in stages.TABLES:
            _assert_tidy(moment.place / table)


def test_what_a_killed_sweep_kept_of_a_failure_is_gone_when_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between a trace and the row that names it; then another version ran."""
    simulation = Simulation(Setting(size=Size.SMALL), 7, shape=("sends=20",))

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    with monkeypatch.context() as patched:
        patched.setattr("isotone.pipeline.sweep_task.replay", broken)
        result_of(tmp_path, simulation)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".parquet"]
    assert result_of(tmp_path, simulation)["state"] == "passed"
    assert list(tmp_path.iterdir()) == []


class _NoSpark:
    @property
    def sparkContext(self) -> None:
        raise LookupError


def test_what_a_killed_sweep_left_half_written_is_gone_with_the_next(tmp_path: Path) -> None:
    left = [f"{TABLE}/data/.aside-1", f"{TABLE}/manifests/.b.json.1", f"{TRACES}/.7.parquet.12"]
    for name in [*left, f"{TRACES}/7.parquet"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).mkdir() if "data" in name else (tmp_path / name).write_text("half")
    with pytest.raises(LookupError):  # without Spark it comes no further
        sweep(_NoSpark(), [Simulation(Setting(), 7)], tmp_path)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.rglob("*7*")] == ["7.parquet"]
    assert not any((tmp_path / name).exists() for name in left)


def test_the_page_says_which_runs_a_kill_left_unfinished() -> None:
    tables = (pages._tally(), pages._metrics(), pages._timeline(), None)
    told = "2 runs have rows that are not judged and measured yet"
    assert [told in build(*tables, runs).markup for runs in ((), ("a", "b"))] == [False, True]
