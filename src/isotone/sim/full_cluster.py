"""The scenario language on our own daemons, from the packets up: a `Cluster` in which each node runs a `Stack`.

Between the rows of the trace stands what only the daemons know: ``*`` a state that was entered, and why; ``~`` a
message of the membership, without those that are repeated all the time (ALIVE, JOIN and the detector's).

Implements: [DESIGN 4], scenarios on the stack "full".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import combinations
from typing import TypeVar

import msgspec

from isotone.core.contract import Action, Address, Automaton, Event, SendDatagrams
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import DaemonId
from isotone.evs.groups import Reason as GroupReason
from isotone.evs.groups import State as GroupState
from isotone.evs.membership import KnownDaemon, LinkPlan, MembershipSettings, Reason, State
from isotone.evs.membership.messages import MARK, Datagram, Leave, NewMemb, Refer, Refuse
from isotone.evs.overlay.topology import LinkProtocol
from isotone.evs.stack import Stack, StackSettings
from isotone.sim.cluster import QUIET_LIMIT_MS, Cluster
from isotone.sim.disk import DiskSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL, Boot
from isotone.sim.scripted import ScriptedClients

STATES = (*State.__members__, *GroupState.__members__)
REASONS = (*Reason.__members__, *GroupReason.__members__)
CALM = NetworkSettings(
    lan=LinkSettings(latency_us=200, jitter_us=50), wan=LinkSettings(latency_us=5_000, jitter_us=500)
)
K = TypeVar("K")
Spy = Callable[[Stack, Event, Sequence[Action]], None]


PLAYED = StackSettings(pruning=False, membership=MembershipSettings(count_us=0))
"""Without pruning, so that units are recorded at B3; how many packets that took is no part of the story."""


class FullCluster(Cluster):
    """As `Cluster`, with a daemon in every node."""

    def __init__(
        self,
        *nodes: str,
        seed: int | str = 1,
        sites: Mapping[str, str] | None = None,
        network: NetworkSettings = CALM,
        disk: DiskSettings | None = None,
        settings: StackSettings | None = None,
        streams: Collection[frozenset[str]] = (),
        spy: Spy | None = None,
    ) -> None:
        """``streams`` are pairs of sites that are linked by tcp; all others are by hop."""
        self._settings = settings or PLAYED
        self._streams = streams
        self._spy = spy
        super().__init__(*nodes, seed=seed, service=None, sites=sites, network=network, disk=disk)

    def _serve(self, service: Automaton | None, seed: int | str) -> None:
        """Every node serves its own clients."""
        self._on_oracle = False

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(boot.daemon.name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self._prepared(),
        )
        shown = ShownStack(stack, self._remark, self._spy)
        return {SERVICE_LABEL: shown, CLIENTS_LABEL: ScriptedClients(boot.daemon)}

    def _prepared(self) -> StackSettings:
        known = tuple(KnownDaemon(name, site, Address(f"{name}.1")) for name, site in self._site_of.items())
        replace = msgspec.structs.replace
        links = self._links() if self._streams else self._settings.membership.links
        return replace(self._settings, membership=replace(self._settings.membership, known=known, links=links))

    def _links(self) -> tuple[LinkPlan, ...]:
        def protocol(one: str, other: str) -> LinkProtocol:
            return LinkProtocol.TCP if frozenset((one, other)) in self._streams else LinkProtocol.HOP

        pairs = combinations(sorted(set(self._site_of.values())), 2)
        return tuple(LinkPlan(a=one, b=other, protocol=protocol(one, other)) for one, other in pairs)

    def _remark(self, daemon: DaemonId, text: str) -> None:
        self.story.append(f"{self.world.now / 1000:>10.3f}  {daemon!s:<8} {text}")

    # --- time ------------------------------------------------------------------------------------------------------

    def run_until_quiet(self, limit_ms: float = QUIET_LIMIT_MS) -> bool:
        """Run until every component is one daemon view and nobody has anything left to do."""
        return self.world.run_until_quiet(round(limit_ms * 1000), idle=self._is_settled)

    def run_until_state(self, node: str, state: str, limit_ms: float = QUIET_LIMIT_MS) -> bool:
        """Run until a daemon is in this state of the membership or of the groups."""
        if state not in STATES:
            raise LocalProtocolError(f"there is no state {state!r}; there are {', '.join(STATES)}")
        end = self.world.now + round(limit_ms * 1000)
        while state not in self.states(node):
            if self.world.now >= end or not self.world.step():
                return False
        return True

    # --- looking ---------------------------------------------------------------------------------------------------

    def stack(self, node: str) -> Stack:
        """The daemon of a node."""
        return self._shown(node).stack

    def has_entered(self, node: str, reason: str) -> bool:
        """Whether a daemon entered a state of the membership or of the groups for this reason."""
        if reason not in REASONS:
            raise LocalProtocolError(f"there is no reason {reason!r}; there are {', '.join(REASONS)}")
        return self._shown(node).has_entered(reason)

    def _shown(self, node: str) -> ShownStack:
        shown = self.world.automaton(node, SERVICE_LABEL)
        assert isinstance(shown, ShownStack)
        return shown

    def states(self, node: str) -> tuple[str, str]:
        """Where the membership and the groups of a daemon stand."""
        stack = self.stack(node)
        return stack.membership.state.name, stack.groups.state.name

    def _is_settled(self) -> bool:
        return all(self._is_at_rest(name, component) for component in self.world.components() for name in component)

    def _is_at_rest(self, name: str, component: tuple[str, ...]) -> bool:
        stack = self.stack(name)
        members = tuple(sorted(self.world.daemon(each) for each in component))
        return stack.membership.members == members and is_idle(stack)


def is_idle(stack: Stack) -> bool:
    """Whether a daemon has nothing to do: its view works, and all that was sent is everywhere."""
    network = stack.membership.node.network
    if stack.membership.state is not State.OP or stack.groups.state is not GroupState.GOP or network is None:
        return False
    delivery, stamper = network.transport.delivery, network.transport.stamper
    waiting = stack.groups.waiting_bytes or stamper.waiting_bytes
    return not waiting and not delivery.kept_bytes and not delivery.undelivered()


class Diary(Counter[K]):
    """Counts, and keeps the order in which it counted."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[K] = []

    def __setitem__(self, key: K, count: int) -> None:
        self.fresh.append(key)
        super().__setitem__(key, count)

    def take(self) -> list[K]:
        """What was counted since the last look."""
        taken, self.fresh = self.fresh, []
        return taken


