"""One simulation of a sweep, in a task: played, judged, told as a row; its trace written if it failed.

Runs on workers; the directory for traces must be theirs too.

Implements: [DESIGN 5], sweep. Deviations: none.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from isotone import __version__
from isotone.core.errors import InputError, MachineError
from isotone.pipeline.sweep_spec import Simulation, scale_of
from isotone.sim.plan import Plan, Size
from isotone.sim.registry import system_named
from isotone.sim.replay import replay, write_plan
from isotone.sim.run import RunResult, Violation
from isotone.sim.swarm import replay_command
from isotone.sim.system import RUN_ASSERT, Setting, draw_plan
from isotone.trace.events import Row
from isotone.trace.layout import PARQUET_SUFFIX
from isotone.trace.parquet import require_pyarrow, write_parquet

JOB = (
    "key string, seed bigint, system string, stack string, size string, faults string, nodes string, shape string, "
    "limit_s int"
)
_MEASURES = ("sends", "messages", "faults_injected", "view_changes", "events", "rows")
_VIOLATION = "array<struct<property: string, explanation: string>>"
RESULT = (
    f"run string, {JOB}, state string, violations {_VIOLATION}, "
    f"{', '.join(f'{name} bigint' for name in _MEASURES)}, cpu_seconds double, "
    "verdicts map<string, string>, bounds map<string, double>, replay string, trace string, version string"
)
FAILED, PASSED = "failed", "passed"


def job_of(simulation: Simulation) -> tuple[Any, ...]:
    """A simulation as a row of the form `JOB`."""
    setting = simulation.setting
    return (
        simulation.key, simulation.seed, setting.system, setting.stack, setting.size.value, setting.faults,
        setting.nodes, " ".join(simulation.shape), simulation.limit_s,
    )  # fmt: skip


def play_batches(traces: str, run: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of jobs to batches of results; ``run`` names the batch that they are committed with."""
    arrow = require_pyarrow()
    for batch in batches:
        for job in batch.to_pylist():
            row = {"run": run, **job, **_played(Path(traces), job)}
            columns = {name: arrow.array([row[name]], type=kind) for name, kind in _types().items()}
            yield arrow.RecordBatch.from_pydict(columns)


def _types() -> dict[str, Any]:
    arrow = require_pyarrow()
    text, number, real = arrow.string(), arrow.int64(), arrow.float64()
    violation = arrow.struct([("property", text), ("explanation", text)])
    told = {"run": text, "key": text, "seed": number}
    told |= dict.fromkeys(("system", "stack", "size", "faults", "nodes", "shape"), text)
    told |= {"limit_s": arrow.int32(), "state": text}
    told |= {"violations": arrow.list_(violation), **dict.fromkeys(_MEASURES, number), "cpu_seconds": real}
    return told | {
        "verdicts": arrow.map_(text, text), "bounds": arrow.map_(text, real), "replay": text, "trace": text,
        "version": text,
    }  # fmt: skip


def _played(traces: Path, job: dict[str, Any]) -> dict[str, Any]:
    setting = Setting(job["system"], job["stack"], Size(job["size"]), job["faults"], job["nodes"])
    shape = tuple(job["shape"].split())
    rows: list[Row] = []
    plan: Plan | None = None
    try:
        with _limited(job["limit_s"]):
            plan = draw_plan(system_named(setting.system), setting, job["seed"], scale_of(setting, shape))
            result = replay(plan, sink=rows.append)
    except OverTimeError:
        result = _broken(job["seed"], f"it took more than {job['limit_s']} s of a processor")
    except Exception:
        # The simulator itself broke: a result like any other, or one bad seed would end the sweep.
        result = _broken(job["seed"], traceback.format_exc(limit=-4))
    if not result.violations:
        _drop(traces, job["key"])
    trace, problem = _kept(traces, job["key"], rows) if result.violations else ("", "")
    command = replay_command(setting, job["seed"])
    if result.violations and shape and plan is not None:  # what no option says, a file does
        command, more = _planned(traces, job["key"], plan)
        problem += more
    replayed = command if result.violations else ""
    return {
        "state": FAILED if result.violations else PASSED,
        "violations": [_told(each, problem) for each in result.violations],
        "sends": result.sends,
        "messages": result.messages,
        "faults_injected": result.faults,
        "view_changes": result.view_changes,
        "events": result.events,
        "rows": result.rows,
        "cpu_seconds": result.cpu_seconds,
        "verdicts": list(result.verdicts.items()),
        "bounds": list(result.bounds.items()),
        "replay": replayed,
        "trace": trace,
        "version": __version__,
    }


def _told(violation: Violation, problem: str) -> dict[str, str]:
    return {"property": violation.property, "explanation": violation.explanation + problem}


def _broken(seed: int, told: str) -> RunResult:
    nothing: dict[str, Any] = {"sends": 0, "messages": 0, "faults": 0, "view_changes": 0, "events": 0, "rows": 0}
    violation = Violation(RUN_ASSERT, f"the simulation broke:\n{told}")
    return RunResult(seed=seed, verdicts={}, violations=(violation,), cpu_seconds=0.0, bounds={}, choices={}, **nothing)


class OverTimeError(BaseException):
    """Not an `Exception`: nothing within the simulation may take it for one of its own."""


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Break off what takes more time of a processor; how busy the machine is does not matter."""
    if threading.current_thread() is not threading.main_thread():  # signals are heard nowhere else
        yield
        return
    before = signal.signal(signal.SIGPROF, _break_off)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _break_off(*_: object) -> None:
    raise OverTimeError


def _place(traces: Path, key: str, suffix: str) -> Path:
    return traces / f"{quote(key, safe='')}{suffix}"


def _drop(traces: Path, key: str) -> None:
    """What a sweep kept that was killed before it told of it, and that another version does not confirm."""
    for suffix in (PARQUET_SUFFIX, ".json"):
        with suppress(OSError):
            _place(traces, key, suffix).unlink()


def _planned(traces: Path, key: str, plan: Plan) -> tuple[str, str]:
    path = _place(traces, key, ".json")
    try:
        write_plan(path, plan)
    except MachineError as error:
        return "", f"\n(its plan could not be kept: {error})"
    return shlex.join(["isotone", "sim", "replay", str(path)]), ""


def _kept(traces: Path, key: str, rows: list[Row]) -> tuple[str, str]:
    """The trace of a failure; that it could not be written is no reason to lose the result."""
    path = _place(traces, key, PARQUET_SUFFIX)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_parquet(aside, key, rows)
        os.replace(aside, path)
    except (InputError, OSError, ValueError) as error:
        return "", f"\n(its trace could not be kept: {error})"
    return str(path), ""
