"""``isotone pipeline``: what it prints, what it leaves, how it ends. In this process, on the session of the tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from isotone.cli import demo, pipeline_demo
from isotone.cli.check import check_traces
from isotone.cli.demo_bank import KEPT, KeptLog, bank
from isotone.cli.demo_record import Verdicts
from isotone.cli.main import commands
from isotone.core.errors import MachineError
from isotone.core.ordered_log import LogEntry
from isotone.pipeline import checking, gold, java, session, stages
from isotone.pipeline.report import page
from isotone.pipeline.stages import refresh
from isotone.pipeline.tables import manifests, read_table, reading, writing
from isotone.replicated.records import Announced, Called, Opened, encode
from isotone.sim.summary import count_verdicts
from isotone.trace.events import Connected, Recovered, Row
from isotone.trace.jsonl import read_jsonl, write_jsonl
from isotone.trace.parquet import write_parquet
from tests.pipeline.conftest import BROKEN, Piped

TRACES = Path(__file__).parents[1] / "traces"
UNREADABLE = ("cut.parquet", "foreign.jsonl", "newer.jsonl")


def _isotone(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, ["pipeline", *map(str, arguments)])


def test_a_violation_and_files_that_cannot_be_read(piped: Piped, tmp_path: Path) -> None:
    done = piped.told
    assert done.exit_code == 1, done.output
    summary = json.loads(done.stdout)
    assert (summary["runs"], [each["property"] for each in summary["failures"]]) == (2, [f"EVS-{BROKEN}"])
    for name in UNREADABLE:
        assert name in done.stderr
    assert "99" in done.stderr
    page = (piped.out / "report.html").read_text()
    assert f"(EVS-{BROKEN}) is violated in broken" in page
    alone = _isotone("run", piped.traces / "good.parquet", "--out", piped.out, "--json", "--no-report")
    assert (json.loads(alone.stdout)["runs"], alone.exit_code) == (1, 0)  # of the tables, what the trace is of
    again = _isotone("report", piped.out, "--to", tmp_path / "again.html")
    assert again.exit_code == 0
    assert (tmp_path / "again.html").read_text() == page


def test_files_that_cannot_be_read_alone(piped: Piped, tmp_path: Path) -> None:
    some = [piped.traces / name for name in ("good.parquet", *UNREADABLE)]
    done = _isotone("metrics", *some, "--out", tmp_path)
    assert done.exit_code == 2, done.output
    assert "newer.jsonl" in done.stderr
    assert set(manifests(tmp_path / stages.METRICS)) == {"good"}  # the rest was processed
    assert not manifests(tmp_path / stages.VERDICTS)
    assert "latency" in done.stdout


def test_nothing_that_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "foreign.jsonl").write_text("hello\n")
    done = _isotone("run", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "foreign.jsonl" in done.stderr
    assert "nothing was judged" in done.stdout
    assert "no violation" not in done.stdout


def test_nothing_to_read(tmp_path: Path) -> None:
    done = _isotone("run", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "no trace found" in done.stderr
    assert not (tmp_path / "out").exists()
    assert _isotone("report", tmp_path).exit_code == 2


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(checking, "session", refuse)
    monkeypatch.setattr(session, "session", refuse)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", ["run", "metrics", "sweep"])
def test_tables_that_cannot_be_written_are_named_before_spark_starts(tmp_path: Path, command: str) -> None:
    source = tmp_path / ("spec.toml" if command == "sweep" else "a.jsonl")
    source.write_text('seeds = "1..2"\n')
    with writing(tmp_path / "out"):
        busy = _isotone(command, source, "--out", tmp_path / "out")
    below = _isotone(command, source, "--out", source / "out")
    assert [busy.exit_code, below.exit_code] == [3, 3], [busy.output, below.output]
    assert "another process reads or writes there" in busy.stderr
    assert "Not a directory" in below.stderr


@pytest.mark.parametrize("command", ["run", "metrics"])
def test_nobody_writes_between_the_tables_and_what_is_told_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    out, steps = tmp_path / "out", []

    def refused(lock: AbstractContextManager[object]) -> bool:
        try:
            with lock:
                return False
        except MachineError:
            return True

    def look(step: str, found: object) -> Callable[..., object]:
        def looked(*_: object, **__: object) -> object:
            steps.append((step, refused(reading(out)), refused(writing(out))))
            return found

        return looked

    (tmp_path / "a.jsonl").touch()
    told = msgspec.structs.replace(checking.NOTHING, runs=1)
    monkeypatch.setattr(checking, "session_for", look("start", None))
    monkeypatch.setattr(stages, "refresh", look("refresh", stages.Refreshed((), (), ())))
    monkeypatch.setattr(checking, "summary_of", look("tell", told))
    monkeypatch.setattr(gold, "metric_rows", look("tell", []))
    monkeypatch.setattr(page, "write_report", look("report", None))
    done = _isotone(command, tmp_path, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    wanted = [("start", True, True), ("refresh", True, True), ("tell", False, True), ("report", False, True)]
    assert steps == wanted[: 4 if command == "run" else 3]
    assert not refused(writing(out))


# --- the end of the demo ---------------------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A demo whose story is told already, by two small recorded traces and the log of its bank."""
    (tmp_path / "trace").mkdir()
    rows = read_jsonl(TRACES / "2.5" / "good-clients.jsonl").rows()
    write_parquet(tmp_path / "trace" / "run.parquet", "run", rows)
    write_jsonl(tmp_path / "settled.jsonl", "settled", read_jsonl(TRACES / "2.15" / "good-clients.jsonl").rows())
    (tmp_path / KEPT).write_bytes(msgspec.msgpack.encode(_bank_log()))
    found = [check_traces([tmp_path / name]) for name in ("trace", "settled.jsonl")]
    monkeypatch.setattr(demo, "prepared", lambda directory: directory)
    monkeypatch.setattr(demo, "tell", lambda directory, screen, bug: Verdicts(*found))
    return tmp_path


