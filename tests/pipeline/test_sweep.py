"""Sweeps: what is asked for, that nothing is run twice, and that a failure is a row whose command shows it again."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from isotone.cli.main import commands
from isotone.core.errors import InputError
from isotone.pipeline.session import settings
from isotone.pipeline.sweep_spec import Simulation, SweepSpec, read_spec, simulations
from isotone.pipeline.sweep_task import JOB, RESULT, job_of, play_batches
from isotone.pipeline.sweeping import TABLE, TRACES, sweep
from isotone.pipeline.tables import write_runs
from isotone.sim.plan import Size
from isotone.sim.replay import read_plan
from isotone.sim.system import Setting
from isotone.trace.parquet import require_pyarrow
from isotone.trace.reader import read_runs
from tests.planted.harness import ROOT, copy_source, read_planted

PLANTED = ROOT / "tests" / "planted" / "oracle" / "01-safe-on-agreed.patch"
SPEC = """\
seeds = ["1..17", "19..21"]
size = ["small"]
"""


def _spec(place: Path, text: str) -> Path:
    (place / "spec.toml").write_text(text)
    return place / "spec.toml"


def test_a_sweep_is_every_combination_at_every_seed(tmp_path: Path) -> None:
    spec = read_spec(
        _spec(tmp_path, 'seeds = ["2..3", 7]\nsize = ["small"]\nfaults = ["all", "none"]\nnodes = [3, "4..5"]\n')
    )
    found = list(simulations(spec))
    assert len(found) == len({each.key for each in found}) == 3 * 2 * 2
    assert found[0].key == "2 --size small --nodes 3"
    assert {each.seed for each in found} == {2, 3, 7}


def test_equal_values_of_an_axis_are_one(tmp_path: Path) -> None:
    text = 'seeds = [2, "1..2"]\nnodes = [3, "3", 3]\nfaults = ["none", "none"]\nsites = [1, "1"]\nsends = [20, 20]\n'
    found = [each.key for each in simulations(read_spec(_spec(tmp_path, text)))]
    assert found == [f"{seed} --faults none --nodes 3 sites=1 sends=20" for seed in (1, 2)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seeds = 1\nsizes = []", "Object contains unknown field `sizes`"),
        ("seeds = 1\nsystem = ['paxos']", "system: there is no system 'paxos'; "),
        ("seeds = 1\nstack = ['orakel']", "stack: system evs has no stack 'orakel'; "),
        ("seeds = 1\nstack = 'oracle'", "stack: Expected `array`, got `str`"),
        ("seeds = 1\nsize = ['huge']", "size: Invalid enum value 'huge'"),
        ("seeds = 1\nfaults = ['plague']", "faults: evs on oracle does not bear the fault 'plague'; "),
        ("seeds = 1\nfaults = []", "faults: Expected `array` of length >= 1"),
        ("seeds = []", "seeds: Expected `array` of length >= 1"),
        ("seeds = '9..1'", "seeds: seeds go upwards, not '9..1'"),
        ("seeds = -1", "seeds: seeds are written 7 or 1..200: "),
        ("seeds = ['0..900000', '900001..1800000']", "seeds: at most 1000000 at once"),
        ("seeds = '1..900000'\nnodes = [3, 4]", "at most 1000000 simulations at once, not 1800000"),
        ("seeds =", "Invalid value"),
        ("stack = ['oracle']", "Object missing required field `seeds`"),
        ("seeds = 1\nnodes = ['many']", "nodes: N or N..M, not 'many'"),
        ("seeds = 1\nnodes = [0]", "nodes: there are 1 to "),
        ("seeds = 1\nnodes = []", "nodes: Expected `array` of length >= 1"),
        (f"seeds = 1\nnodes = ['{'9' * 5000}']", "nodes: "),
        ("seeds = 1\nsites = ['many']", "sites: N or N..M, not 'many'"),
        ("seeds = 1\nsends = [0]", "sends: Expected `int` >= 1"),
        ("seeds = 1\nsends = [-1]", "sends: Expected `int` >= 1"),
        ("seeds = 1\nsends = ['1..2']", "sends: Expected `int`, got `str`"),
        ("seeds = 1\nfault_seconds = [10000001]", "fault_seconds: Expected `int` <= 10000000"),
        ("seeds = 1\nsystem = ['corel']\nsites = [2]", "sites: corel on oracle draws its own sites"),
        ("seeds = 1\nlimit_s = 0", "limit_s: Expected `int` >= 1"),
        ("seeds = 1\nlimit_s = 99999999999", "limit_s: Expected `int` <= 1000000"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.setattr("isotone.pipeline.session.session", None)
    path = _spec(tmp_path, text)
    done = CliRunner().invoke(commands, ["pipeline", "sweep", str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert f"{path}: {told}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_spec_from_a_program_is_checked_too() -> None:
    with pytest.raises(InputError, match="stack: system evs has no stack 'ether'"):
        next(simulations(SweepSpec(seeds=1, stack=("ether",))))


def _row_of(place: Path, simulation: Simulation) -> dict[str, Any]:
    columns = [each.split(" ")[0] for each in JOB.split(", ")]
    jobs = require_pyarrow().RecordBatch.from_pylist([dict(zip(columns, job_of(simulation), strict=True))])
    [row] = next(iter(play_batches(str(place), "batch", [jobs]))).to_pylist()
    return dict(row)


def test_a_simulator_that_breaks_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("isotone.pipeline.sweep_task.replay", broken)
    row = _row_of(tmp_path, Simulation(Setting(size=Size.SMALL), 7))
    assert row["state"] == "failed"
    assert "planted" in row["violations"][0]["explanation"]
    assert row["replay"] == "isotone sim replay 7 --size small"


def test_topology_and_parameters_are_axes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'seeds = 3\nsize = ["small"]\nsites = [1, "2..3"]\nsends = [20, 40]\nfault_count = [2]\nlimit_s = 77\n'
    found = list(simulations(read_spec(_spec(tmp_path, text))))
    assert [each.key.partition(" sites")[2] for each in found] == [
        "=1 sends=20 fault_count=2",
        "=1 sends=40 fault_count=2",
        "=2..3 sends=20 fault_count=2",
        "=2..3 sends=40 fault_count=2",
    ]
    rows = [_row_of(tmp_path, each) for each in (found[0], found[1])]
    assert [row["state"] for row in rows] == ["passed", "passed"]
    assert 20 <= rows[0]["sends"] < 40 <= rows[1]["sends"] < 200

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("isotone.pipeline.sweep_task.replay", broken)
    row = _row_of(tmp_path, found[0])
    program = shlex.split(row["replay"])
    assert program[:3] == ["isotone", "sim", "replay"]
    plan = read_plan(Path(program[3]))  # no option says how many sites there are: the file does
    assert {node.site for node in plan.topology.nodes} == {"s1"}


def test_a_simulation_that_never_ends_is_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object, **__: object) -> None:
        while True:
            pass

    monkeypatch.setattr("isotone.pipeline.sweep_task.replay", hangs)
    row = _row_of(tmp_path, Simulation(Setting(size=Size.SMALL), 7, limit_s=1))
    assert row["state"] == "failed"
    assert "more than 1 s of a processor" in row["violations"][0]["explanation"]


def test_a_failure_of_another_version_or_of_less_time_is_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    wanted = [Simulation(Setting(size=Size.SMALL, faults="none"), seed, limit_s=300) for seed in (1, 2, 3, 4)]
    (tmp_path / TRACES).mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("isotone.pipeline.sweep_task.replay", broken)
        rows = [_row_of(tmp_path / TRACES, each) for each in wanted]
    rows[0] |= {"limit_s": 1}
    rows[1] |= {"version": "0.0.1"}
    rows[2] |= {"version": "0.0.1", "state": "passed", "violations": []}
    maps = ({name: dict(row[name]) for name in ("verdicts", "bounds")} for row in rows)
    told = [tuple((row | each)[name] for name in row) for row, each in zip(rows, maps, strict=True)]
    write_runs(tmp_path / TABLE, spark.createDataFrame(told, RESULT))
    kept = [Path(row["trace"]) for row in rows]
    assert all(path.is_file() for path in kept)
    done = sweep(spark, [*wanted, wanted[0]], tmp_path)
    assert (done.run, done.known, [each.key for each in done.failures]) == (2, 4, [wanted[3].key])
    assert [path.is_file() for path in kept] == [False, False, True, True]
    assert sweep(spark, [*wanted, *wanted], tmp_path)[:3] == (0, 4, done.events)
    lower = [Simulation(each.setting, each.seed, limit_s=200) for each in wanted]
    assert sweep(spark, lower, tmp_path).run == 0


def _run(source: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=source.parent, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip


@contextmanager
def _workers_with(spark: SparkSession, source: Path) -> Iterator[None]:
    """Meanwhile Spark's Python workers, which differ by their environment, have this source."""
    environment = spark.sparkContext.environment
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(environment, "PYTHONPATH", str(source))
        yield


