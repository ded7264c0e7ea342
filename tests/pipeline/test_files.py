"""Trace files of every form and condition: read, or named and left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from isotone.cli.check import exit_code
from isotone.cli.main import commands
from isotone.core.errors import InputError
from isotone.pipeline import checking, tables
from isotone.pipeline.bronze import Bronze, Problem, found_files, kept, problems, read_bronze
from isotone.pipeline.checking import check_with
from isotone.pipeline.conformance import layers
from isotone.pipeline.schema import STAMP
from isotone.pipeline.silver import silver
from isotone.pipeline.tables import write_runs
from isotone.sim.summary import Summary
from isotone.trace.corel import Reddened
from isotone.trace.events import Connected, Gap, Recovered, Row, Truncated
from isotone.trace.jsonl import write_jsonl
from isotone.trace.parquet import write_parquet
from isotone.trace.reader import read, read_runs, trace_files
from isotone.trace.writer import Level, TraceWriter
from tests.pipeline.conftest import BROKEN
from tests.pipeline.test_reading import SPOILT, spoilt

TRACES = Path(__file__).parents[1] / "traces"
Place = tuple[str, int, int, str]


def _row(index: int, node: str = "d1") -> Row:
    entry = Recovered(f"{node}#1") if index == 0 else Connected(f"#c{index}#{node}#1#{index}")
    return Row(node, 1, index, index, entry)


def _silver(spark: SparkSession, *paths: Path) -> tuple[list[Place], tuple[Problem, ...]]:
    bronze = read_bronze(spark, paths)
    rows = silver(bronze.rows).select("node", "incarnation", "index", "kind").collect()
    return sorted((row["node"], row["incarnation"], row["index"], row["kind"]) for row in rows), problems(bronze)


def _plain(*paths: Path) -> list[Place]:
    tags = {Gap: "gap", Truncated: "truncated", Recovered: "recover", Connected: "connect"}
    return sorted((row.node, row.incarnation, row.index, tags[type(row.entry)]) for row in read(paths))


def test_a_mix_of_forms_is_read_as_the_plain_reader_does(spark: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", "run", [_row(0), _row(1), _row(4)])
    write_jsonl(tmp_path / "b.jsonl", "run", [_row(1), _row(2), _row(0, "d2")])
    writer = TraceWriter(tmp_path, "run", "d3", 1, level=Level.FULL)
    for index in range(3):
        writer.append(_row(index, "d3"))
    writer.flush()  # and never closed: the record may go on
    found, wrong = _silver(spark, tmp_path)
    writer.close()
    assert wrong == ()
    assert ("d1", 1, 3, "gap") in found
    assert ("d3", 1, 3, "truncated") in found
    assert [each for each in found if each[0] != "d3"] == _plain(tmp_path / "a.parquet", tmp_path / "b.jsonl")


def test_what_cannot_be_read_is_named_and_left_out(spark: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "good.parquet", "run", [_row(0), _row(1)])
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "foreign.jsonl").write_text('{"hello": 1}\n')
    (tmp_path / "newer.jsonl").write_text('{"isotone_trace": 99, "run": "run"}\n')
    (tmp_path / "half.jsonl").write_text('{"isotone_trace": 1, "run": "run"}\n{"node": "d9", "kind": "recover"}\n')
    (tmp_path / "torn.spool").write_bytes(b"ISOSPOOX")
    found, wrong = _silver(spark, tmp_path, tmp_path / "missing.txt")
    assert found == [("d1", 1, 0, "recover"), ("d1", 1, 1, "connect")]
    assert [Path(each.path).name for each in wrong] == [
        "cut.parquet",
        "foreign.jsonl",
        "half.jsonl",
        "missing.txt",
        "newer.jsonl",
        "torn.spool",
    ]
    assert all(each.reason for each in wrong)
    assert "99" in next(each.reason for each in wrong if each.path.endswith("newer.jsonl"))


def _looked_at(path: Path) -> list[Path]:
    """What both engines take for traces."""
    found = list(trace_files([path]))
    missing: list[Problem] = []
    assert list(found_files([path], missing)) == found
    assert missing == []
    return found


def test_tables_among_the_traces_are_no_traces(spark: SparkSession, tmp_path: Path) -> None:
    """As with --out inside the traces, and as a sweep leaves it: a table beside the traces of failures."""
    write_jsonl(tmp_path / "a.jsonl", "a", [_row(0)])
    (tmp_path / "sweep" / "traces").mkdir(parents=True)
    write_jsonl(tmp_path / "sweep" / "traces" / "b.jsonl", "b", [_row(0)])
    table = tmp_path / "sweep" / "sweep"
    write_runs(table, spark.createDataFrame([("x", 1)], "run string, value int"))
    assert list(table.rglob("*.parquet"))
    wanted = [tmp_path / "a.jsonl", tmp_path / "sweep" / "traces" / "b.jsonl"]
    assert _looked_at(tmp_path) == wanted
    assert _looked_at(table) == []
    assert [run for run, _ in read_runs([tmp_path])] == ["a", "b"]


def test_what_a_killed_writer_left_is_no_trace(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "_commit", die)
    monkeypatch.setattr(tables.shutil, "rmtree", lambda path, ignore_errors: None)
    with pytest.raises(KeyboardInterrupt):
        write_runs(tmp_path, spark.createDataFrame([("x", 1)], "run string, value int"))
    assert list(tmp_path.rglob("*.parquet"))
    assert _looked_at(tmp_path) == []


def test_directories_that_are_named_like_those_of_a_table_are_read(tmp_path: Path) -> None:
    for name in ("manifests", "data"):
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "a.jsonl", name, [_row(0)])
    assert _looked_at(tmp_path) == [tmp_path / "data" / "a.jsonl", tmp_path / "manifests" / "a.jsonl"]


def test_an_empty_directory_is_the_caller_s_mistake(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace found"):
        check_with(spark, [tmp_path])


def test_no_file_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of another program that no checker could bear, a record without rows, a message that has no name."""
    for case in ("no view", "unknown service"):
        spoilt(tmp_path, case, *SPOILT[case])
    write_jsonl(tmp_path / "empty.jsonl", "empty", [])
    rows = [Row("a", 1, 0, 0, Recovered("a#1")), Row("a", 1, 1, 0, Reddened("a", ("nameless",)))]
    write_parquet(tmp_path / "nameless.parquet", "nameless", rows)
    checked = check_with(spark, [tmp_path])
    assert [Path(each.path).name for each in checked.problems] == ["no-view.parquet", "unknown-service.parquet"]
    assert (checked.summary.runs, checked.summary.violations) == (4, 0)
    assert exit_code(checked.summary, checked.problems) == 2
    assert checked.summary.properties["EVS-2.5"]["not_exercised"] == 4
    assert checked.summary.properties["COR-FIFO"]["not_exercised"] == 1


