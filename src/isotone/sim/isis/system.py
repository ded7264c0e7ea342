"""ISIS under test: a site with processes at every node, above the oracle or our own daemons.

Implements: [ISIS 3], [ISIS 4], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.isis.settings import TICK_US
from isotone.sim.evs_system import ORACLE
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.full_system import FULL, FULL_FAMILIES, full_live_within_us
from isotone.sim.isis.node import CastStep, EndStep, MoveStep
from isotone.sim.isis.run import WIDE, IsisFullRun, IsisRun
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.world import World
from isotone.spec.bounds import ORACLE_SETTLES
from isotone.spec.isis_bounds import ISIS_SETTLES, IsisTimes
from isotone.spec.isis_properties import isis_labels
from isotone.spec.oracle import OracleSettings

SITES = (3, 12)
FULL_ROUND_US = 80_000


class IsisSystem:
    """The system ``isis``."""

    name = "isis"
    stacks: tuple[str, ...] = (ORACLE, FULL, WIDE)
    step_type: Any = CastStep | MoveStep | EndStep
    faults_last_us = 6_000_000  # sites suspect, agree on views and join again in between

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """3 to 12 sites with 1 to 4 processes each, and a few groups."""
        least = 5 if stack == WIDE else SITES[0]
        count = nodes or choice.between(least, max(least, min(SITES[1], scale.nodes[1] + 3)))
        sites = choice.derive("sites").between(1, 3)
        planned = tuple(
            NodePlan(
                f"d{number + 1}",
                f"s{number % sites + 1}",
                tuple(f"p{place + 1}" for place in range(choice.between(1, 4 if count < 6 else 2))),
            )
            for number in range(count)
        )
        return Topology(planned, tuple(f"g{place + 1}" for place in range(choice.between(1, 3))))

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Broadcasts of all kinds at all sites, many of them close to a fault, and some after the heal."""
        end = scale.faults_end_us
        marks = [fault.at for fault in faults] or [end // 2]
        near = choice.pick((0.2, 0.5))
        mood = choice.derive("mood")
        gbcasts, moves = mood.pick((1.0, 1.0, 4.0)), mood.pick((12, 12, 4))
        count = min(scale.sends_min // 4, 150)
        steps: list[Step] = []
        for _ in range(count):
            at = choice.between(end // 50, end)
            if choice.chance(near):
                at = max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 250 * MILLISECOND))
            burst = choice.weighted(((1, 5.0), (4, 1.0)))
            node = choice.pick(topology.nodes)
            process = choice.pick(node.clients)
            steps += [
                _cast(choice, topology, at + place, node.name, process, gbcasts=gbcasts) for place in range(burst)
            ]
        for _ in range(count // moves):
            at = choice.between(end // 20, end)
            if choice.chance(near):
                at = max(0, min(end, choice.pick(marks) + choice.between(-25 * MILLISECOND, 250 * MILLISECOND)))
            node = choice.pick(topology.nodes)
            process, group = choice.pick(node.clients), choice.pick(topology.groups)
            if choice.chance(0.3):
                steps.append(EndStep(at=at, node=node.name, process=process))
            else:
                steps.append(MoveStep(at=at, node=node.name, process=process, group=group, joins=choice.chance(0.6)))
        for node in topology.nodes:
            at = end + choice.between(50 * MILLISECOND, 600 * MILLISECOND)
            steps.append(_cast(choice, topology, at, node.name, choice.pick(node.clients), gbcasts=gbcasts))
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes components, processes, sessions and disks."""
        if stack == FULL:
            return FULL_FAMILIES
        return ("partition", "cut", "crash", "pause", "kill", "disk", "cascade")

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of ISIS, and of the run itself."""
        return (*isis_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the sites into the world, above the oracle or above our own daemons."""
        return IsisFullRun(world, plan) if plan.stack == FULL else IsisRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """That of ISIS, over the bound of the group service beneath it."""
        full, oracle = plan.stack == FULL, OracleSettings()
        return ISIS_SETTLES.function(
            IsisTimes(
                view_us=full_live_within_us(plan) if full else ORACLE_SETTLES.function(oracle),
                round_us=FULL_ROUND_US if full else 2 * oracle.step_us_max,
                tick_us=3 * TICK_US if full else TICK_US,
                suspect_us=1_500_000 if full else 500_000,
                collect_us=300_000,
                sites=len(plan.topology.nodes),
                collections=(4 + len(plan.topology.nodes)) * (3 if plan.stack == WIDE else 1),
            )
        )


def _cast(choice: Choice, topology: Topology, at: int, node: str, process: str, *, gbcasts: float) -> CastStep:
    primitive = choice.weighted((("cbcast", 5.0), ("abcast", 4.0), ("gbcast", gbcasts)))
    return CastStep(
        at=at,
        node=node,
        process=process,
        group=choice.pick(topology.groups),
        primitive=primitive,
        label=choice.pick(("", "x", "y")),
        place=choice.weighted(((0, 6.0), (1, 2.0), (-1, 1.0))),
        uniform=choice.chance(0.4),
        length=choice.weighted(((16, 8.0), (200, 2.0), (20_000, 0.1))),
    )