def test_a_planted_fault_is_found_by_a_sweep_and_shown_again_by_its_command(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And nothing is run twice: a sweep goes on where one of fewer simulations ended."""
    source = copy_source(tmp_path, read_planted(PLANTED).diff)
    wanted = list(simulations(read_spec(_spec(tmp_path, SPEC))))
    with _workers_with(spark, source):
        told = [sweep(spark, each, tmp_path / "out") for each in (wanted[:8], wanted, wanted)]
    assert [(each.run, each.known) for each in told] == [(8, 8), (12, 20), (0, 20)]
    assert 0 < told[0].events < told[1].events == told[2].events
    assert told[1].failures == told[2].failures
    [failure] = told[2].failures
    assert set(failure.properties) & set(read_planted(PLANTED).raises)
    [(run, rows)] = [(run, list(rows)) for run, rows in read_runs([Path(failure.trace)])]
    assert run == failure.key
    assert rows
    program, *arguments = shlex.split(failure.replay)
    assert program == "isotone"
    again = _run(source, "-m", "isotone.cli", *arguments)
    assert again.returncode == 1
    assert failure.properties[0] in again.stdout


def test_a_sweep_takes_all_cores_and_a_small_session_few() -> None:
    assert settings(is_small=True)["spark.default.parallelism"] == "2"
    assert settings(is_wide=True) == {
        key: value for key, value in settings(is_small=True).items() if key != "spark.default.parallelism"
    }
