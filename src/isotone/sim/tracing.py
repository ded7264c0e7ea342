"""Whole traces of many seeds, one Parquet file each: what conformance on Spark, sweeps and reports read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from isotone.core.errors import MachineError
from isotone.sim.run import RunResult
from isotone.sim.swarm import Progress, replay_seed, run_each
from isotone.sim.system import Setting
from isotone.trace.events import Row
from isotone.trace.layout import PARQUET_SUFFIX
from isotone.trace.parquet import require_pyarrow, write_parquet


def trace_seeds(
    setting: Setting, seeds: Sequence[int], directory: Path, *, workers: int, progress: Progress | None = None
) -> list[RunResult]:
    """Run every seed and write its trace into the directory, which is made if need be."""
    require_pyarrow()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make {directory}: {error.strerror}") from error
    return run_each(partial(_trace_seed, directory), setting, seeds, workers=workers, progress=progress)


def trace_path(directory: Path, setting: Setting, seed: int) -> Path:
    """Where the trace of a seed lies."""
    return directory / f"{run_name(setting, seed)}{PARQUET_SUFFIX}"


def run_name(setting: Setting, seed: int) -> str:
    """By which a run is known in tables of many."""
    return f"{setting.system}-{setting.stack}-{seed}"


def _trace_seed(directory: Path, setting: Setting, seed: int) -> RunResult:
    rows: list[Row] = []
    result = replay_seed(setting, seed, rows.append)
    path = trace_path(directory, setting, seed)
    try:
        write_parquet(path, run_name(setting, seed), rows)
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error
    return result
