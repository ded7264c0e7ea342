"""Servers of a replicated log beside the daemons of a simulated cluster, and replicated objects over them.

The same state machine, objects and servers as in `isotone.replica`; disks, crashes and time are the cluster's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from isotone.core.choice import Choice
from isotone.core.contract import Event
from isotone.core.ids import DaemonId
from isotone.core.names import LOG_GROUP_PREFIX, check_log_name
from isotone.core.ordered_log import Snapshot
from isotone.corel import events as corel
from isotone.corel.explain import why_no_primary
from isotone.corel.identities import log_identity
from isotone.corel.quorum import Majority
from isotone.corel.replica import Replica
from isotone.corel.settings import ReplicaSettings
from isotone.replicated.database.files import MemoryFiles
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.state import Databases
from isotone.replicated.state import ReplicatedState
from isotone.sim.observer import Observer
from isotone.sim.process import Boot
from isotone.sim.replicated.log import NodeLog
from isotone.sim.replicated.log_node import LogNode
from isotone.sim.replicated.port_node import PORT_LABEL, PortNode, Work
from isotone.sim.world import World
from isotone.testing.errors import NotSimulated
from isotone.testing.loop import VirtualLoop

LABEL = "replica"
PORT = 4816
MAYBE_AFTER_S = 2.0
COMMITS_LOST_MAX = 3


def port_of(name: str) -> str:
    """Where clients of this server find it, as they write it."""
    return f"{name}:{PORT}"


class ServerNode(LogNode):
    """One incarnation of one server; its log is used by programs on the virtual loop."""

    def __init__(self, replica: Replica, loop: VirtualLoop, world: World) -> None:
        super().__init__(replica)
        self._world, self._name = world, replica.settings.server
        self.log = NodeLog(loop, send=self._send, offer=self._offer, maybe_after_s=MAYBE_AFTER_S)
        self.log.keeps_all = True

    def _send(self, request: int, record: bytes) -> None:
        self._hand_in(corel.AppendWanted(self._world.clock(self._name), request, record))

    def _offer(self, snapshot: Snapshot) -> None:
        self._hand_in(
            corel.SnapshotOffered(self._world.clock(self._name), snapshot.position, snapshot.state, snapshot.digest)
        )

    def _hand_in(self, event: Event) -> None:
        self._world.tell(self._name, LABEL, event)


class Replicas(Observer):
    """One server beside each daemon of a cluster."""

    def __init__(self, world: World, loop: VirtualLoop, log: str, names: tuple[str, ...], choice: Choice) -> None:
        check_log_name(log)
        self._world, self._loop, self._names = world, loop, names
        self._group = f"{LOG_GROUP_PREFIX}{log}"
        self._opened, self._choice = 0, choice
        self._nodes: dict[str, ServerNode] = {}
        self._files = {name: MemoryFiles(COMMITS_LOST_MAX + 1) for name in names}
        world.observers.append(self)

    def automaton(self, boot: Boot) -> ServerNode:
        """The server of one incarnation of a daemon."""
        name = boot.daemon.name
        boot.players[name] = LABEL
        settings = ReplicaSettings(
            server=name, servers=self._names, group=self._group, quorum=Majority(self._names), snapshots=True
        )
        replica = Replica(settings, boot.daemon, log_identity(name.encode(), boot.daemon.incarnation))
        made = self._nodes[name] = ServerNode(replica, self._loop, self._world)
        return made

    def port(self, boot: Boot) -> PortNode:
        """Its port, for `isotone.connect_replica`."""
        name, world = boot.daemon.name, self._world

        def tell(event: Event) -> None:
            if world.is_up(name) and world.automaton(name, PORT_LABEL) is made:
                world.tell(name, PORT_LABEL, event)

        def run(make: Callable[[], Work]) -> None:
            self._loop.call_soon(lambda: self._loop.create_task(make()))

        made = PortNode(name, self._nodes[name].log, run=run, tell=tell, door=port_of(name))
        return made

    def on_crash(self, daemon: DaemonId) -> None:
        """Whoever uses its objects is told; a database may lose its last commits, which come again from the log."""
        self._files[daemon.name].crash(lambda count: self._choice.between(0, count))
        self._nodes[daemon.name].log.break_off(f"the server {daemon.name} is gone")

    @asynccontextmanager
    async def open(
        self, name: str, classes: Iterable[type[Any]], databases: Iterable[Procedures], lease_s: float
    ) -> AsyncIterator[ReplicatedState]:
        """Objects of the server of this name, which is up."""
        if not self._world.is_up(name):
            raise NotSimulated(f"{name} is down: restart it first")
        node = self._nodes[name]
        objects = ReplicatedState(
            node.log,
            nonce=self._nonce,
            server=name,
            servers=lambda: node.replica.ledger.queue.configuration.servers,
            why_no_order=lambda: "" if node.log.is_primary else why_no_primary(node.replica),
            lease_s=lease_s,
            classes=classes,
            databases=Databases(databases, self._files[name], twice=True),
            red=node.log.red_messages.records,
        )
        objects.machine.classes.twice = True  # what is not deterministic is found here
        async with objects:
            yield objects

    def _nonce(self) -> str:
        self._opened += 1
        return f"session {self._opened}"