class ShownStack:
    """A daemon that is watched: what it enters and what it says is remarked as it happens."""

    periodic_timers = Stack.periodic_timers

    def __init__(self, stack: Stack, remark: Callable[[DaemonId, str], None], spy: Spy | None) -> None:
        self.stack = stack
        self._remark = remark
        self._spy = spy
        self._entries: Diary[Reason] = Diary()
        self._groups_entries: Diary[tuple[GroupState, GroupReason]] = Diary()
        stack.membership.node.entries, stack.groups.entries = self._entries, self._groups_entries

    def handle(self, event: Event) -> list[Action]:
        """Let it handle the event, and tell what came of it."""
        actions = self.stack.handle(event)
        node = self.stack.membership.node
        culprit = f" ({node.culprit})" if node.state is State.SEG and node.culprit else ""
        self._entered(node.state.name, [reason.value for reason in self._entries.take()], culprit)
        groups = [reason.value for _, reason in self._groups_entries.take()]
        self._entered(self.stack.groups.state.name, groups)
        self._tell_messages(actions)
        if self._spy is not None:
            self._spy(self.stack, event, actions)
        return actions

    def has_entered(self, reason: str) -> bool:
        """Whether a state was ever entered for this reason, by its name."""
        return reason in {each.name for each in self._entries} | {each.name for _, each in self._groups_entries}

    def _entered(self, state: str, reasons: Sequence[str], culprit: str = "") -> None:
        if reasons:
            self._remark(self.stack.me, f"* {state}: {'; '.join(reasons)}{culprit}")

    def _tell_messages(self, actions: Sequence[Action]) -> None:
        said: dict[str, list[str]] = {}
        for message, address in datagrams(self.stack, actions):
            text = _text_of(message)
            if text:
                said.setdefault(text, []).append(address)
        for text, addresses in said.items():
            self._remark(self.stack.me, f"~ {text} -> {' '.join(addresses)}")


def datagrams(stack: Stack, actions: Sequence[Action]) -> list[tuple[Datagram, Address]]:
    """The messages of the membership among what a daemon does, and to whom they go."""
    found = []
    for action in actions:
        if isinstance(action, SendDatagrams):
            for parts in action.datagrams:
                whole = b"".join(parts)
                if whole[0] == MARK and (message := stack.membership.node.envelope.open(memoryview(whole))) is not None:
                    found.append((message, action.destination))
    return found


def _text_of(message: Datagram) -> str:
    match message:
        case NewMemb(id=id, members=members):
            return f"NEWMEMB {id.id} {{{' '.join(str(each.daemon) for each in members)}}}"
        case Refer(representative=representative):
            return f"REFER {representative.daemon}"
        case Refuse(reason=reason):
            return f"REFUSE {reason}"
        case Leave():
            return "LEAVE"
    return ""
