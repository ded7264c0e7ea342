"""``isotone check``: recorded traces judged again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli import check as cli_check
from isotone.cli.main import commands
from isotone.sim.plan import Size
from isotone.sim.replay import plan_of, replay
from isotone.sim.run import RunResult, Violation
from isotone.sim.system import Setting
from isotone.trace.events import Delivered, Row
from isotone.trace.jsonl import write_jsonl


@pytest.fixture(scope="module")
def recorded() -> tuple[RunResult, list[Row]]:
    rows: list[Row] = []
    result = replay(plan_of("5", Setting(size=Size.SMALL)), sink=rows.append)
    return result, rows


def test_a_recorded_run_gets_the_verdicts_of_the_run(recorded: tuple[RunResult, list[Row]], tmp_path: Path) -> None:
    result, rows = recorded
    write_jsonl(tmp_path / "run.jsonl", "run5", rows)
    found = json.loads(CliRunner().invoke(commands, ["check", str(tmp_path), "--json"]).stdout)
    assert list(found)[:5] == ["runs", "violations", "properties", "failures", "bounds"]
    assert (found["runs"], found["violations"]) == (1, 0)
    for label, state in result.verdicts.items():
        if not label.startswith("RUN-"):
            assert found["properties"][label][state] == 1, label


def test_a_run_of_which_nothing_can_be_judged_ends_with_5(
    recorded: tuple[RunResult, list[Row]], tmp_path: Path
) -> None:
    """The record of one node alone: what it heard others say cannot be held against their records."""
    node = recorded[1][0].node
    write_jsonl(tmp_path / "one.jsonl", "one", [row for row in recorded[1] if row.node == node])
    result = CliRunner().invoke(commands, ["check", str(tmp_path)])
    assert result.exit_code == 5, result.output
    assert result.stdout.endswith("nothing could be judged of 1 run: rows are missing\n")
    assert "isotone: run 'one': no rows of " in result.stderr and "is a file missing?" in result.stderr


def test_several_runs_are_counted_each(recorded: tuple[RunResult, list[Row]], tmp_path: Path) -> None:
    for number in range(3):
        write_jsonl(tmp_path / f"run{number}.jsonl", f"run{number}", recorded[1])
    result = CliRunner().invoke(commands, ["check", str(tmp_path)])
    assert result.exit_code == 0
    assert "3 runs, no violation" in result.output


def test_a_broken_trace_is_told_with_its_witness(recorded: tuple[RunResult, list[Row]], tmp_path: Path) -> None:
    rows = recorded[1]
    node, last = next((row.node, row) for row in rows if isinstance(row.entry, Delivered))
    ours = [row for row in rows if (row.node, row.incarnation) == (node, last.incarnation)]
    place = rows.index(ours[-1]) if not _is_end(ours[-1]) else rows.index(ours[-2])
    twice = Row(node, last.incarnation, rows[place].index + 1, rows[place].at, last.entry)
    shifted = [
        Row(row.node, row.incarnation, row.index + 1, row.at, row.entry)
        if (row.node, row.incarnation) == (node, last.incarnation) and row.index > rows[place].index
        else row
        for row in rows
    ]
    path = tmp_path / "broken.jsonl"
    write_jsonl(path, "broken", [*shifted[: place + 1], twice, *shifted[place + 1 :]])
    result = CliRunner().invoke(commands, ["check", str(path)])
    assert result.exit_code == 1
    assert "EVS-2.5" in result.output
    found = json.loads(CliRunner().invoke(commands, ["check", str(path), "--json"]).stdout)
    (failure,) = [failure for failure in found["failures"] if failure["property"] == "EVS-2.5"]
    assert failure["replay"] == f"isotone check {path}"
    assert failure["witness"]
    assert failure["explanation"]


def _is_end(row: Row) -> bool:
    return type(row.entry).__name__ == "Crashed"


def test_a_directory_without_traces_is_a_clear_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(commands, ["check", str(tmp_path)])
    assert result.exit_code == 2
    assert "no trace found" in result.stderr


def test_a_file_that_is_no_trace_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("not a trace\n")
    result = CliRunner().invoke(commands, ["check", str(path)])
    assert (result.exit_code, result.stdout) == (2, "nothing was judged\n")
    assert str(path) in result.stderr


def test_files_that_cannot_be_read_are_named_and_the_rest_is_judged(
    recorded: tuple[RunResult, list[Row]], tmp_path: Path
) -> None:
    write_jsonl(tmp_path / "run.jsonl", "run5", recorded[1])
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    (tmp_path / "notes.jsonl").write_text("not a trace\n")
    result = CliRunner().invoke(commands, ["check", str(tmp_path), str(tmp_path / "notes.jsonl")])
    assert result.exit_code == 2
    assert "1 run, no violation" in result.stdout
    assert [line.partition(": ")[2].partition(":")[0] for line in result.stderr.splitlines()] == [
        str(tmp_path / "cut.parquet"),
        str(tmp_path / "notes.jsonl"),
    ]


@pytest.mark.parametrize("error", [ValueError(), TypeError(), KeyError(), OverflowError(), RecursionError()])
def test_what_a_reader_stumbles_over_is_the_files_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def rows() -> Iterator[Row]:
        raise error
        yield

    def runs(traces: Sequence[Path], **_: object) -> Iterator[tuple[str, Iterator[Row]]]:
        yield "run", rows()

    monkeypatch.setattr(cli_check, "read_runs", runs)
    result = CliRunner().invoke(commands, ["check", str(tmp_path)])
    assert result.exit_code == 2
    assert "the traces cannot be read" in result.stderr


def test_the_command_that_shows_it_again_is_quoted(
    recorded: tuple[RunResult, list[Row]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "my run.jsonl"
    write_jsonl(path, "run", recorded[1])
    broken = Violation("EVS-2.5", "twice")
    monkeypatch.setattr(cli_check, "verdicts_and_violations", lambda report: ({"EVS-2.5": "violated"}, [broken]))
    found = json.loads(CliRunner().invoke(commands, ["check", str(path), "--json"]).stdout)
    assert shlex.split(found["failures"][0]["replay"]) == ["isotone", "check", str(path)]
