"""The commands, and a run with real daemons that is so small that its figures mean nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import IsotoneCluster
from isotone.bench.lan.goals import Goal
from isotone.bench.lan.measuring import Effort, measure
from isotone.bench.lan.traffic import OrderBroken
from isotone.cli.bench_lan import exit_code, lan_command
from isotone.cli.bench_profile import _cell
from isotone.cli.main import commands
from isotone.core.errors import InputError


def test_three_members_hear_a_few_hundred_messages_of_three_senders() -> None:
    cell = Cell(variant="senders-3", senders=3, rate=2_000.0)
    with IsotoneCluster(cell.cluster, None) as running:
        sample, outcomes = measure(cell, running, Effort(warm_up_s=0.0, seconds=0.05), latency=True)
        assert running.is_together()
    assert sample.rate > 0
    assert sample.cpu_us_daemons > 0
    assert sample.cpu_us_clients > 0
    assert len({outcome.digest for outcome in outcomes}) == 1
    assert outcomes[0].delivered == {str(place): outcomes[place].sent for place in range(3)}
    assert outcomes[0].latencies_us


def test_a_run_is_written_down_resumed_and_told(tmp_path: Path) -> None:
    measured, report = tmp_path / "lan.json", tmp_path / "lan.html"
    common = ["--only", "base", "--sizes", "1024", "--paths", "loopback", "--seconds", "0.05", "--peers", "none"]
    common += ["--measured", str(measured), "--no-figures", "--json"]
    first = CliRunner().invoke(commands, ["bench", "lan", *common, "--repetitions", "1"])
    assert first.exit_code == 0, first.output
    second = CliRunner().invoke(
        commands, ["bench", "lan", *common, "--repetitions", "1", "--resume", "--report", str(report)]
    )
    assert second.exit_code == 0, second.output
    assert json.loads(second.stdout)["rows"] == json.loads(first.stdout)["rows"], "nothing was left to measure"
    (row,) = json.loads(second.stdout)["rows"]
    assert (row["system"], row["size"], row["packing"]) == ("isotone", 1024, "none")
    assert row["rate"] > 0
    assert "1,024 bytes" in report.read_text()
    told = json.loads(second.stdout)
    assert {goal["verdict"] for goal in told["goals"]} == {"not measured"}, "one repetition, no peer"
    other = CliRunner().invoke(commands, ["bench", "lan", *common, "--seconds", "0.06", "--resume"])
    assert other.exit_code == 2
    assert "cannot be resumed" in other.stderr


def goal(verdict: Literal["met", "within the quartiles", "missed", "not measured"]) -> Goal:
    return Goal(name="x", at="least", goal=1.0, verdict=verdict)


def test_a_whole_run_ends_with_a_code_of_its_own_where_a_goal_is_missed_or_not_measured() -> None:
    good = [goal("met"), goal("within the quartiles")]
    assert exit_code(good) == 0
    assert exit_code([*good, goal("missed")]) == 4
    assert exit_code([*good, goal("not measured")]) == 4
    told = CliRunner().invoke(commands, ["bench", "lan", "--help"]).output
    assert "4 a goal" in " ".join(told.split())


def test_only_a_whole_run_is_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("isotone.cli.bench_lan.Run.carry_out", lambda run: None)
    run = ["bench", "lan", "--peers", "none", "--json", "--measured", str(tmp_path / "lan.json")]
    assert CliRunner().invoke(commands, run).exit_code == 4, "nothing was measured"
    for part in (["--only", "base"], ["--sizes", "64"], ["--paths", "loopback"], ["--no-figures"]):
        assert CliRunner().invoke(commands, [*run, *part]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--sizes", "x"], "numbers"),
        (["--sizes", "3"], "bytes"),
        (["--only", "nothing"], "no variant"),
        (["--paths", "moon"], "no path"),
        (["--peers", "zookeeper"], "zookeeper"),
        (["--resume", "--measured", "/nonexistent/lan.json"], "nonexistent"),
    ],
)
def test_wrong_input_is_told_before_anything_runs(arguments: list[str], told: str) -> None:
    if "--peers" not in arguments:
        arguments = [*arguments, "--peers", "none"]
    with pytest.raises(InputError, match=told):
        CliRunner().invoke(lan_command, arguments, catch_exceptions=False)


def test_a_broken_order_is_a_bad_answer_of_every_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(say: object) -> None:
        raise OrderBroken("member 2 lost a message")

    monkeypatch.setattr("isotone.cli.bench_guards.quick", broken)
    result = CliRunner().invoke(commands, ["bench", "quick", "--write", "--baseline", str(tmp_path / "quick.json")])
    assert result.exit_code == 1
    assert "member 2 lost a message" in result.stderr


def test_every_command_has_its_help() -> None:
    for name in ("lan", "parts", "profile", "quick", "recorded", "saturate", "tune"):
        result = CliRunner().invoke(commands, ["bench", name, "--help"])
        assert result.exit_code == 0, result.output
        assert "Usage" in result.output


def test_a_profile_is_of_a_variant_at_full_speed() -> None:
    assert _cell(100, "base") == Cell(size=100)
    assert _cell(1024, "safe") == Cell(size=1024, variant="safe", service="safe")
    for variant in ("offered-groups-1", "offered-daemons-2"):
        with pytest.raises(InputError):
            _cell(64, variant)