def test_replicas_with_too_many_rows_are_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "ROWS_MAX", 1)
    form = "run string, node string, incarnation bigint, index bigint, at bigint, kind string, extra string, "
    form += f"servers array<string>, digests array<bigint>, stamp {STAMP}"
    rows = [("large", "a", 1, index, 0, "white", "{}", None, None, None) for index in range(2)]
    runs = spark.createDataFrame([("large", False, None, None)], _ABOUT)
    with pytest.warns(UserWarning, match="'large' has 2 rows"):
        found = layers.judge_layers(spark.createDataFrame(rows, form), runs, 0)
    assert {row["state"] for row in found[0].collect()} == {"not_judged"}
    assert layers.judge_layers(spark.createDataFrame([], form), runs, 0) == []


_ABOUT = "run string, is_lossy boolean, quiet boolean, components array<array<string>>"


def test_both_engines_say_the_same_of_a_violation_and_of_files_that_cannot_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copy(TRACES / BROKEN / "broken-clients.jsonl", tmp_path / "broken.jsonl")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    (tmp_path / "foreign.jsonl").write_text("hello")
    (tmp_path / "notes.txt").write_text("not a trace")
    for name in ("link.jsonl", "link.parquet", "link.spool"):
        (tmp_path / name).symlink_to("nowhere")
    wanted = ["check", str(tmp_path), str(tmp_path / "notes.txt"), "--json", "--engine"]
    told = {engine: CliRunner().invoke(commands, [*wanted, engine]) for engine in ("python", "spark")}
    assert [each.exit_code for each in told.values()] == [1, 1], [each.output for each in told.values()]
    assert told["python"].stderr == told["spark"].stderr
    lines = told["python"].stderr.splitlines()
    assert [line.count(str(tmp_path)) for line in lines] == [1] * 6  # each file once
    plain, spark_s = (json.loads(each.stdout) for each in told.values())
    assert (plain["runs"], plain["violations"], plain["properties"]) == (1, 1, spark_s["properties"])
    assert [(each["property"], each["witness"]) for each in plain["failures"]] == [
        (each["property"], each["witness"]) for each in spark_s["failures"]
    ]


def test_a_file_that_fails_when_it_is_read_again_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "a.parquet", "run", [_row(0), _row(1)])
    write_parquet(tmp_path / "b.parquet", "run", [_row(0, "d2"), _row(1, "d2")])

    def keep_and_fail(bronze: Bronze, *, rows_too: bool) -> Bronze:
        found = kept(bronze, rows_too=rows_too)
        (tmp_path / "b.parquet").write_bytes(b"PAR1")
        return found

    monkeypatch.setattr(checking, "kept", keep_and_fail)
    monkeypatch.setattr(checking, "judge", lambda rows: rows)
    counted: list[int] = []

    def count(rows: DataFrame, command: str) -> Summary:
        counted.append(rows.count())
        return checking.NOTHING

    monkeypatch.setattr(checking, "summarise", count)
    assert [Path(each.path).name for each in check_with(spark, [tmp_path]).problems] == ["b.parquet"]
    assert counted == [2]
