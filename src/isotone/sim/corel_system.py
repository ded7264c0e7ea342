"""COReL under test: a server at every node, above the oracle or our own daemons.

Quorum rules, failing disks and ambushes are drawn by the seed.

Implements: [COReL 5], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.corel.settings import RECONNECT_US, SETTLE_US
from isotone.sim.corel_full import CorelFullRun
from isotone.sim.corel_node import AppendStep, CorelNode
from isotone.sim.corel_servers import GROUP, LABEL, Servers
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.evs_system import ORACLE, ToldOracle
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.full_system import FULL, FULL_FAMILIES, full_live_within_us
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.process import Boot
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.world import World
from isotone.spec.bounds import ORACLE_SETTLES
from isotone.spec.corel_bounds import COREL_ORDERS, CorelTimes
from isotone.spec.corel_properties import corel_labels
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised

PARCEL_ROUNDS = 8  # a plan appends less than a megabyte
SYNC_US = 22_000  # the longest that an unharmed disk takes
FULL_ROUND_US = 80_000  # there and back over the longest links, with what daemons add
SERVERS = (3, 9)


class CorelSystem:
    """The system ``corel``."""

    name = "corel"
    stacks: tuple[str, ...] = (ORACLE, FULL)
    step_type: Any = AppendStep

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
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes components, processes, sessions and disks."""
        if stack == FULL:
            return FULL_FAMILIES
        return ("partition", "cut", "crash", "pause", "kill", "disk", "cascade")

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of COReL, and of the run itself."""
        return (*corel_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the servers into the world, above the oracle or above our own daemons."""
        return CorelFullRun(world, plan) if plan.stack == FULL else CorelRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """That of COReL, over the bound of the group service beneath it."""
        oracle = OracleSettings()
        full = plan.stack == FULL
        times = CorelTimes(
            view_us=full_live_within_us(plan) if full else ORACLE_SETTLES.function(oracle),
            round_us=FULL_ROUND_US if full else 2 * oracle.step_us_max,
            sync_us=SYNC_US,
            reconnect_us=RECONNECT_US,
            settle_us=SETTLE_US,
            parcel_rounds=PARCEL_ROUNDS,
        )
        return COREL_ORDERS.function(times)


def _append(choice: Choice, at: int, node: str) -> AppendStep:
    count = choice.weighted(((1, 6.0), (3, 2.0), (20, 0.5)))
    lengths = tuple(choice.weighted(((16, 8.0), (200, 2.0), (20_000, 0.1))) for _ in range(count))
    return AppendStep(at=at, node=node, lengths=lengths)


class CorelRun(EvsNodes):
    """The servers of a plan above the oracle."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        self._oracle = Oracle(Choice(f"oracle/{plan.seed}"), OracleSettings())
        self._servers = Servers(world, self, plan)
        world.add_service(self._oracle)
        world.observers += [ToldOracle(world), self._servers]
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)
            self._servers.slow_disk(node.name, None)

    def _program(self, boot: Boot) -> dict[str, CorelNode]:
        return {LABEL: self._servers.node(boot)}

    def crash(self, node: str) -> None:
        """End a process; it stays down until the plan says otherwise."""
        self._servers.crashing = True
        super().crash(node)
        self._servers.crashing = False

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual."""
        self._servers.slow_disk(node, sync_us)

    def kill_client(self, node: str, client: str) -> None:
        """Break the session off."""
        self._servers.kill_session(node)

    def play(self, step: Step) -> None:
        """Let the application append."""
        self._servers.play(step)

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """Disks are good again, everybody is there, and the oracle owes progress."""
        self._servers.mend_disks()
        components = super().stabilise()
        self._world.tell_service(Stabilised(self._world.now))
        return components

    def live(self) -> list[str]:
        """All that the servers owe."""
        return self._servers.missing()

    def choices(self) -> Mapping[str, int]:
        """The free choices that the oracle took."""
        return self._oracle.taken
