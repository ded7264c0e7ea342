"""The servers of a run and what they owe, whatever group service is beneath them; and the two runs.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.core.contract import Automaton
from isotone.core.ids import DaemonId
from isotone.corel.events import Standing
from isotone.corel.explain import why_no_primary
from isotone.corel.identities import log_identity
from isotone.corel.replica import Replica
from isotone.replicated.database.files import MemoryFiles
from isotone.replicated.dict_state import DictState
from isotone.replicated.lock_state import LockState
from isotone.replicated.machine import Machine, MachineState
from isotone.replicated.small_states import QueueState
from isotone.sim.corel_run import _without_clients
from isotone.sim.disk import DiskSettings
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.evs_system import ToldOracle
from isotone.sim.faults import MILLISECOND
from isotone.sim.full_system import FullRun
from isotone.sim.observer import Observer
from isotone.sim.plan import Plan, Step
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.replicated.clients import ObjectClients
from isotone.sim.replicated.node import LogWork, ObjectNode
from isotone.sim.replicated.port_node import PORT_LABEL, PortNode
from isotone.sim.replicated.programs import ObjectStep
from isotone.sim.replicated.terms import LABEL, draw_terms
from isotone.sim.world import World
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised
from isotone.trace.replicated import ItemsLeft, ObjectLost, StateReached

DISK_FAILS = 0.01
COMMITS_LOST_MAX = 3


class ObjectServers(Observer):
    """One server at each node. Whoever stops because its disk failed is started again after a while."""

    def __init__(self, world: World, nodes: EvsNodes, plan: Plan) -> None:
        self.crashing = False  # while the plan itself ends a process
        self._world, self._nodes, self._names = world, nodes, plan.topology.names
        self.terms = draw_terms(plan.seed, self._names, plan.stack)
        self._failing = set(self.terms.failing)
        self._revival = Choice(f"replicated/{plan.seed}").derive("revive")
        self.clients = ObjectClients(world, plan, self.terms)
        self._current: dict[str, ObjectNode] = {}
        self._files = {name: MemoryFiles(commits_kept=COMMITS_LOST_MAX + 1) for name in self._names}
        self._losses = Choice(f"replicated/{plan.seed}").derive("commits")

    def automata(self, boot: Boot) -> dict[str, Automaton]:
        """Of one incarnation: the server, and its port where somebody uses it."""
        node = self.node(boot)
        return {LABEL: node, PORT_LABEL: self.port(boot, node)} if self.clients.homes else {LABEL: node}

    def node(self, boot: Boot) -> ObjectNode:
        """The server of one incarnation."""
        name = boot.daemon.name
        boot.players[name] = LABEL
        replica = Replica(self.terms.settings(name), boot.daemon, log_identity(name.encode(), boot.daemon.incarnation))
        world = self._world
        made = ObjectNode(
            replica,
            str(boot.daemon),
            self.terms,
            wall=lambda at: world.now,
            choice=boot.choice,
            files=self._files[name],
        )
        made.log.keeps_all = bool(self.clients.homes)
        self._current[name] = made
        return made

    def port(self, boot: Boot, node: ObjectNode) -> PortNode:
        """The port of the same incarnation."""
        name, world = boot.daemon.name, self._world

        def run(make: Callable[[], Coroutine[Any, Any, None]]) -> None:
            world.tell(name, LABEL, LogWork(0, make))

        return PortNode(name, node.log, run=run, tell=lambda event: world.tell(name, PORT_LABEL, event))

    def on_crash(self, daemon: DaemonId) -> None:
        """A process is gone, with what its programs held; if nobody meant it, it comes back."""
        name = daemon.name
        node = self._current[name] if name in self._current else self.clients.current[name]
        for lost in node.programs.ended:
            self._world.record(name, lost)
        for operation, (fence, session) in sorted(node.programs.held.items()):
            until = node.programs.trusted_until(session, node.seen_wall)
            self._world.record(name, ObjectLost(name, operation, fence, "crashed", until))
        node.end()
        if name in self.clients.homes:
            return
        self._files[daemon.name].crash(lambda count: self._losses.between(0, count))
        if not self.crashing:
            delay = self._revival.between(20, 400) * MILLISECOND
            self._world.after(delay, lambda: self._nodes.restart(daemon.name))

    def mend_disks(self) -> None:
        """No disk fails any more."""
        self._failing = set()
        for name in self._names:
            self.slow_disk(name, None)
        self.clients.calm()

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual; some disks fail now and then."""
        failure = DISK_FAILS if node in self._failing else 0.0
        usual = DiskSettings(failure=failure)
        self._world.disk(node).settings = usual if sync_us is None else DiskSettings(failure=failure, sync_us=sync_us)

    def kill_session(self, node: str) -> None:
        """Break the session with the group service off."""
        if self._world.is_up(node):
            self._world.tell(node, LABEL, ClientKilled(self._world.now, node))

    def play(self, step: Step) -> None:
        """Let a program begin; a node that is down has none."""
        where = step.program if isinstance(step, ObjectStep) and step.program else step.node
        if self._world.is_up(where):
            self._world.tell(where, LABEL, StepDue(self._world.clock(where), step))

    def missing(self) -> list[str]:
        """One primary component of all, all programs at their ends, and equal states."""
        missing, states = [], {}
        for name in self._names:
            node = self._node(name)
            replica = node.replica
            queue = replica.ledger.queue
            if node.objects.failure is not None:
                missing.append(f"{name} failed: {node.objects.failure}")
            if replica.standing is not Standing.REGULAR or not replica.flow.is_primary:
                missing.append(f"{name} is not in a primary component: {why_no_primary(replica)}")
            elif set(replica.session.servers) != set(self._names):
                missing.append(f"{name} is together with {', '.join(replica.session.servers)} only")
            if node.programs.running:
                missing.append(f"{name} has programs that wait")
            if node.objects.machine.state.position < queue.forgotten_records:
                missing.append(f"{name} has applied too little")
            missing += [f"{name}: {text}" for text in _orphans(node.objects.machine.state)]
            missing += [f"{name}: {text}" for text in _problems(node.objects.machine)]
            states[name] = (node.objects.machine.state.position, node)
        positions = {position for position, _ in states.values()}
        if len(positions) == 1 and not missing:
            digests = {name: node.objects.machine.digest() for name, (_, node) in states.items()}
            if len(set(digests.values())) > 1:
                missing.append(f"the states differ: {digests}")
            else:
                self.clients.are_due(positions.pop())
        elif not missing:
            missing.append(f"the positions differ: { {name: each for name, (each, _) in states.items()} }")
        return missing or self.clients.missing()

    def record_end(self) -> None:
        """What is left when all is quiet."""
        for name in self._names:
            machine = self._node(name).objects.machine
            self._world.record(name, StateReached(name, machine.state.position, machine.digest()))
            for queue, state in machine.state.objects.items():
                if isinstance(state, QueueState):
                    self._world.record(name, ItemsLeft(name, queue, tuple(str(each) for each in state.items)))

    def _node(self, name: str) -> ObjectNode:
        node = self._world.automaton(name, LABEL)
        assert isinstance(node, ObjectNode)
        return node


