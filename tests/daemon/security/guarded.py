"""Simulated clusters in which every daemon stands behind a Guard, and what an attacker does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CloseStream,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    MulticastDatagrams,
    OpenStream,
    SendDatagrams,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.daemon.security import Guard, Identity, Note, Outgoing, Pass, Roster, RosterChanged, ViewWatch
from isotone.daemon.security.keys import KeyPair, pair_of
from isotone.evs.membership.events import PeersChanged
from isotone.evs.stack import Stack
from isotone.sim.full_cluster import FullCluster, ShownStack
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL, Boot
from isotone.sim.scripted import ScriptedClients

CLUSTER = "guarded"
NETWORK = (SendDatagrams, MulticastDatagrams, OpenStream, WriteStream, CloseStream)
BELOW = (DatagramsReceived, DatagramsRefused, StreamOpened, StreamReceived, StreamWritable, StreamClosed)


class Source:
    """Random bytes from a seed."""

    def __init__(self, seed: str) -> None:
        self._choice = Choice(seed)

    def __call__(self, size: int) -> bytes:
        return bytes(self._choice.below(256) for _ in range(size))


def key_of(name: str, seed: str = "key") -> KeyPair:
    return pair_of(blake2b(f"{seed}/{name}".encode(), digest_size=32).digest())


def roster_of(*names: str, cluster: str = CLUSTER) -> Roster:
    return Roster(cluster, {name: key_of(name).public for name in names})


class GuardedStack:
    """A daemon and its Guard as one automaton, composed as a real process does it."""

    periodic_timers = Stack.periodic_timers

    def __init__(self, shown: ShownStack, guard: Guard) -> None:
        self.shown, self.guard = shown, guard
        self.notes: list[Note] = []
        self.sent: list[tuple[Address | None, Sequence[bytes]]] = []  # as an eavesdropper hears it; None: multicast
        self._watch = ViewWatch()

    def handle(self, event: Event) -> list[Action]:
        if isinstance(event, (*BELOW, RosterChanged)):
            return self._below(self.guard.handle(event))
        return self._above(event)

    def _above(self, event: Event) -> list[Action]:
        actions = self.shown.handle(event)
        changed = self._watch.look(self.shown.stack, event.at)
        out = self._below(self.guard.handle(changed)) if changed is not None else []
        run: list[Action] = []
        for action in actions:
            if isinstance(action, NETWORK):
                run.append(action)
                continue
            out += self._outgoing(run, event.at)
            run = []
            out.append(action)
        return out + self._outgoing(run, event.at)

    def _outgoing(self, run: list[Action], at: int) -> list[Action]:
        return self._below(self.guard.handle(Outgoing(at, run))) if run else []

    def _below(self, actions: list[Action]) -> list[Action]:
        out: list[Action] = []
        for action in actions:
            if isinstance(action, Pass):
                out += self._above(action.event)
            elif isinstance(action, Note):
                self.notes.append(action)
            else:
                if isinstance(action, SendDatagrams):
                    self.sent.append((action.destination, [b"".join(parts) for parts in action.datagrams]))
                elif isinstance(action, MulticastDatagrams):
                    self.sent.append((None, [b"".join(parts) for parts in action.datagrams]))
                out.append(action)
        return out


class GuardedCluster(FullCluster):
    """As `FullCluster`. ``keys`` replaces the keys of some daemons; ``rosters`` what some of them believe."""

    def __init__(
        self,
        *nodes: str,
        keys: Mapping[str, KeyPair] | None = None,
        rosters: Mapping[str, Roster] | None = None,
        open_nodes: Sequence[str] = (),
        **options: object,
    ) -> None:
        self._keys, self._rosters, self._open = keys or {}, rosters or {}, open_nodes
        self._names = nodes
        super().__init__(*nodes, **options)  # type: ignore[arg-type]

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        name = boot.daemon.name
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self._prepared(),
        )
        shown = ShownStack(stack, self._remark, self._spy)
        clients = ScriptedClients(boot.daemon)
        if name in self._open:
            return {SERVICE_LABEL: shown, CLIENTS_LABEL: clients}
        identity = Identity(boot.daemon, self._keys.get(name) or key_of(name))
        roster = self._rosters.get(name) or roster_of(*self._names)
        guard = Guard(identity, roster, Source(f"{boot.daemon}"))
        return {SERVICE_LABEL: GuardedStack(shown, guard), CLIENTS_LABEL: clients}

    def _shown(self, node: str) -> ShownStack:
        automaton = self.world.automaton(node, SERVICE_LABEL)
        return automaton if isinstance(automaton, ShownStack) else self.guarded(node).shown

    def guarded(self, node: str) -> GuardedStack:
        automaton = self.world.automaton(node, SERVICE_LABEL)
        assert isinstance(automaton, GuardedStack)
        return automaton

    def refused(self, node: str) -> Mapping[str, int]:
        return self.guarded(node).guard.counters.refused

    # --- what is done to it ----------------------------------------------------------------------------------------

    def inject(self, node: str, source: str, *datagrams: bytes) -> None:
        """Datagrams reach a node, each on its own, with whatever source address the attacker writes on them."""
        for datagram in datagrams:
            self.take(node, lambda at, data=datagram: DatagramsReceived(at, Address(source), data, len(data)))

    def take(self, node: str, make: object) -> None:
        """An event reaches a node's daemon."""
        lane = self.world.network.behind(self.address(node))
        assert lane is not None and callable(make)
        self.world.post(lane, make(lane.process.clock.read(self.world.now)))

    def address(self, node: str) -> Address:
        return self.world.nodes[node].address

    def reload(self, node: str, roster: Roster, *removed: str) -> None:
        """The settings are read again: the Guard hears of it first, then the membership."""
        self.take(node, lambda at: RosterChanged(at, roster))
        if removed:
            self.take(node, lambda at: PeersChanged(at, (), removed))

    def daemon_view(self, node: str) -> tuple[DaemonViewId | None, tuple[DaemonId, ...]]:
        membership = self.stack(node).membership
        return membership.view, tuple(membership.members)

    def members(self, node: str) -> str:
        return "".join(member.name for member in self.stack(node).membership.members)
