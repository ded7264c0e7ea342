"""COReL under test: a server at every node, above the oracle or our own daemons.

Quorum rules, learners and reconfigurations, order proposals, failing, full and hanging disks and ambushes are drawn by
the seed.

Implements: [COReL 5], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from isotone.core.choice import Choice
from isotone.sim.corel_node import RULE_KINDS, AppendStep, ReconfigureStep, RuleStep
from isotone.sim.corel_run import CorelFullRun, CorelRun
from isotone.sim.corel_terms import GROUP
from isotone.sim.corel_times import corel_times
from isotone.sim.evs_system import ORACLE
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.full_system import FULL, FULL_FAMILIES
from isotone.sim.limits import Limits
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.world import World
from isotone.spec.corel_bounds import COREL_ORDERS
from isotone.spec.corel_properties import corel_labels

SERVERS = (3, 9)


class CorelSystem:
    """The system ``corel``."""

    name = "corel"
    stacks: tuple[str, ...] = (ORACLE, FULL)
    step_type: Any = AppendStep | ReconfigureStep | RuleStep

    def __init__(self) -> None:
        self._limits: Limits | None = None  # of the run that is under way

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """3 to 9 servers; the one client of a node has the node's name."""
        count = nodes or choice.between(SERVERS[0], min(SERVERS[1], scale.nodes[1] + 2))
        names = [f"d{number + 1}" for number in range(count)]
        sites = choice.derive("sites").between(1, 3)
        planned = tuple(NodePlan(name, f"s{place % sites + 1}", (name,)) for place, name in enumerate(names))
        return Topology(planned, (GROUP,))

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Appends at all nodes, many of them close to a fault, and some after the heal."""
        end = scale.faults_end_us
        marks = [fault.at for fault in faults] or [end // 2]
        near = choice.pick((0.2, 0.5))
        steps: list[Step] = []
        for _ in range(scale.sends_min // 5):
            at = choice.between(end // 50, end)
            if choice.chance(near):
                at = max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 60 * MILLISECOND))
            steps.append(_append(choice, at, choice.pick(topology.names)))
        for name in topology.names:
            steps.append(_append(choice, end + choice.between(50 * MILLISECOND, 600 * MILLISECOND), name))
        steps += _reconfigurations(choice.derive("reconfigurations"), topology.names, marks, end, stack)
        steps += _rules(choice.derive("rules"), topology.names, marks, end)
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes components, processes, sessions and disks."""
        if stack == FULL:
            return FULL_FAMILIES
        return ("partition", "cut", "crash", "pause", "kill", "disk", "cascade")

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of COReL, and of the run itself."""
        return (*corel_labels(), RUN_ASSERT, RUN_LIVE)

    def limits(self, plan: Plan) -> AbstractContextManager[None]:
        """On some seeds of our own daemons, constants are small; `CorelFullRun` has the same for settings."""
        self._limits = Limits(plan.seed, corel=True) if plan.stack == FULL else None
        return self._limits.constants() if self._limits is not None else nullcontext()

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the servers into the world, above the oracle or above our own daemons."""
        return CorelFullRun(world, plan, self._limits) if plan.stack == FULL else CorelRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """That of COReL, over the bound of the group service beneath it."""
        return COREL_ORDERS.function(corel_times(plan))


def _reconfigurations(choice: Choice, names: tuple[str, ...], marks: list[int], end: int, stack: str) -> list[Step]:
    """An operator who asks here and there for one server more or less; most of it is refused, for good reasons."""
    steps: list[Step] = []
    if stack == FULL:  # our own daemons come together late: he asks again when they have
        for _ in range(choice.pick((0, 1, 2))):
            at, server = end + choice.between(1_500, 3_500) * MILLISECOND, choice.pick(names)
            steps.append(ReconfigureStep(at=at, node=choice.pick(names), server=server, adds=choice.chance(0.7)))
    for _ in range(choice.pick((0, 8, 16))):
        at = choice.between(end // 20, end + 400 * MILLISECOND)
        if choice.chance(0.4):
            at = max(0, choice.pick(marks) + choice.between(-60 * MILLISECOND, 60 * MILLISECOND))
        adds = choice.chance(0.85)
        votes, monarch = choice.pick((1, 1, 6)), choice.chance(0.3)
        step = ReconfigureStep(
            at=at, node=choice.pick(names), server=choice.pick(names), adds=adds, votes=votes, monarch=monarch
        )
        steps.append(step)
    return steps


def _rules(choice: Choice, names: tuple[str, ...], marks: list[int], end: int) -> list[Step]:
    """In some runs the operator also asks for other rules, often close to a fault."""
    steps: list[Step] = []
    for _ in range(choice.pick((0, 0, 0, 6))):
        at = choice.between(end // 20, end + 400 * MILLISECOND)
        if choice.chance(0.5):
            at = max(0, choice.pick(marks) + choice.between(-60 * MILLISECOND, 60 * MILLISECOND))
        rule, server = choice.pick(RULE_KINDS), choice.pick(names)
        steps.append(RuleStep(at=at, node=choice.pick(names), rule=rule, server=server))
    return steps


def _append(choice: Choice, at: int, node: str) -> AppendStep:
    count = choice.weighted(((1, 6.0), (3, 2.0), (20, 0.5)))
    lengths = tuple(choice.weighted(((16, 8.0), (200, 2.0), (20_000, 0.1))) for _ in range(count))
    return AppendStep(at=at, node=node, lengths=lengths)