def _problems(machine: Machine) -> list[str]:
    """What is wrong with the copies of databases, by a scan."""
    return [f"{name} {text}" for name, found in machine.problems().items() for text in found]


def _orphans(state: MachineState) -> list[str]:
    """What belongs to sessions that are over."""
    found = []
    for name, each in state.objects.items():
        owners: list[int] = []
        if isinstance(each, LockState):
            owners = [holder.session for holder in each.holders] + [waiter.session for waiter in each.waiters]
        elif isinstance(each, QueueState):
            owners = [item.taker for item in each.items.values() if item.taker] + [taker for taker, _ in each.takers]
        elif isinstance(each, DictState):
            owners = [entry.owner for entry in each.entries.values() if entry.owner]
        found += [
            f"{name} belongs to the session {owner}, which is over" for owner in owners if owner not in state.sessions
        ]
    return found


class ToldServers(ToldOracle):
    """Programs that are no servers are no daemons."""

    def __init__(self, world: World, names: Sequence[str]) -> None:
        super().__init__(world)
        self._names = names

    def on_start(self, daemon: DaemonId) -> None:
        """A server is there."""
        if daemon.name in self._names:
            super().on_start(daemon)

    def on_crash(self, daemon: DaemonId) -> None:
        """A server is gone."""
        if daemon.name in self._names:
            super().on_crash(daemon)

    def on_pause(self, daemon: DaemonId) -> None:
        """A server stands still."""
        if daemon.name in self._names:
            super().on_pause(daemon)

    def on_resume(self, daemon: DaemonId) -> None:
        """A server goes on."""
        if daemon.name in self._names:
            super().on_resume(daemon)

    def on_connectivity(self, components: tuple[tuple[str, ...], ...]) -> None:
        """These are together now."""
        servers = (tuple(name for name in component if name in self._names) for component in components)
        super().on_connectivity(tuple(component for component in servers if component))


class ObjectNodes(EvsNodes):
    """Faults and steps on nodes with a server each."""

    _servers: ObjectServers

    def partition(self, sides: Sequence[Sequence[str]]) -> None:
        """Cut the network into these sides; programs stand on the side of the node that they are beside."""
        super().partition([self._servers.clients.beside(side) for side in sides])

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Start it again."""
        super().restart(node, elsewhere=elsewhere)
        if elsewhere:
            self._servers.clients.moved()

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
        """Let a program begin."""
        self._servers.play(step)

    def settled(self) -> bool | None:
        """Ticks go on for ever: it says itself when all is done."""
        return not self._servers.missing()

    def owes_progress(self) -> bool:
        """Some tick is always on its way: what the layers below owe when all is quiet is not judged."""
        return False

    def live(self) -> list[str]:
        """All that the servers owe."""
        self._servers.record_end()
        return self._servers.missing()


class ObjectRun(ObjectNodes):
    """Above the oracle."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        self._oracle = Oracle(Choice(f"oracle/{plan.seed}"), OracleSettings())
        self._servers = ObjectServers(world, self, plan)
        world.add_service(self._oracle)
        world.observers += [ToldServers(world, self._names), self._servers]
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)
            self._servers.slow_disk(node.name, None)
        self._servers.clients.settle_in()

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        return self._servers.automata(boot)

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended, and the oracle owes progress."""
        self._servers.mend_disks()
        components = super().stabilise()
        self._world.tell_service(Stabilised(self._world.now))
        return components

    def choices(self) -> Mapping[str, int]:
        """The free choices that the oracle took."""
        return self._oracle.taken


class ObjectFullRun(ObjectNodes, FullRun):
    """Above our own daemons, from the packets up."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._servers = ObjectServers(world, self, plan)
        world.observers.append(self._servers)
        super().__init__(world, _without_clients(plan))
        for name in self._names:
            self._servers.slow_disk(name, None)
        self._servers.clients.settle_in()

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        automata = super()._program(boot)
        return {SERVICE_LABEL: automata[SERVICE_LABEL], **self._servers.automata(boot)}

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended."""
        self._servers.mend_disks()
        return super().stabilise()
