"""Extended virtual synchrony under test: clients at every node, and beneath them the oracle or our own stack.

Stack "oracle" is the executable specification: one automaton behind boundary B4 for all nodes. It bears partitions,
cuts, crashes, pauses and kills. It knows components only, so a one-way or non-transitive cut reaches it by the world's
rule: nodes are together when links that are open in both directions connect them, perhaps over others.

Implements: [Spread 2], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from isotone.core.choice import Choice
from isotone.core.contract import Automaton
from isotone.core.ids import DaemonId
from isotone.sim.evs_clients import Clients
from isotone.sim.evs_nodes import CLIENTS, EvsNodes
from isotone.sim.faults import Fault
from isotone.sim.full_system import FULL, FULL_FAMILIES, FullRun, full_live_within_us
from isotone.sim.full_workload import MORE
from isotone.sim.limits import Limits
from isotone.sim.observer import Observer
from isotone.sim.plan import Plan, Scale, Step, Topology, draw_topology, scattered
from isotone.sim.process import Boot
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.transport_system import (
    FAMILIES,
    LIVE_WITHIN_US,
    TRANSPORT,
    TalkStep,
    TransportRun,
    draw_sites,
    draw_talk,
    transport_labels,
)
from isotone.sim.workload import ClientStep, draw_workload
from isotone.sim.world import World
from isotone.spec.bounds import ORACLE_SETTLES
from isotone.spec.oracle import (
    ConnectivityChanged,
    DaemonCrashed,
    DaemonPaused,
    DaemonResumed,
    DaemonStarted,
    Oracle,
    OracleSettings,
    Stabilised,
)
from isotone.spec.properties import PROPERTIES, Boundary, Form

ORACLE = "oracle"
SCATTERED_SHARE = 0.25
"""Of the seeds of the full stack: there each daemon is a site of its own."""


class EvsSystem:
    """The system ``evs``."""

    name = "evs"
    stacks: tuple[str, ...] = (ORACLE, TRANSPORT, FULL)
    step_type: Any = ClientStep | TalkStep

    def __init__(self) -> None:
        self._limits: Limits | None = None  # of the run that is under way

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """Draw who is there."""
        if stack == TRANSPORT:
            return draw_sites(choice, nodes)
        topology = draw_topology(choice, scale, nodes)
        is_scattered = stack == FULL and choice.derive("scattered").chance(SCATTERED_SHARE)
        return scattered(topology) if is_scattered else topology

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Draw what the clients, or the daemons themselves, do."""
        if stack == TRANSPORT:
            return draw_talk(choice, topology, scale)
        return draw_workload(choice, topology, faults, scale, MORE if stack == FULL else ())

    def faults(self, stack: str) -> tuple[str, ...]:
        """The oracle has no packets to lose: what it bears is what changes components, processes and sessions."""
        assert stack in self.stacks
        if stack == TRANSPORT:
            return FAMILIES
        if stack == FULL:
            return FULL_FAMILIES
        return ("partition", "cut", "crash", "pause", "kill")

    def properties(self, stack: str) -> tuple[str, ...]:
        """On the oracle: what clients see, and the run itself; on the transport: what daemons see."""
        assert stack in self.stacks
        if stack == TRANSPORT:
            return transport_labels()
        if stack == FULL:
            return full_labels()
        return (*client_labels(), RUN_ASSERT, RUN_LIVE)

    def limits(self, plan: Plan) -> AbstractContextManager[None]:
        """On some seeds of our own daemons, constants are small; `FullRun` has the same for settings."""
        self._limits = Limits(plan.seed) if plan.stack == FULL else None
        return self._limits.constants() if self._limits is not None else nullcontext()

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the nodes with their clients into the world, above the oracle; or daemons that talk themselves."""
        if plan.stack == FULL:
            return FullRun(world, plan, self._limits)
        return TransportRun(world, plan) if plan.stack == TRANSPORT else OracleRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """The oracle's own bound for settling, which its settings give; the transport's, which its links give."""
        if plan.stack == TRANSPORT:
            return LIVE_WITHIN_US
        if plan.stack == FULL:
            return full_live_within_us(plan)
        return ORACLE_SETTLES.function(OracleSettings())


def client_labels() -> tuple[str, ...]:
    """Every property that has a checker at EVS-C."""
    checked = [each for each in PROPERTIES if each.form is not Form.DEFINITION]
    return tuple(each.label(Boundary.CLIENTS) for each in checked if Boundary.CLIENTS in each.boundaries)


def full_labels() -> tuple[str, ...]:
    """Every property of clients, daemons and network, and the run itself."""
    checked = [each for each in PROPERTIES if each.form is not Form.DEFINITION]
    return (*(each.label(boundary) for each in checked for boundary in each.boundaries), RUN_ASSERT, RUN_LIVE)


class ToldOracle(Observer):
    """Tells the oracle what becomes of daemons and links."""

    def __init__(self, world: World) -> None:
        self._world = world

    def on_start(self, daemon: DaemonId) -> None:
        """A daemon is there."""
        self._world.tell_service(DaemonStarted(self._world.now, daemon))

    def on_crash(self, daemon: DaemonId) -> None:
        """A daemon is gone."""
        self._world.tell_service(DaemonCrashed(self._world.now, daemon))

    def on_pause(self, daemon: DaemonId) -> None:
        """A daemon stands still."""
        self._world.tell_service(DaemonPaused(self._world.now, daemon))

    def on_resume(self, daemon: DaemonId) -> None:
        """A daemon goes on."""
        self._world.tell_service(DaemonResumed(self._world.now, daemon))

    def on_connectivity(self, components: tuple[tuple[str, ...], ...]) -> None:
        """These are together now."""
        self._world.tell_service(ConnectivityChanged(self._world.now, components))


class OracleRun(EvsNodes):
    """The nodes of a plan above the oracle."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        self._oracle = Oracle(Choice(f"oracle/{plan.seed}"), OracleSettings())
        world.add_service(self._oracle)
        world.observers.append(ToldOracle(world))
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        return {CLIENTS: Clients(boot.daemon)}

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """From here on the oracle owes progress."""
        components = super().stabilise()
        self._world.tell_service(Stabilised(self._world.now))
        return components

    def choices(self) -> Mapping[str, int]:
        """The free choices that the oracle took."""
        return self._oracle.taken
