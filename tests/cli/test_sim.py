"""``isotone sim``: swarm and replay, for people and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli import sim as cli_sim
from isotone.cli.main import commands
from isotone.sim import registry
from isotone.sim.plan import Size
from isotone.sim.swarm import run_seed
from isotone.sim.system import Setting
from tests.sim.planted_system import LyingSystem, PlantedSystem

SMALL = ["--size", "small"]
KEYS = ["runs", "violations", "properties", "failures", "bounds", "distribution", "choices", "unjudged", "missing"]
STATES = ["holds", "violated", "not_exercised", "not_judged"]


def test_a_swarm_prints_a_table_with_every_property_that_applies() -> None:
    result = CliRunner().invoke(commands, ["sim", "swarm", "--seeds", "1..2", "--workers", "1", *SMALL])
    assert result.exit_code == 0
    assert "2 runs, no violation" in result.output
    for label in run_seed(Setting(size=Size.SMALL), 1).verdicts:
        assert label in result.output
    assert result.stderr == "", "no progress bar without a terminal"


def test_the_json_of_a_swarm_is_exactly_one_object() -> None:
    result = CliRunner().invoke(commands, ["sim", "swarm", "--seeds", "1..3", "--workers", "1", "--json", *SMALL])
    found = json.loads(result.stdout)
    assert list(found) == KEYS
    assert (found["runs"], found["violations"], found["failures"]) == (3, 0, [])
    for counts in found["properties"].values():
        assert list(counts) == STATES
        assert sum(counts.values()) == 3
    assert {"RUN-ASSERT", "RUN-LIVE", "EVS-2.7"} <= set(found["properties"])
    assert not any(label.endswith("@S") for label in found["properties"]), "the oracle has no daemons to judge"
    assert 0 <= found["bounds"]["live"] <= 1
    for measure in ("sends", "faults", "view_changes", "cpu_seconds"):
        spread = found["distribution"][measure]
        assert spread["min"] <= spread["median"] <= spread["max"]


def test_a_replay_shows_the_verdicts_of_one_seed_and_writes_its_trace(tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    result = CliRunner().invoke(commands, ["sim", "replay", "3", "--trace", str(trace), *SMALL])
    assert result.exit_code == 0
    assert "1 run, no violation" in result.output
    checked = CliRunner().invoke(commands, ["check", str(trace), "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)["runs"] == 1


def test_a_trace_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "missing" / "run.jsonl")
    result = CliRunner().invoke(commands, ["sim", "replay", "3", "--trace", nowhere, *SMALL])
    assert result.exit_code == 3


def test_a_trace_is_written_in_the_format_that_its_name_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "run.parquet"
    replayed = ["sim", "replay", "3", "--nodes", "2", "--trace"]
    assert CliRunner().invoke(commands, [*replayed, str(trace), *SMALL]).exit_code == 0
    assert trace.read_bytes()[:4] == b"PAR1"
    assert CliRunner().invoke(commands, ["check", str(trace)]).exit_code == 0
    refused = CliRunner().invoke(commands, [*replayed, str(tmp_path / "run.csv"), *SMALL])
    assert refused.exit_code == 2
    assert "must end in .jsonl or .parquet" in refused.stderr
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    lacking = CliRunner().invoke(commands, [*replayed, str(trace), *SMALL])
    assert lacking.exit_code == 3
    assert "isotone[trace]" in lacking.stderr


@pytest.mark.parametrize(("system", "stack"), [("evs", "oracle"), ("flows", "rings"), ("hab", "consensus")])
def test_without_a_stack_a_system_runs_on_its_first(system: str, stack: str) -> None:
    assert cli_sim.setting_from({"system": system, "stack": None}).stack == stack


def test_the_help_names_the_stacks_of_each_system() -> None:
    told = " ".join(CliRunner().invoke(commands, ["sim", "swarm", "--help"]).output.split())
    assert "of evs: oracle, transport" in told


def test_commands_for_files_are_quoted() -> None:
    assert cli_sim.replay_file_command(Path("my plans/a.json")) == "isotone sim replay 'my plans/a.json'"


@pytest.mark.parametrize("spoilt", [b"[" * 100_000, b"{}", b'{"version": 1, "system": "evs"}'])
def test_a_bad_plan_is_no_violation(tmp_path: Path, spoilt: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(spoilt)
    assert CliRunner().invoke(commands, ["sim", "replay", str(path)]).exit_code == 2


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A system with a bug, and the options that run it."""
    monkeypatch.setattr(registry, "SYSTEMS", {**registry.SYSTEMS, "planted": PlantedSystem()})
    return ["--system", "planted", "--stack", "none", "--nodes", "4"]


