"""STATETRANS: a daemon view forms; every member tells all others what it brings along.

Implements: [Spread 6.1.9, Figures 6.4, 6.12 to 6.14]. Deviations: D-id the id of the attempt is that of the daemon
view, Lamport and above all that any member told of, because clocks do not order attempts; D-refuse whoever does not
follow says so; D-self a NEWMEMB that does not have us as a member is not followed, which Theorem 6.2 leaves open;
D-smaller as in `gather`: in a network that works only the same or a smaller coordinator is followed; D-own states of
other daemon views than one's own previous one count as received and for nothing else (DESIGN 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from isotone.core.contract import Event
from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.membership.messages import (
    Alive,
    Join,
    NewMemb,
    Recovered,
    Refer,
    Refuse,
    StateTrans,
    decode_exchange,
    encode_exchange,
    in_pieces,
    joined,
    view_name,
)
from isotone.evs.membership.network import Network, Outcome
from isotone.evs.membership.node import Node
from isotone.evs.membership.past import SESSION, is_resent
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.proposal import check_newmemb, view_of
from isotone.evs.membership.settings import InterimViews
from isotone.evs.membership.states import Reason, State
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport.events import Submitted

if TYPE_CHECKING:
    from isotone.evs.membership.operating import Operating
    from isotone.evs.membership.recovering import Recovering
    from isotone.evs.membership.segment import Segment


class Transfer:
    """An attempt, from its NEWMEMB until all states are here; also what it shares with `Recovering`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.segment: Segment
        self.operating: Operating
        self.recovering: Recovering
        self.newmemb: NewMemb | None = None
        self.states: dict[int, StateTrans] = {}  # by index in the forming daemon view
        self._pieces: dict[int, dict[int, StateTrans]] = {}  # of states of which not all pieces are here
        self.recovered: set[int] = set()
        self.held: list[Unit] = []  # of the forming daemon view, from daemons that have installed it
        self._progress_of_others = 0
        self.malformed = 0  # units of the exchange that made no sense

    # --- NEWMEMB ---------------------------------------------------------------------------------------------------

    def on_newmemb(self, message: NewMemb) -> None:
        """Follow it, or say why not."""
        node = self.node
        check_newmemb(message)
        id = message.id.id
        if node.network is not None and id == node.network.id:
            return  # it was repeated
        reason = self._objection(message)
        if reason:
            node.send_all([message.card.name], Refuse(node.card(), message.id, reason[:500]))
            return
        node.mention(message.members)
        self.begin(message, Reason.NEWMEMB_RECEIVED)

    def _objection(self, message: NewMemb) -> str:
        node = self.node
        id = message.id.id
        if all(each.daemon != node.me for each in message.members):
            return f"{node.me} is not a member"  # perhaps an earlier incarnation was meant
        if id <= node.accepted:
            return f"daemon view {node.accepted} was entered before"
        if message.version not in node.settings.versions:
            return f"version {message.version} is not among {node.settings.versions}"
        network = node.network
        if network is None:
            return ""
        if id.coordinator > network.id.coordinator:
            return f"daemon view {network.id} of a smaller coordinator works"
        if not network.installed and node.settings.interim_views is InterimViews.DELIVER:
            return f"daemon view {network.id} is forming" if id.coordinator != network.id.coordinator else ""
        return ""

    def begin(self, message: NewMemb, reason: Reason) -> None:
        """ProcessNewMemb: leave what was, build the new network, send STATETRANS in it."""
        node = self.node
        view = view_of(message, node)
        left = [name for name in node.others(node.members) if name not in {each.name for each in message.members}]
        node.detach()
        node.accepted, node.epoch = view.id, max(node.epoch, view.id.epoch)
        self.newmemb, self.states, self.recovered, self.held = message, {}, set(), []
        self._pieces = {}
        node.progress = self._progress_of_others = 0
        node.network = network = Network(
            node.me,
            view,
            version=message.version,
            settings=node.settings,
            lamport=node.lamport,
            first_stream=node.next_stream,
        )
        node.enter(State.STATETRANS, reason)
        node.send_all(left, Alive(node.card()))
        if reason is Reason.FORMED:
            self._send_newmemb()
            node.repeat_within(node.settings.newmemb_us)
        node.relays.tell_members(view.members)
        node.end_within(node.settings.exchange_us)
        self.take(network.start(node.at))
        if node.network is network:
            self.submit([_draft(piece) for piece in in_pieces(self._state())])

    def _current(self) -> NewMemb:
        """Our NEWMEMB, with the card as it is now."""
        assert self.newmemb is not None
        return msgspec.structs.replace(self.newmemb, card=self.node.card())

    def _send_newmemb(self) -> None:
        """To everybody who does not say that he follows it."""
        node = self.node
        message = self._current()
        waiting = []
        for place, each in enumerate(message.members):
            peer = node.peers.by_name.get(each.name)
            if peer is not None and place not in self.states and peer.attached != message.id.id:
                waiting.append(each.name)
        node.send_all(waiting, message)

    # --- the exchange ----------------------------------------------------------------------------------------------

    def _state(self) -> StateTrans:
        node, past = self.node, self.node.past
        assert node.network is not None
        return StateTrans(
            view_name(node.network.id),
            view_name(past.id),
            past.index,
            b"" if past.recovery is None else self.recovering.encode_holding(past.recovery.holding()),
            tuple(sorted(past.committed)),
            node.lamport,
            node.epoch,
        )

    def say(self, message: Recovered) -> None:
        """To all members of the forming daemon view, reliably."""
        self.submit([_draft(message)])

    def submit(self, drafts: list[Draft]) -> None:
        """Into the forming network."""
        self.handle(Submitted(self.node.at, drafts))

    def handle(self, event: Event) -> None:
        """An event of the forming network."""
        assert self.node.network is not None
        self.take(self.node.network.handle(event))

    def take(self, outcome: Outcome) -> None:
        """What came of it."""
        node = self.node
        network = node.network
        assert network is not None
        node.out += outcome.actions
        for unit in outcome.units:
            if node.network is not network:
                return  # a unit before this one ended the attempt
            if network.installed:
                node.deliver([unit], network.view.members)
            elif unit.kind is UnitKind.MEMBERSHIP:
                self._take_unit(unit)
            else:
                self.held.append(unit)
        if node.network is not network:
            return
        if outcome.failed:
            self.failed()
            self.operating.link_failed(outcome.failed)
        elif not network.installed:
            self.recovering.look()

    def _take_unit(self, unit: Unit) -> None:
        body = memoryview(unit.body)
        self.progressed()
        try:
            if is_resent(body):
                self.node.past.take_resent(body)
                return
            message = decode_exchange(body)
        except RemoteProtocolError:
            self.malformed += 1
            return
        network = self.node.network
        assert network is not None
        if message.attempt.id != network.id:
            return  # of another attempt
        if isinstance(message, Recovered):
            self.recovered.add(unit.daemon)
            return
        self.node.epoch = max(self.node.epoch, message.epoch)
        if message.piece >= message.pieces:
            self.malformed += 1
            return
        if unit.daemon in self.states:
            return
        pieces = self._pieces.setdefault(unit.daemon, {})
        pieces[message.piece] = message
        if (state := joined(pieces)) is not None:
            self.states[unit.daemon] = state
            del self._pieces[unit.daemon]

    def progressed(self) -> None:
        """Something came: patience begins anew."""
        self.node.progressed()
        self.node.end_within(self.node.settings.exchange_us)

    @property
    def is_complete(self) -> bool:
        """Whether the states of all members are here."""
        return len(self.states) == len(self.node.members)

    # --- events ----------------------------------------------------------------------------------------------------

    def on_repeat(self) -> None:
        """NEWMEMB once more, to who has not come."""
        self._send_newmemb()
        if not self.is_complete:
            self.node.repeat_within(self.node.settings.newmemb_us)

    def on_join(self, peer: Peer, join: Join) -> None:
        """A member that has not heard of it yet, or somebody from outside."""
        node = self.node
        if join.card.daemon in node.members:
            if self._is_coordinator:
                node.send_all([peer.name], self._current())
        elif (head := node.members[0]) != node.me and node.peers.by_name[head.name].daemon == head:
            node.send_all([peer.name], Refer(node.card(), node.contact_of(head.name)))

    def on_refused(self, peer: Peer, reason: str) -> None:
        """A member does not follow: this attempt cannot succeed."""
        if any(each.name == peer.name for each in self.node.members):
            self.failed()
            self.segment.enter_seg(Reason.REFUSED_BY_MEMBER, f"{peer.name}: {reason}")

    def on_end(self) -> None:
        """Nothing came for too long."""
        missing = self.missing()
        if self._is_coordinator:
            for name in missing:
                self.node.watch.penalise(name, self.node.at)
        self.failed()
        self.segment.enter_seg(Reason.STATE_TIMEOUT, ", ".join(missing))

    def missing(self) -> list[str]:
        """For whom the attempt waits."""
        have = self.recovered if self.is_complete else self.states
        return [each.name for place, each in enumerate(self.node.members) if place not in have]

    def review(self) -> None:
        """Whether a member is gone, or left the attempt; whether one whom we wait for makes progress."""
        broken = self.node.broken_by()
        if broken is not None:
            self.failed()
            self.segment.enter_seg(*broken)
        elif self._others_progressed():
            self.node.end_within(self.node.settings.exchange_us)

    def _others_progressed(self) -> bool:
        """Those who came from another daemon view may have more to recover than we."""
        node = self.node
        total = 0
        for name in node.others(node.members):
            peer = node.peers.by_name[name]
            if peer.card is not None and peer.attached == node.accepted:
                total += peer.card.progress
        moved = total > self._progress_of_others
        self._progress_of_others = total
        return moved

    @property
    def _is_coordinator(self) -> bool:
        return self.newmemb is not None and self.newmemb.card.daemon == self.node.me

    def failed(self) -> None:
        """An attempt of our own failed: the next one waits longer."""
        node, settings = self.node, self.node.settings
        if self._is_coordinator:
            node.not_before = node.at + min(settings.retry_us << min(node.failures, 16), settings.retry_max_us)
            node.failures += 1


def _draft(message: StateTrans | Recovered) -> Draft:
    return Draft(SESSION, UnitKind.MEMBERSHIP, Service.RELIABLE, encode_exchange(message))
