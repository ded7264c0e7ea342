"""The ISIS toolkit under test, on ISIS kernels: resilient objects, locks, data, boards, programs, at 3 to 7 sites.

Implements: [ISIS 3.7], [ISIS 5], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.isis.settings import TICK_US
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.toolkit.node import (
    ROAMING,
    WORK,
    ActStep,
    BindStep,
    CopiesStep,
    EventStep,
    LeaveStep,
    LockStep,
    MigrateStep,
    PostStep,
    ToolStep,
)
from isotone.sim.toolkit.run import EVS, ToolkitRun
from isotone.sim.world import World
from isotone.spec.bounds import ORACLE_SETTLES
from isotone.spec.isis_bounds import ISIS_SETTLES, IsisTimes
from isotone.spec.oracle import OracleSettings
from isotone.spec.toolkit_properties import toolkit_labels

ISIS = "isis"
SITES = (3, 5)
ITEMS = ("x", "y", "z")


class ToolkitSystem:
    """The system ``toolkit``."""

    name = "toolkit"
    stacks: tuple[str, ...] = (ISIS, EVS)
    step_type: Any = ToolStep

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """3 to 5 sites, or more; two at least work, all call."""
        count = nodes or choice.between(SITES[0], min(SITES[1], scale.nodes[1]))
        working = choice.between(min(2, count), count)
        planned = tuple(
            NodePlan(f"d{place + 1}", f"s{place % 2 + 1}", (WORK,) if place < working else ()) for place in range(count)
        )
        return Topology(planned, (WORK, ROAMING))

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Use of all tools everywhere, many close to a fault, and some after the heal."""
        end = scale.faults_end_us
        marks = [fault.at for fault in faults] or [end // 2]
        steps: list[Step] = [CopiesStep(at=0, node=name, copies=2) for name in topology.names[:1]]
        for _ in range(min(scale.sends_min // 3, 120)):
            at = choice.between(end // 50, end)
            if choice.chance(0.4):
                at = max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 250 * MILLISECOND))
            node = choice.pick(topology.names)
            steps += [_step(choice, at + place, node) for place in range(choice.weighted(((1, 5.0), (4, 1.0))))]
        rare = choice.derive("exits")
        if rare.chance(0.3):
            steps += [_rare_step(rare, rare.between(end // 20, end), rare.pick(topology.names)) for _ in range(12)]
        for name in topology.names:
            at = end + choice.between(900, 1_600) * MILLISECOND
            steps += [_step(choice, at, name), CopiesStep(at=at, node=name, copies=2)]
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes components and processes, and disks."""
        families = ("partition", "cut", "crash", "pause", "disk", "cascade")
        return (*families, "kill") if stack == EVS else families

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of the toolkit, and of the run itself."""
        return (*toolkit_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the processes into the world."""
        return ToolkitRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """That of ISIS; and as long again for what the tools do behind it."""
        oracle = OracleSettings()
        return 2 * ISIS_SETTLES.function(
            IsisTimes(
                view_us=ORACLE_SETTLES.function(oracle),
                round_us=2 * oracle.step_us_max,
                tick_us=TICK_US,
                suspect_us=500_000,
                collect_us=300_000,
                sites=len(plan.topology.nodes),
                collections=4 + len(plan.topology.nodes),
            )
        )


def _rare_step(choice: Choice, at: int, node: str) -> Step:
    """What an application does now and then."""
    match choice.pick(("fill", "impatient", "leave", "bind")):
        case "fill":
            return ActStep(at=at, node=node, group=choice.pick((WORK, ROAMING)), method="fill")
        case "impatient":
            items = tuple(sorted(choice.sample(ITEMS, choice.between(1, 3))))
            patience = choice.pick((1, 300, 2_000, 30_000))
            writes = choice.chance(0.7)
            return LockStep(at=at, node=node, items=items, writes=writes, hold_us=50_000, patience_us=patience)
        case "leave":
            return LeaveStep(at=at, node=node, back_us=choice.pick((1, 5, 100, 400)) * MILLISECOND)
        case _:
            return BindStep(at=at, node=node, name=choice.pick(ITEMS), target=choice.pick((WORK, ROAMING, "")))


def _step(choice: Choice, at: int, node: str) -> Step:
    match choice.weighted(
        (("act", 8.0), ("lock", 3.0), ("post", 3.0), ("event", 1.0), ("migrate", 0.5), ("copies", 0.3))
    ):
        case "act":
            group = choice.weighted(((WORK, 3.0), (ROAMING, 1.0)))
            methods = (("add", 6.0), ("total", 2.0), ("refuse", 0.5), ("add_there", 1.0 if group == WORK else 0.0))
            return ActStep(at=at, node=node, group=group, method=choice.weighted(methods))
        case "lock":
            items = tuple(sorted(choice.sample(ITEMS, choice.between(1, 2))))
            hold = choice.pick((0, 5, 50)) * MILLISECOND + 1
            return LockStep(at=at, node=node, items=items, writes=choice.chance(0.5), hold_us=hold)
        case "post":
            level = choice.pick(("unordered", "causal", "total"))
            length = choice.weighted(((8, 9.0), (9_000, 1.0)))
            return PostStep(at=at, node=node, level=level, removes=choice.chance(0.3), length=length)
        case "event":
            return EventStep(at=at, node=node, checkpoint=choice.chance(0.5))
        case "migrate":
            return MigrateStep(at=at, node=node)
        case _:
            return CopiesStep(at=at, node=node, copies=choice.between(1, 3))
