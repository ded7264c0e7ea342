"""A failing plan made short: delta debugging over its faults, then over its steps, then over its nodes.

A part is left out for good when the run without it still violates the same property. A repair is left out like any
other fault, since the liveness phase heals everything anyway. The number of runs is bounded; what has been reached by
then is the answer.

Implements: [DESIGN 4], "a failing seed is shrunk to a short fault schedule".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from isotone.sim.faults import Fault, Partition
from isotone.sim.plan import Plan, Topology
from isotone.sim.run import RunResult, run_plan
from isotone.sim.system import System

RUNS_MAX = 200

Part = TypeVar("Part")
Progress = Callable[["ShrinkState"], None]


@dataclass
class ShrinkState:
    """How far the shrinking came: ``plan`` is the shortest that still fails."""

    plan: Plan
    label: str
    runs: int = 0
    runs_max: int = RUNS_MAX

    @property
    def exhausted(self) -> bool:
        """Whether no further run is allowed."""
        return self.runs >= self.runs_max


def shrink(
    system: System,
    plan: Plan,
    label: str,
    *,
    runs_max: int = RUNS_MAX,
    progress: Progress | None = None,
    run: Callable[[System, Plan], RunResult] = run_plan,
) -> Plan:
    """The shortest plan found that still violates ``label``; at most ``runs_max`` runs are spent."""
    state = ShrinkState(msgspec.structs.replace(plan, violates=label), label, runs_max=runs_max)

    def fails(candidate: Plan) -> bool:
        state.runs += 1
        failed = run(system, candidate).violates(label)
        if failed:
            state.plan = candidate
        if progress:
            progress(state)
        return failed

    _reduce(state, state.plan.faults, lambda kept: fails(msgspec.structs.replace(state.plan, faults=tuple(kept))))
    _reduce(state, state.plan.steps, lambda kept: fails(msgspec.structs.replace(state.plan, steps=tuple(kept))))
    _drop_nodes(state, fails)
    return state.plan


def _reduce(state: ShrinkState, parts: Sequence[Part], still_fails: Callable[[Sequence[Part]], bool]) -> None:
    """Leave out ever smaller chunks: [Zeller, Hildebrandt 2002], complements only."""
    kept = list(parts)
    if kept and not state.exhausted and still_fails([]):
        return
    chunk = max(1, len(kept) // 2)
    while kept and not state.exhausted:
        shorter = _without_chunks(state, kept, chunk, still_fails)
        if chunk == 1 and len(shorter) == len(kept):
            return
        # What could be left out may let more go: the same grain again, unless nothing went.
        chunk = chunk if len(shorter) < len(kept) and chunk > 1 else max(1, chunk // 2)
        kept = shorter


def _without_chunks(
    state: ShrinkState, kept: list[Part], chunk: int, still_fails: Callable[[Sequence[Part]], bool]
) -> list[Part]:
    place = 0
    while place < len(kept) and not state.exhausted:
        shorter = kept[:place] + kept[place + chunk :]
        if shorter and still_fails(shorter):
            kept = shorter
        else:
            place += chunk
    return kept


def _drop_nodes(state: ShrinkState, fails: Callable[[Plan], bool]) -> None:
    """Leave out nodes, with all that names them; one at least stays."""
    for name in reversed(state.plan.topology.names):
        if state.exhausted or len(state.plan.topology.nodes) == 1:
            return
        fails(without_node(state.plan, name))


def without_node(plan: Plan, name: str) -> Plan:
    """The plan as if the node had never been there."""
    topology = Topology(tuple(node for node in plan.topology.nodes if node.name != name), plan.topology.groups)
    faults: list[Fault] = []
    for fault in plan.faults:
        if isinstance(fault, Partition):
            sides = tuple(tuple(node for node in side if node != name) for side in fault.sides)
            faults.append(Partition(at=fault.at, sides=tuple(side for side in sides if side)))
        elif name not in [getattr(fault, field, None) for field in ("node", "source", "target")]:
            faults.append(fault)
    steps = tuple(step for step in plan.steps if step.node != name)
    return msgspec.structs.replace(plan, topology=topology, faults=tuple(faults), steps=steps)
