"""The soak with a stand-in task: it resumes, reports, tries failed seeds again, and says what it cannot do."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import soak
import soak_state
from isotone import __version__
from isotone.sim.registry import SYSTEMS
from soak_state import Campaign, Chunk, Failure
from soak_tasks import TASKS, Task, by_exit_code, events_of_sweep, read_sweep

TICK_SECONDS = 5
WITHIN_S = 60
WAITING = """\
import sys
import soak
from soak_tasks import Task, by_exit_code

waits = "import signal, sys; signal.alarm(600); "
waits += "told = open(sys.argv[1], 'w'); print('here', file=told, flush=True); signal.pause()"
line, directory = sys.argv[1:]
command = lambda chunk: [sys.executable, "-S", "-c", waits, line]
soak.TASKS = {"stand-in": Task("stand-in", command, by_exit_code("EVEN", command))}
soak.soak_state.source_digest = lambda root: "first"
sys.argv[1:] = ["--processes", "1", "--directory", directory]
soak.main()
"""


def command(chunk: Chunk) -> list[str]:
    """Seeds from 9 on fail."""
    return [sys.executable, "-S", "-c", f"raise SystemExit({int(chunk.first + chunk.count > 9)})"]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cheap task, a source that does not change, and a clock that goes on with every look at it."""
    monkeypatch.setattr(soak, "TASKS", {"stand-in": Task("stand-in", command, by_exit_code("EVEN", command))})
    monkeypatch.setattr(soak_state, "source_digest", lambda root: "first")
    ticks = count(0, TICK_SECONDS)
    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=lambda: float(next(ticks)), sleep=lambda _: None))


def run(monkeypatch: pytest.MonkeyPatch, directory: Path, *options: str, seconds: float = 12) -> int:
    arguments = ["--hours", str(seconds / 3600), "--processes", "1", "--directory", str(directory), *options]
    monkeypatch.setattr(sys, "argv", ["soak.py", *arguments])
    return soak.main()


def stored(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "state.json").read_text())
    return found


def test_a_soak_stops_when_its_hours_are_over_and_goes_on_when_called_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(monkeypatch, tmp_path) == 0
    first = stored(tmp_path)
    assert first["handed_out"] == []
    assert first["seeds_finished"] == {"stand-in": first["next_seed"]["stand-in"] - 1}
    assert run(monkeypatch, tmp_path) == 0
    assert stored(tmp_path)["seeds_finished"] == first["seeds_finished"], "the hours are a total"
    assert run(monkeypatch, tmp_path, seconds=first["seconds_spent"] + 60) == 1
    assert stored(tmp_path)["next_seed"]["stand-in"] > first["next_seed"]["stand-in"]
    report = (tmp_path / "report.txt").read_text()
    assert "soak of source first" in report and "violated: EVEN" in report and "python -S -c 'raise" in report


def test_changed_source_tries_failed_and_unfinished_seeds_first(tmp_path: Path) -> None:
    failures = [Failure("stand-in", 40, "EVEN", "again"), Failure("stand-in", 12, "EVEN", "again")]
    earlier = Campaign("old", {"stand-in": 50}, [Chunk("stand-in", 48, 2)], failures=failures, failures_total=2)
    soak_state.save(tmp_path / "state.json", earlier)
    (tmp_path / "report.txt").write_text("old results\n")
    campaign = soak_state.load(tmp_path / "state.json", "new")
    assert campaign.handed_out == [Chunk("stand-in", 12, 1), Chunk("stand-in", 40, 1), Chunk("stand-in", 48, 2)]
    assert (campaign.next_seed, campaign.failures_total) == ({"stand-in": 50}, 0)
    assert (tmp_path / "report-old.txt").read_text() == "old results\n"
    begun = soak.Soak(campaign, tmp_path / "state.json", 1.0, 1, ["stand-in"])
    assert [begun._next_chunk().first for _ in range(4)] == [12, 40, 48, 50]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "handed_out": [1]}'])
def test_a_state_that_cannot_be_read_is_told_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "state.json").write_text(text)
    assert run(monkeypatch, tmp_path) == 2
    assert "--fresh begins anew" in capsys.readouterr().err
    assert (tmp_path / "state.json").read_text() == text
    assert run(monkeypatch, tmp_path, "--fresh") == 0