def _bank_log() -> KeptLog:
    """The accounts are opened, and anna gives more than she has."""
    calls = [("open_accounts", ()), *(("transfer", ("anna", "ben", 30)) for _ in range(5))]
    log = [encode(Announced("a", ("a",), bank.kind, bank.names)), encode(Opened("nonce", 5))]
    log += [encode(Called(2, at, at, bank.kind, bank.name, *each)) for at, each in enumerate(calls, 1)]
    entries = [LogEntry(at, record, f"a.1:{at}") for at, record in enumerate(log, 1)]
    return KeptLog({"anna": 10, "ben": 190, "chloe": 100}, entries)


def _demo(place: Path) -> Result:
    return CliRunner().invoke(commands, ["demo", "--directory", str(place)])


def _row(output: str, label: str) -> list[str]:
    return next(line.split()[-4:] for line in output.splitlines() if line.split()[:1] == [label])


def test_the_demo_ends_with_verdicts_on_spark_and_a_report(spark: SparkSession, told: Path) -> None:
    done = _demo(told)
    assert done.exit_code == 0, done.output
    assert sum(map(int, _row(done.output, "EVS-2.5"))) == 2
    assert _row(done.output, "EVS-2.15")[0] == "1"  # owed in the record that was kept when all was quiet
    assert "the plain checkers judge the same in all 57 properties" in done.output
    accounts = "anna 10, ben 190, chloe 100; together 300; 300 at each of the 4 positions that moved money, from 3 on"
    assert f"the bank on Spark at position 6: {accounts}\n" in done.output
    assert done.output.endswith(f"report: {told / 'report.html'}; the bank's log: {told / 'archive'}\n")
    for step in ("Spark starts", "2 files read", "2 runs judged", "2 runs measured", "report.html is written"):
        assert f" s  {step}" in done.output
    page = (told / "report.html").read_text()
    assert all(mark in page for mark in ('<section id="verdicts">', "EVS-2.5", 'id="views-0"'))


def test_where_the_engines_differ_the_demo_says_so(
    spark: SparkSession, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = msgspec.structs.replace(checking.NOTHING, runs=1, properties=count_verdicts([{"EVS-2.5": "not_judged"}]))
    monkeypatch.setattr(stages, "refresh", lambda *_, **__: stages.Refreshed(("run",), (), ("run",)))
    monkeypatch.setattr(checking, "summary_of", lambda *_: other)
    monkeypatch.setattr(page, "write_report", lambda spark, tables, target: None)
    monkeypatch.setattr(pipeline_demo, "count_money", lambda spark, directory: pipeline_demo.Counted("", is_right=True))
    done = _demo(told)
    assert done.exit_code == 1
    assert "judge otherwise: EVS-2.5" in done.output


def test_without_a_java_the_demo_shows_what_the_plain_checkers_found(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(traces: object, master: object) -> None:
        raise MachineError(java.HELP)

    monkeypatch.setattr(checking, "session_for", refuse)
    done = _demo(told)
    assert done.exit_code == 0, done.output
    assert _row(done.output, "EVS-2.5") == ["1", "0", "0", "0"]
    assert done.output.endswith(f"no report: {java.HELP}\n")
    assert not (told / "report.html").exists()


def test_without_spark_the_demo_says_how_to_get_it(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isotone.pipeline.checking", None)  # as if its import of pyspark failed
    done = _demo(told)
    assert done.exit_code == 0, done.output
    assert "is not installed" in done.output
    assert "pip install 'isotone[pipeline]'" in done.output


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)  # Spark's writers, which failed, may still hold a file


def _rows(node: str, count: int) -> list[Row]:
    connects = [Row(node, 1, index, index, Connected(f"#c{index}#{node}#1#{index}")) for index in range(1, count)]
    return [Row(node, 1, 0, 0, Recovered(f"{node}#1")), *connects]


def test_a_full_disk_loses_nothing(spark: SparkSession, tmp_path: Path, small_disk: Path) -> None:
    traces, out = tmp_path / "traces", small_disk / "out"
    traces.mkdir()
    write_parquet(traces / "a.parquet", "a", _rows("d1", 3))
    refresh(spark, [traces], out, judging=False, measuring=False)
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free - 16 * 1024))
    write_parquet(traces / "b.parquet", "b", _rows("d1", 5000))
    with pytest.raises(MachineError, match="No space left on device; what was there is as it was"):
        refresh(spark, [traces], out, judging=False, measuring=False)
    assert read_table(spark, out / stages.SILVER).count() == 3
    (small_disk / "ballast").unlink()
    refresh(spark, [traces], out, judging=False, measuring=False)
    assert read_table(spark, out / stages.SILVER).count() == 5003