def test_failures_come_with_a_command_that_shows_them_again(planted: list[str]) -> None:
    swarm = ["sim", "swarm", "--seeds", "0..30", "--workers", "1", *planted]
    result = CliRunner().invoke(commands, [*swarm, "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["violations"] == len(found["failures"]) == found["properties"]["RUN-ASSERT"]["violated"] > 0
    failure = found["failures"][0]
    assert list(failure) == ["seed", "property", "explanation", "witness", "replay"]
    assert "the planted fault" in failure["explanation"]
    program, *arguments = failure["replay"].split()
    assert program == "isotone"
    again = CliRunner().invoke(commands, [*arguments, "--json"])
    assert again.exit_code == 1
    assert json.loads(again.stdout)["failures"] == [failure]
    shown = CliRunner().invoke(commands, swarm)
    assert failure["replay"] in shown.output
    assert "RUN-ASSERT" in shown.output


def test_a_swarm_shrinks_its_failures_into_files_that_replay(
    planted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_sim, "SHRUNK_SEEDS_MAX", 1)
    options = ["--shrink", "--shrink-to", str(tmp_path), "--json"]
    result = CliRunner().invoke(commands, ["sim", "swarm", "--seeds", "0..30", "--workers", "1", *planted, *options])
    assert result.exit_code == 1
    (path,) = tmp_path.glob("planted-none-*-RUN-ASSERT.json")
    failure = json.loads(result.stdout)["failures"][0]
    assert failure["replay"] == f"isotone sim replay {path}"
    assert "shrunk to 2 and 1" in result.stderr
    again = CliRunner().invoke(commands, ["sim", "replay", str(path)])
    assert again.exit_code == 1
    assert "the plan was shrunk for RUN-ASSERT" in again.output
    refused = CliRunner().invoke(commands, ["sim", "replay", str(path), "--nodes", "3"])
    assert refused.exit_code == 2


def test_a_replay_shrinks_too(planted: list[str], tmp_path: Path) -> None:
    found = json.loads(
        CliRunner().invoke(commands, ["sim", "swarm", "--seeds", "0..30", "--workers", "1", *planted, "--json"]).stdout
    )
    seed = str(found["failures"][0]["seed"])
    result = CliRunner().invoke(commands, ["sim", "replay", seed, *planted, "--shrink", "--shrink-to", str(tmp_path)])
    assert result.exit_code == 1
    assert list(tmp_path.iterdir())


def test_a_replay_shows_the_rows_of_a_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SYSTEMS", {"lying": LyingSystem()})
    lying = ["--system", "lying", "--stack", "none", "--faults", "none"]
    result = CliRunner().invoke(commands, ["sim", "replay", "1", *lying])
    assert result.exit_code == 1
    assert '"kind":"deliver"' in result.output
    swarm = CliRunner().invoke(commands, ["sim", "swarm", "--seeds", "1..3", "--workers", "1", *lying, "--json"])
    found = json.loads(swarm.stdout)
    assert found["violations"] == found["properties"]["EVS-2.6"]["violated"] == 3
    assert found["failures"][0]["witness"] == [["d1", 0, 2]]


def test_traces_of_many_seeds_are_written_one_file_each_and_judged_alike(tmp_path: Path) -> None:
    out = tmp_path / "traces"
    wanted = ["sim", "trace", "--seeds", "3..4", "--workers", "1", "--nodes", "2", "--out", str(out), "--json", *SMALL]
    result = CliRunner().invoke(commands, wanted)
    assert result.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["evs-oracle-3.parquet", "evs-oracle-4.parquet"]
    checked = CliRunner().invoke(commands, ["check", str(out), "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)["runs"] == 2


def test_a_directory_for_traces_that_cannot_be_made_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wanted = ["sim", "trace", "--seeds", "3", "--workers", "1", "--out", str(tmp_path / "file" / "traces"), *SMALL]
    assert CliRunner().invoke(commands, wanted).exit_code == 3