@pytest.mark.parametrize("hours", ["nan", "inf", "-inf", "-1", "0", "soon"])
def test_hours_are_a_positive_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hours: str) -> None:
    monkeypatch.setattr(sys, "argv", ["soak.py", f"--hours={hours}", "--directory", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        soak.main()
    assert end.value.code == 2


@pytest.mark.parametrize("options", [[], ["--fresh"]])
def test_a_directory_that_cannot_be_written_is_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(monkeypatch, tmp_path / "file" / "soak", *options) == 3
    assert "soak: cannot keep state in" in capsys.readouterr().err


def test_chunk_after_chunk_without_a_result_ends_the_soak(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = [sys.executable, "-S", "-c", "import sys; sys.exit(7)"]
    monkeypatch.setattr(soak, "TASKS", {"stand-in": Task("stand-in", lambda chunk: code, by_exit_code("X", command))})
    assert run(monkeypatch, tmp_path, seconds=1e12) == 3
    assert "3 chunks in a row ended without a result; the last: exit code 7" in capsys.readouterr().err
    assert len(stored(tmp_path)["handed_out"]) == 3, "they are tried again when it has been repaired"


def test_the_result_of_a_sweep_is_read_or_refused() -> None:
    failure = {"key": "3 --stack full", "properties": ["EVS-2.7", "EVS-2.5"], "replay": "isotone sim replay 3"}
    told = {"properties": {"EVS-2.7": {"violated": 1}}, "failures": [failure], "events": 70}
    verdicts, failures = read_sweep(Chunk("evs-oracle", 1, 8), 1, json.dumps(told))
    assert verdicts == {"EVS-2.7": {"violated": 1}}
    assert failures == [Failure("evs-oracle", 3, name, "isotone sim replay 3") for name in ("EVS-2.7", "EVS-2.5")]
    assert events_of_sweep(json.dumps(told)) == 70
    for wrong in ("", "[]", "{}", '{"properties": 1, "failures": []}'):
        with pytest.raises(ValueError):
            read_sweep(Chunk("evs-oracle", 1, 8), 1, wrong)


def test_simulated_events_are_counted_by_release_through_changes_of_the_source(tmp_path: Path) -> None:
    campaign = Campaign("old", events={"0.0.1": 5}, handed_out=[Chunk("stand-in", 1, 1)])
    campaign.finish(Chunk("stand-in", 1, 1), {}, [], events=1234)
    soak_state.save(tmp_path / "state.json", campaign)
    later = soak_state.load(tmp_path / "state.json", "new")
    assert later.events == {"0.0.1": 5, __version__: 1234}
    report = soak_state.report(later, 1.0)
    assert f"1,234 simulated of release {__version__}" in report
    assert "1,239 simulated in all" in report


def test_a_task_that_keeps_results_is_told_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that two at once, or two sources, never share a table."""
    monkeypatch.setattr(soak, "TASKS", TASKS)
    begun = soak.Soak(Campaign("first"), tmp_path / "state.json", 1.0, 1, ["evs-oracle"])
    command = begun._command(Chunk("evs-oracle", 5, 3))
    assert command[-4:] == ["--seeds", "5..7", "--out", str(tmp_path / "sweeps" / "first" / "evs-oracle-5-3")]
    assert "--out" not in begun._command(Chunk("codec", 5, 3))


@pytest.mark.parametrize(("system", "stack"), [(name, stack) for name in SYSTEMS for stack in SYSTEMS[name].stacks])
def test_every_system_is_swept_on_every_stack(system: str, stack: str) -> None:
    command = TASKS[f"{system}-{stack}"].command(Chunk(f"{system}-{stack}", 5, 3))
    assert command[2:] == ["--system", system, "--stack", stack, "--seeds", "5..7"]


def test_planted_faults_are_looked_for() -> None:
    for name, where in (("planted", "evs"), ("planted-corel", "corel")):
        task, chunk = TASKS[name], Chunk(name, 5, 3)
        assert task.command(chunk)[2:] == ["tests.planted.search", where, "--places", "5..7"]
        _, failures = task.read(chunk, 1, "")
        assert [(each.property, each.replay) for each in failures] == [
            (name.upper(), f"python -m tests.planted.search {where} --places 5..7")
        ]


def test_a_report_says_what_was_never_exercised() -> None:
    campaign = Campaign("one", verdicts={"BOUND a": {"not_exercised": 4}, "BOUND b": {"holds": 1, "not_exercised": 3}})
    report = soak_state.report(campaign, 1.0)
    assert "never exercised, or never reached\n  BOUND a\n\n" in report


def test_every_task_has_a_command_for_a_chunk() -> None:
    for name, task in TASKS.items():
        assert task.command(Chunk(name, 5, 3))[0] == sys.executable


def heard(line: int) -> bytes:
    """What somebody says, or nothing if nobody is there any more."""
    assert select.select([line], [], [], WITHIN_S)[0]
    return os.read(line, 80)


def test_chunks_end_with_a_soak_that_is_killed_and_the_next_soak_runs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line, directory = tmp_path / "line", tmp_path / "soak"
    os.mkfifo(line)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(soak.__file__).parent), *sys.path])}
    killed = subprocess.Popen([sys.executable, "-c", WAITING, str(line), str(directory)], env=environment)
    told = os.open(line, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert heard(told) == b"here\n"
        killed.kill()
        killed.wait()
        assert heard(told) == b"", "the chunk is still there"
    finally:
        killed.kill()
        os.close(told)
    assert stored(directory)["handed_out"] == [{"task": "stand-in", "first": 1, "count": 8}]
    assert run(monkeypatch, directory) == 0
    assert stored(directory)["seeds_finished"]["stand-in"] >= 8


def test_one_soak_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with soak.alone_in(tmp_path):
        assert run(monkeypatch, tmp_path) == 3
    assert "another one is at work" in capsys.readouterr().err
    assert run(monkeypatch, tmp_path) == 0
