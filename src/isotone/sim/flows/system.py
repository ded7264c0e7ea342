"""Flows under test: programs of the library on a drawn hierarchy of rings, one to four deep.

Implements: [DESIGN 4], "--system flows". Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.flows.run import AUTHORITIES, FlowsRun, WorkStep
from isotone.sim.plan import NodePlan, Plan, Scale, Size, Step, Topology
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.world import World
from isotone.spec.flows_properties import flow_labels

DEPTH_MAX = 4
LIVE_WITHIN_US = {Size.SMALL: 40_000_000, Size.STANDARD: 60_000_000, Size.LARGE: 120_000_000}


class FlowsSystem:
    """The system ``flows``."""

    name = "flows"
    stacks: tuple[str, ...] = ("rings",)
    step_type: Any = WorkStep

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """A tree of rings; nodes are in rings at any depth."""
        depth = choice.between(1, DEPTH_MAX)
        count = nodes or choice.between(2, scale.nodes[1] * 2 + 1)
        rings = ["r"]
        for level in range(1, depth):
            above = [ring for ring in rings if ring.count(".") == level - 1]
            for ring in above:
                rings += [f"{ring}.{number}" for number in range(1, choice.between(1, 2) + 1)]
        low = [ring for ring in rings if ring.count(".") == depth - 1]
        authorities = [NodePlan(f"auth{number + 1}", AUTHORITIES, ()) for number in range(choice.between(1, 3))]
        members = [
            NodePlan(f"n{number + 1}", choice.pick(rings) if choice.chance(0.2) else choice.pick(low), ())
            for number in range(count)
        ]
        return Topology((*authorities, *members), ())

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Numbers from 1, each at some nodes or at all, close together."""
        members = [node.name for node in topology.nodes if node.site != AUTHORITIES]
        everywhere = choice.chance(0.5)
        steps: list[Step] = []
        for number in range(1, scale.sends_min // 10 + 1):
            begin = choice.below(scale.faults_end_us)
            at_nodes = members if everywhere else choice.sample(members, choice.between(1, len(members)))
            steps += [
                WorkStep(at=begin + choice.below(100 * MILLISECOND), node=node, number=number) for node in at_nodes
            ]
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes who reaches whom, and who is there."""
        return ("partition", "cut", "crash", "pause", "disk", "cascade")

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of flows, and of the run itself."""
        return (*flow_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put authorities and nodes into the world."""
        return FlowsRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """Detection, views and recoveries of all layers, then some hundred rounds of each."""
        return LIVE_WITHIN_US[plan.size]
