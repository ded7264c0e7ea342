"""The servers of a run above the oracle, or above our own daemons from the packets up.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Automaton
from isotone.sim.corel_servers import Servers
from isotone.sim.corel_terms import LABEL
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.evs_system import ToldOracle
from isotone.sim.full_system import FullRun
from isotone.sim.limits import Limits
from isotone.sim.plan import Plan, Step
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.world import World
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised


class ServedNodes(EvsNodes):
    """Faults and steps on nodes with a server each; what is beneath them follows in the order of resolution."""

    _servers: Servers

    def crash(self, node: str) -> None:
        """End a process; it stays down until the plan says otherwise."""
        self._servers.crashing = True
        super().crash(node)
        self._servers.crashing = False

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Start it again, unless it is kept down."""
        if self._servers.may_start(node):
            super().restart(node, elsewhere=elsewhere)

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual."""
        self._servers.slow_disk(node, sync_us)

    def kill_client(self, node: str, client: str) -> None:
        """Break the session off."""
        self._servers.kill_session(node)

    def play(self, step: Step) -> None:
        """Let the application append, or the operator ask for another set of servers."""
        self._servers.play(step)

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """Disks are good again, and everything else is mended: on some seeds for a quorum alone first."""
        self._servers.mend_disks()
        self._servers.alone.play(self._calm_beneath)
        return super().stabilise()

    def _calm_beneath(self) -> None:
        """The group service owes progress to those who are together."""
        raise NotImplementedError


class CorelRun(ServedNodes):
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

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        return {LABEL: self._servers.node(boot)}

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended, and the oracle owes progress."""
        components = super().stabilise()
        self._calm_beneath()
        return components

    def _calm_beneath(self) -> None:
        self._world.tell_service(Stabilised(self._world.now))

    def live(self) -> list[str]:
        """All that the servers owe, and what a quorum alone owed."""
        return [*self._servers.missing(), *self._servers.alone.missing]

    def choices(self) -> Mapping[str, int]:
        """The free choices that the oracle took."""
        return self._oracle.taken


class CorelFullRun(ServedNodes, FullRun):
    """Daemons, and a server as a client of each."""

    def __init__(self, world: World, plan: Plan, limits: Limits | None = None) -> None:
        self._servers = Servers(world, self, plan, limits)
        world.observers.append(self._servers)
        super().__init__(world, _without_clients(plan), limits)
        for name in self._names:
            self._servers.slow_disk(name, None)

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        automata = super()._program(boot)
        return {SERVICE_LABEL: automata[SERVICE_LABEL], LABEL: self._servers.node(boot)}

    def _calm_beneath(self) -> None:
        self._clear_weather()

    def settled(self) -> bool | None:
        """The servers have all that is owed, and the daemons rest."""
        return not self._servers.missing() and not self._unsettled()

    def live(self) -> list[str]:
        """What servers owe, a quorum alone too, and daemon views that stay."""
        missing = [*self._servers.missing(), *self._servers.alone.missing, *self._unsettled(), *self._restless]
        return [*missing, *self._explained()] if missing else []


def _without_clients(plan: Plan) -> Plan:
    """The daemons have no other clients."""
    nodes = tuple(msgspec.structs.replace(node, clients=()) for node in plan.topology.nodes)
    return msgspec.structs.replace(plan, topology=msgspec.structs.replace(plan.topology, nodes=nodes))
