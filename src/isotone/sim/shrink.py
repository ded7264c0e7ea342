"""A failing plan made short: delta debugging over its faults and steps, big chunks of either first, then its nodes.

The first run is the plan itself: without the violation there is nothing to shrink. A part is left out for good when the
run without it still violates the same property. A repair is left out like any other fault, since the liveness phase
heals everything anyway. The number of runs is bounded; what has been reached by then is the answer.

Implements: [DESIGN 4], "a failing seed is shrunk to a short fault schedule".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from isotone.sim.faults import Fault, Partition
from isotone.sim.plan import Plan, Topology
from isotone.sim.run import RunResult, run_plan
from isotone.sim.system import System

RUNS_MAX = 200

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

    if fails(state.plan):
        _reduce(state, fails)
        _drop_nodes(state, fails)
    return state.plan


@dataclass
class _List:
    """One of the lists of a plan while it is reduced; ``chunk`` is 0 when nothing more can go."""

    name: str
    chunk: int


def _reduce(state: ShrinkState, fails: Callable[[Plan], bool]) -> None:
    """Leave out ever smaller chunks: [Zeller, Hildebrandt 2002], complements only.

    The list whose turn it is has the biggest chunk, so that few runs get far, also where one list is short already.
    """
    lists = [_List(name, len(getattr(state.plan, name))) for name in ("faults", "steps")]
    while not state.exhausted and any(each.chunk for each in lists):
        chosen = max(lists, key=lambda each: each.chunk)
        before = len(getattr(state.plan, chosen.name))
        _leave_out_chunks(state, chosen, fails)
        left = len(getattr(state.plan, chosen.name))
        if left == before and chosen.chunk == 1:
            chosen.chunk = 0
        elif left == before or chosen.chunk > left:
            chosen.chunk = min(left, max(1, chosen.chunk // 2))
        # else: what could be left out may let more go, so the same grain again


def _leave_out_chunks(state: ShrinkState, chosen: _List, fails: Callable[[Plan], bool]) -> None:
    place = 0
    while place < len(parts := getattr(state.plan, chosen.name)) and not state.exhausted:
        shorter = parts[:place] + parts[place + chosen.chunk :]
        if not fails(msgspec.structs.replace(state.plan, **{chosen.name: shorter})):
            place += chosen.chunk


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
