"""One run again: from its seed, or from the file of a plan; and the file of a shrunk plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from isotone.core.errors import InputError, MachineError
from isotone.sim.plan import Plan, encode_plan, parse_seed
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, run_plan
from isotone.sim.system import Setting, draw_plan
from isotone.sim.transport_system import TRANSPORT, TalkStep
from isotone.trace.events import Row

PLAN_BYTES_MAX = 256 * 1024 * 1024


def plan_of(target: str, setting: Setting) -> Plan:
    """The plan that a seed (digits) or a file (anything else) stands for."""
    if is_seed(target):
        return draw_plan(system_named(setting.system), setting, parse_seed(target))
    return read_plan(Path(target))


def is_seed(target: str) -> bool:
    """Whether what the user names is a seed and not a file."""
    return target.isascii() and target.isdigit()


def read_plan(path: Path) -> Plan:
    """Read the file of a plan."""
    try:
        if path.stat().st_size > PLAN_BYTES_MAX:
            raise InputError(f"{path} is too big for a plan")
        plan = plan_from(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    _check_steps(plan)
    return plan


def _check_steps(plan: Plan) -> None:
    """The stacks of one system share a union of steps, and none can play the steps of another."""
    for step in plan.steps:
        if isinstance(step, TalkStep) != (plan.stack == TRANSPORT):
            kind = step.__struct_config__.tag
            raise InputError(f"not a plan: the stack {plan.stack} has no step {kind!r}")


def write_plan(path: Path, plan: Plan) -> None:
    """Write the file of a plan, and the directories above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_plan(plan))
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from error


def replay(plan: Plan, *, sink: Callable[[Row], object] | None = None) -> RunResult:
    """Play the plan; ``sink`` gets every row of the trace."""
    return run_plan(system_named(plan.system), plan, sink=sink)
