"""What the coordinator of a centre does beyond the others: it talks to other centres until they have answered.

``send-to-groups`` without blocking: for each centre it is known what was answered; a timer sends again, to the next
process there. Two coordinators at once do the same twice.

Implements: [HAB Figure 3, send-to-groups], [HAB Figure 4, store-messages], [HAB Figure 6, obtain-state].
Deviations: Dh3, Dh5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.codec import ControlMessage
from isotone.core.contract import Action, CancelTimer, SetTimer
from isotone.hab.centre import Centre, Role
from isotone.hab.configuration import Group
from isotone.hab.events import SendPacket
from isotone.hab.messages import WIDE, Confirm, Join, OkState, OkStored, SendState, Store, UpdateState, Welcome
from isotone.hab.settings import HabSettings
from isotone.hab.transition import encode_state

ANSWER = "answer"


@dataclass
class Contacts:
    """The process of each centre that is asked next: the one that answered last, or another after silence."""

    settings: HabSettings
    _places: dict[str, int] = field(default_factory=dict)

    def of(self, centre: str) -> str:
        """The process to ask."""
        processes = self.settings.centres[centre]
        return processes[self._places.get(centre, 0) % len(processes)]

    def rotate(self, centre: str) -> None:
        """It did not answer in time."""
        self._places[centre] = (self._places.get(centre, 0) + 1) % len(self.settings.centres[centre])

    def answered(self, process: str) -> None:
        """It is there, and is the coordinator."""
        centre = self.settings.centre_of(process)
        self._places[centre] = self.settings.centres[centre].index(process)


@dataclass
class Peer:
    """What another centre has answered in this epoch."""

    acked: int  # it has stored the order up to here
    sent: int  # the order up to here is on its way
    under_way: int = 0  # stores without an answer
    greeted: bool = False  # it answered in this epoch
    silences: int = 0  # since it answered last
    state: OkState | None = None  # its answer in a transition


@dataclass
class Coordinator:
    """The duties of one process; forgotten and begun anew with each epoch."""

    me: str
    settings: HabSettings
    contacts: Contacts
    _term: tuple[int, Role, int] | None = None
    _peers: dict[int, Peer] = field(default_factory=dict)
    _concluded: int = -1  # the confirmation that was broadcast last, in this epoch

    def drive(self, centre: Centre) -> tuple[list[Action], list[ControlMessage]]:
        """Send what is due, and say which commands follow from the answers."""
        if centre.coordinator(self.settings) != self.me:
            self._term = None
            return [], []
        term = (centre.epoch, centre.role, centre.life)
        if term != self._term:
            self._term, self._peers, self._concluded = term, {}, -1
        actions: list[Action] = []
        if centre.role in {Role.PRIMARY, Role.TRANSITION}:
            for number in centre.others():
                group = centre.configuration.numbered(number)
                assert group is not None
                actions += self._push(centre, group, self._peer(centre, group))
        return actions, self._conclusions(centre)

    def _peer(self, centre: Centre, group: Group) -> Peer:
        peer = self._peers.get(group.number)
        if peer is None:
            line = min(centre.confirmed, centre.log.end)
            peer = self._peers[group.number] = Peer(line, line)
        return peer

    def _push(self, centre: Centre, group: Group, peer: Peer) -> list[Action]:
        """What this centre must be told now; what is confirmed it has, though it may have told another coordinator."""
        peer.acked = max(peer.acked, centre.confirmed)
        peer.sent = max(peer.sent, peer.acked)
        actions: list[Action] = []
        while (message := self._due(centre, group, peer)) is not None:
            peer.under_way += 1
            if isinstance(message, Store):
                peer.sent = max(peer.sent, message.first - 1 + len(message.entries))
            actions.append(SendPacket(self.contacts.of(group.name), WIDE.encode(message)))
        return [*actions, SetTimer((ANSWER, group.name), self.settings.answer_us)] if actions else []

    def _due(self, centre: Centre, group: Group, peer: Peer) -> ControlMessage | None:
        if centre.role is Role.TRANSITION:
            if peer.state is not None or peer.under_way:
                return None
            return SendState(centre.epoch, centre.name, centre.confirmed, self.me, group.admitted_at)
        if group.admitted_at > centre.confirmed:
            return None  # it is not sure yet that it takes part
        if group.admitted_at and not peer.greeted and self._has_no_state(centre, group, peer):
            return None if peer.under_way else Welcome(encode_state(centre), self.me)
        behind = peer.sent < centre.log.end and peer.under_way < self.settings.stores_under_way_max
        if not behind and (peer.greeted or peer.under_way):
            return None
        entries = centre.log.behind(peer.sent, self.settings.batch_max, self.settings.batch_bytes_max)
        before = centre.log.epoch_at(peer.sent)
        first = peer.sent + 1
        return Store(
            centre.epoch, centre.name, centre.start, first, before, entries, centre.confirmed, answer_to=self.me
        )

    @staticmethod
    def _has_no_state(centre: Centre, group: Group, peer: Peer) -> bool:
        """Whether to take it for one that was not welcomed: so it is at first, if nothing changed since it was
        admitted; after silence the other way is tried."""
        return (group.admitted_at == centre.changed_at) != bool(peer.silences % 2)

    # --- answers ---------------------------------------------------------------------------------------------------

    def on_stored(self, centre: Centre, source: str, answer: OkStored) -> list[Action]:
        """A backup has stored the order up to an index."""
        name = self.settings.centre_of(source)
        self.contacts.answered(source)
        group = centre.configuration.named(name)  # its number may be another one there: a hand-over
        peer = self._peers.get(group.number) if group is not None else None
        if peer is None or answer.epoch != centre.epoch:
            return []
        peer.greeted, peer.silences = True, 0
        peer.acked = max(peer.acked, answer.index)
        peer.sent = max(peer.sent, peer.acked)
        peer.under_way = max(1, peer.under_way - 1) if peer.sent > peer.acked else 0
        return [CancelTimer((ANSWER, name))] if not peer.under_way else []

    def on_state(self, centre: Centre, source: str, answer: OkState) -> list[Action]:
        """A centre promised the epoch, and said what it has."""
        name = self.settings.centre_of(source)
        self.contacts.answered(source)
        group = centre.configuration.named(name)
        peer = self._peers.get(group.number) if group is not None else None
        if peer is None or answer.epoch != centre.epoch or centre.role is not Role.TRANSITION:
            return []
        peer.state, peer.under_way = answer, 0
        return [CancelTimer((ANSWER, name))]

    def on_silence(self, centre: Centre, name: str) -> None:
        """No answer in time: the next process there is asked, for all that was not answered."""
        group = centre.configuration.named(name)
        peer = self._peers.get(group.number) if group is not None else None
        if peer is not None and peer.under_way:
            self.contacts.rotate(name)
            peer.sent, peer.under_way = peer.acked, 0
            peer.silences += 1

    # --- conclusions -----------------------------------------------------------------------------------------------

    def _conclusions(self, centre: Centre) -> list[ControlMessage]:
        if centre.role is Role.OUT or not centre.has_quorum():
            return []
        peers = [
            self._peers.get(group.number) for group in map(centre.configuration.numbered, centre.others()) if group
        ]
        known = [peer for peer in peers if peer is not None]
        if len(known) < len(peers):
            return []
        if centre.role is Role.TRANSITION and self._concluded < 0:
            states = [peer.state for peer in known if peer.state is not None]
            if len(states) == len(known):
                self._concluded = 0
                return [_best(centre, states)]
        return self._confirmation(centre) if centre.role is Role.PRIMARY else []

    def _confirmation(self, centre: Centre) -> list[ControlMessage]:
        """What all have stored. A centre that is just admitted counts from the entry behind its admission on."""
        groups = [group for group in map(centre.configuration.numbered, centre.others()) if group]
        newcomer = next((group for group in groups if group.admitted_at > centre.confirmed), None)
        known = [self._peers[group.number] for group in groups if group is not newcomer]
        if all(peer.greeted for peer in known):
            index = min((peer.acked for peer in known), default=centre.log.end)
            if newcomer is not None:
                index = min(index, newcomer.admitted_at)
            if index > max(centre.confirmed, self._concluded) or (not centre.settled and self._concluded < 0):
                self._concluded = max(index, 0)
                return [Confirm(centre.epoch, index)]
        return []

    def joins(self, centre: Centre) -> list[Action]:
        """Of a centre that is out and wants back: ask all, each time another process."""
        if centre.role is not Role.OUT or not centre.joining or centre.coordinator(self.settings) != self.me:
            return []
        actions: list[Action] = []
        for name in self.settings.centres:
            if name != centre.name:
                actions.append(SendPacket(self.contacts.of(name), WIDE.encode(Join(centre.name, centre.joining))))
                self.contacts.rotate(name)
        return actions


def _best(centre: Centre, states: list[OkState]) -> UpdateState:
    """What the transition ends with: the log of the highest accepted epoch, and of those the longest."""
    own = (centre.accepted, centre.log.end)
    best = max(states, key=lambda each: (each.accepted, each.first - 1 + len(each.entries)), default=None)
    if best is None or own >= (best.accepted, best.first - 1 + len(best.entries)):
        return UpdateState(centre.epoch, centre.log.end + 1, centre.log.epoch_at(centre.log.end), ())
    return UpdateState(centre.epoch, best.first, best.before, best.entries)
