"""The system ``synchrony``: view-synchronous clients above the oracle, or above our own daemons.

The workload is that of ``evs``; what a member sends goes to one group, in its view.

Implements: [Spread 2.2.3.2], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Automaton
from isotone.sim.evs_clients import Clients
from isotone.sim.evs_nodes import CLIENTS, EvsNodes
from isotone.sim.evs_system import ORACLE, OracleRun, client_labels
from isotone.sim.faults import Fault
from isotone.sim.full_system import FULL, FULL_FAMILIES, FullRun, full_live_within_us
from isotone.sim.plan import Plan, Scale, Step, Topology, draw_topology
from isotone.sim.process import Boot
from isotone.sim.synchrony.clients import SynchronousClients
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.workload import ClientStep, draw_workload
from isotone.sim.world import World
from isotone.spec.bounds import ORACLE_SETTLES
from isotone.spec.oracle import OracleSettings
from isotone.spec.synchrony_properties import synchrony_labels

FLUSHES_US = 500_000
"""For programs that take their time, and the flushes of the last views."""


class SynchronySystem:
    """View-synchronous groups."""

    name = "synchrony"
    stacks: tuple[str, ...] = (ORACLE, FULL)
    step_type: Any = ClientStep

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """As for ``evs``."""
        return draw_topology(choice, scale, nodes)

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """As for ``evs``."""
        return draw_workload(choice, topology, faults, scale)

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes components, processes and sessions."""
        return FULL_FAMILIES if stack == FULL else ("partition", "cut", "crash", "pause", "kill", "cascade")

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of view synchrony, those of the groups beneath, and those of the run."""
        return (*synchrony_labels(), *client_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the clients into the world, above the oracle or above our own daemons."""
        return SynchronousFullRun(world, plan) if plan.stack == FULL else SynchronousOracleRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """That of the groups beneath, and the flushes behind it."""
        below = full_live_within_us(plan) if plan.stack == FULL else ORACLE_SETTLES.function(OracleSettings())
        return below + FLUSHES_US


class SynchronousNodes(EvsNodes):
    """Besides what clients of a group want: the newest view is installed."""

    def live(self) -> list[str]:
        """What is missing."""
        return super().live() + self._unflushed()

    def _unflushed(self) -> list[str]:
        missing = []
        for name in self._names:
            clients = self._clients(name)
            assert isinstance(clients, SynchronousClients)
            for (client, group), member in sorted(clients.members.items()):
                below = clients.sessions[client.name].views.get(group) if client.name in clients.sessions else None
                if member.target is not None or member.view is None or below is None or member.view.id != below.id:
                    waits_for = ", ".join(map(str, member.waits_for))
                    missing.append(f"{client} did not install the newest view of {group}: {waits_for} did not flush")
        return missing


class SynchronousOracleRun(SynchronousNodes, OracleRun):
    """The clients of a plan above the oracle."""

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        return {CLIENTS: synchronous_clients(boot)}


class SynchronousFullRun(SynchronousNodes, FullRun):
    """The clients of a plan, each in the process of its daemon."""

    def __init__(self, world: World, plan: Plan) -> None:
        nodes = tuple(msgspec.structs.replace(node, clients=()) for node in plan.topology.nodes)
        bare = msgspec.structs.replace(plan, topology=msgspec.structs.replace(plan.topology, nodes=nodes))
        super().__init__(world, bare)

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        return {**super()._program(boot), CLIENTS: synchronous_clients(boot)}

    def settled(self) -> bool | None:
        """Everything beneath, and every view installed."""
        return bool(super().settled()) and not self._unflushed()


def synchronous_clients(boot: Boot) -> Clients:
    """Those of one node."""
    return SynchronousClients(boot.daemon, choice=boot.choice.derive("synchrony"))
