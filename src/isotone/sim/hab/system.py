"""Hierarchical atomic broadcast under test: 2 to 5 data centres of 1 to 5 processes, on consensus or on COReL.

Coordinators crash, are suspected wrongly and come twice; whole centres are lost, wrongly declared, and return; the
primary role is handed over; wide-area links are slow and lose packets.

Implements: [HAB], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.hab.node import BroadcastStep
from isotone.sim.hab.operator import (
    LOOK_US,
    CoordinatorStep,
    DisasterStep,
    FenceStep,
    HandoverStep,
    ReturnStep,
    SuspectStep,
)
from isotone.sim.hab.raid import RaidStep
from isotone.sim.hab.run import HabRun
from isotone.sim.hab.terms import CONSENSUS, COREL, draw_terms
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.world import World
from isotone.spec.hab_bounds import HAB_SETTLES, HabTimes
from isotone.spec.hab_properties import hab_labels

CENTRES, PROCESSES = (2, 5), (1, 5)
LOCAL_US = 5_000_000
"""Until the processes of a centre order again: the bound of their own views and of the local detector."""
RAID_RECORDS_MAX = 48


class HabSystem:
    """The system ``hab``."""

    name = "hab"
    stacks: tuple[str, ...] = (CONSENSUS, COREL)
    step_type: Any = (
        BroadcastStep | DisasterStep | FenceStep | ReturnStep | HandoverStep | SuspectStep | CoordinatorStep | RaidStep
    )

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """Centres ``a``, ``b`` … of processes ``a1``, ``a2`` …; ``nodes`` is the number of all processes."""
        few = scale.nodes[1] <= 4
        count = choice.between(CENTRES[0], 3 if few else CENTRES[1])
        sizes = [choice.between(PROCESSES[0], 3 if few else PROCESSES[1]) for _ in range(count)]
        if nodes is not None:
            count = max(1, min(count, nodes))
            sizes = [nodes // count + (place < nodes % count) for place in range(count)]
        planned = []
        for place, size in enumerate(sizes):
            centre = "abcde"[place]
            planned += [NodePlan(f"{centre}{number + 1}", centre, (f"{centre}{number + 1}",)) for number in range(size)]
        return Topology(tuple(planned), ())

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Broadcasts everywhere, many close to a disaster; disasters and their ends; some broadcasts after the heal."""
        end = scale.faults_end_us
        steps: list[Step] = _events(choice.derive("events"), topology, end)
        marks = [step.at for step in steps] or [end // 2]
        for _ in range(scale.sends_min // 8):
            at = choice.between(end // 50, end)
            if choice.chance(0.4):
                at = max(0, choice.pick(marks) + choice.between(-60 * MILLISECOND, 200 * MILLISECOND))
            steps.append(_broadcast(choice, at, choice.pick(topology.names)))
        steps += _raids(choice.derive("raids"), topology, end)
        for name in topology.names:
            steps.append(_broadcast(choice, end + choice.between(50 * MILLISECOND, 900 * MILLISECOND), name))
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes links and processes; with COReL disks too."""
        return ("partition", "cut", "crash", "pause") + (("disk",) if stack == COREL else ())

    def properties(self, stack: str) -> tuple[str, ...]:
        """The promises, and the run itself; assumptions are broken here on purpose."""
        return (*hab_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the processes into the world."""
        return HabRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """`HAB_SETTLES` for what the seed drew."""
        terms = draw_terms(plan.seed, plan.topology, plan.stack)
        settings, wide = terms.settings, terms.wide
        sent = sum(len(step.lengths) for step in plan.steps if isinstance(step, BroadcastStep))
        times = HabTimes(
            round_us=2 * (wide.latency_us + wide.jitter_us + wide.reorder_us),
            patience_us=settings.answer_us,
            loss=wide.loss,
            operator_us=LOOK_US + terms.declares_after_us,
            local_us=LOCAL_US,
            centres=len(settings.centres),
            records=sent + RAID_RECORDS_MAX,
            at_once=min(settings.window_max, settings.batch_max * settings.stores_under_way_max),
        )
        return HAB_SETTLES.function(times)


def _events(choice: Choice, topology: Topology, end: int) -> list[Step]:
    """Disasters in series, wrong declarations, returns, hand-overs, suspicions of coordinators and their crashes."""
    steps: list[Step] = []
    names = topology.names

    def at() -> int:
        return choice.between(end // 20, end)

    for _ in range(choice.pick((0, 1, 1, 2, 3))):
        when, node = at(), choice.pick(names)
        steps.append(DisasterStep(at=when, node=node, whole=choice.chance(0.6)))
        if choice.chance(0.6):
            steps.append(ReturnStep(at=min(end, when + choice.between(200, 2_500) * MILLISECOND), node=node))
    for _ in range(choice.pick((0, 0, 1, 2))):
        when, node = at(), choice.pick(names)
        steps.append(FenceStep(at=when, node=node, cut=choice.chance(0.5), opposite=choice.chance(0.3)))
        if choice.chance(0.6):
            steps.append(ReturnStep(at=min(end, when + choice.between(200, 2_500) * MILLISECOND), node=node))
    steps += [HandoverStep(at=at(), node=choice.pick(names)) for _ in range(choice.pick((0, 1, 3)))]
    steps += [SuspectStep(at=at(), node=choice.pick(names)) for _ in range(choice.pick((0, 2, 6)))]
    steps += [CoordinatorStep(at=at(), node=choice.pick(names)) for _ in range(choice.pick((0, 1, 3)))]
    return steps


def _raids(choice: Choice, topology: Topology, end: int) -> list[Step]:
    """Each with the return of a centre some time behind it."""
    steps: list[Step] = []
    for _ in range(choice.pick((0, 1, 1, 2))):
        at, node = choice.between(end // 20, end * 3 // 4), choice.pick(topology.names)
        fence, second = choice.chance(0.4), choice.chance(0.4)
        lead, apart = choice.between(5, 150), choice.between(10, 500)
        steps.append(
            RaidStep(
                at=at, node=node, deaf=choice.chance(0.4), fence=fence, second=second, lead_ms=lead, apart_ms=apart
            )
        )
        for name in topology.names:
            if choice.chance(0.3):
                steps.append(ReturnStep(at=at + choice.between(300, 2_500) * MILLISECOND, node=name))
    return [step for step in steps if step.at <= end]


def _broadcast(choice: Choice, at: int, node: str) -> BroadcastStep:
    count = choice.weighted(((1, 6.0), (3, 2.0), (12, 0.4)))
    return BroadcastStep(at=at, node=node, lengths=tuple(choice.pick((16, 16, 200)) for _ in range(count)))
