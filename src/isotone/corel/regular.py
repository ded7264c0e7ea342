"""Regular messages: sending, receiving, acknowledging, and what becomes green and white by it.

Appends that come while a write is under way travel together behind it, with the acknowledgement of what was written.
A write waits for own messages that are on their way already: they come with the same round, and it holds them too.

Implements: [COReL 5.5], [COReL 5.2, Order Rule 1]. Deviations: D-cumulative, D-again; D-quiet acknowledgements are sent
in primary components only, for nobody counts them elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotone.core.contract import Action, Record, SetTimer
from isotone.core.errors import RemoteProtocolError
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.configuration import Configuration
from isotone.corel.events import AppendNamed, AppendRefused, DeliverWhite, SnapshotOffered
from isotone.corel.journal import Journal
from isotone.corel.lending import Lending
from isotone.corel.message import Message
from isotone.corel.ordering import Acknowledgements, Greens
from isotone.corel.outbox import Outbox
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
from isotone.corel.snapshot import head_of, pieces_of, place_of, why_unfit
from isotone.corel.wire import Acknowledged, Regular
from isotone.trace import corel as trace

SETTLE = "settle"


@dataclass
class RegularFlow:
    """What goes on between two changes of the view."""

    settings: ReplicaSettings
    journal: Journal
    session: Session
    outbox: Outbox
    greens: Greens
    lending: Lending
    sending: bool = False  # standing in a view, recovered, and not signalled
    keeping: bool = False  # signalled after that: what comes is kept red
    acknowledgements: Acknowledgements | None = None  # the primary component bit: set while there is one
    acknowledged: int = 0  # the last place acknowledged in this view
    members: tuple[str, ...] = ()  # who takes part in this view
    white: int = 0  # the line that was told
    low: bool = False  # the disk is nearly full
    cap: int | None = None  # behind it stands a reconfiguration of which this component is no quorum
    _awaited: int = 0  # the next write waits until our own message with this counter is here
    _white_records: int = 0
    _written_yellow: int = 0
    _written_green: int = 0
    _told_green: int = 0

    @property
    def is_primary(self) -> bool:
        """The primary component bit [COReL 5.2]: volatile, false after a restart."""
        return self.acknowledgements is not None

    @property
    def is_retired(self) -> bool:
        """Whether a green reconfiguration removed this server."""
        return self.settings.server in self.journal.ledger.queue.configuration.retired

    @property
    def has_lived_before(self) -> bool:
        """Whether there are messages of this life that it did not send: then its log began the same one twice."""
        return self._own > self.outbox.initiated

    # --- beginning and ending --------------------------------------------------------------------------------------

    def begin(self, members: tuple[str, ...], *, primary: bool) -> list[Action]:
        """The view is recovered, by these servers: a primary component or not."""
        queue = self.journal.ledger.queue
        self.sending, self.keeping, self.members, self.cap = True, False, members, None
        self.acknowledgements = Acknowledgements(dict.fromkeys(members, queue.yellow)) if primary else None
        self.acknowledged = self._written_yellow = queue.yellow
        self.outbox.received(queue.counters.get(self.outbox.origin, 0))
        actions: list[Action] = [self._regular(message) for message in self.outbox.pending]
        return [*actions, *self.go_on(), *self.settle_soon()]

    def signal(self) -> None:
        """The view is in transition: nothing becomes green any more, and what comes is red."""
        self.keeping = self.sending
        self.sending = False
        self.acknowledgements = None

    def end(self) -> None:
        """The view is over."""
        self.sending = self.keeping = False
        self.acknowledgements, self.members = None, ()

    # --- the application -------------------------------------------------------------------------------------------

    def on_appends(self, appends: Sequence[tuple[int, bytes]]) -> list[Action]:
        """Take records, or refuse them when too much waits."""
        actions: list[Action] = []
        for request, record in appends:
            if reason := self._why_refused(record):
                actions.append(AppendRefused(request, reason))
            else:
                self.outbox.want(request, record)
        return [*actions, *self.go_on()]

    def _why_refused(self, record: bytes) -> str:
        outbox, settings = self.outbox, self.settings
        if len(record) > settings.record_bytes_max:
            return f"a record has at most {settings.record_bytes_max} bytes"
        if self.is_retired:
            return "this server was removed"
        if self.low:
            return "the disk of this server is nearly full"
        if self.journal.ledger.queue.held_bytes >= settings.held_bytes_max:
            return self._why_held()
        if len(outbox.waiting) >= settings.waiting_records_max or outbox.waiting_bytes >= settings.waiting_bytes_max:
            return f"{len(outbox.waiting)} records wait already"
        return ""

    def _why_held(self) -> str:
        """What would let some of the messages be forgotten."""
        queue, snapshot = self.journal.ledger.queue, self.journal.ledger.snapshot
        text = f"{queue.held_bytes} bytes of messages are held, of at most {self.settings.held_bytes_max}"
        if self.settings.snapshots and self.white > (snapshot.head.place if snapshot else 0):
            return f"{text}: the application must offer a state that stands for some of them"
        if self.white < queue.green:
            late = self.greens.behind(queue.configuration.servers, self.white + 1)
            return f"{text}: {', '.join(late)} must have them too, or be removed"
        return f"{text}: they are not green yet, or somebody who learns needs them"

    def reconfigure(self, following: Configuration) -> list[Action]:
        """Send the next configuration, as a message."""
        message = self.outbox.initiate_change(self.journal.ledger.queue.lamport, following)
        return [telling.initiated(self.settings.server, message), self._regular(message)]

    def go_on(self) -> list[Action]:
        """Unless a write is under way: write what gathered, and behind it send what waits, or acknowledge."""
        if self.journal.under_way or not self.sending:
            return []
        actions: list[Action] = []
        if self.journal.is_urgent and self._own >= self._awaited:
            actions += self.write_all()
        sent = self._send_waiting()
        if self.is_primary and not sent and self._written_yellow > self.acknowledged:
            sent = [self._acknowledge()]
        return actions + sent

    @property
    def _own(self) -> int:
        """The counter of our last message that came back."""
        return self.journal.ledger.queue.counters.get(self.outbox.origin, 0)

    def write_all(self) -> list[Action]:
        """Give everything to the disk; from here on it may be acknowledged."""
        actions = self.journal.flush()
        queue = self.journal.ledger.queue
        self._written_yellow, self._written_green = queue.yellow, queue.green
        return actions

    def _send_waiting(self) -> list[Action]:
        actions: list[Action] = []
        outbox = self.outbox
        while outbox.waiting and len(outbox.pending) < self.settings.messages_under_way_max:
            message, requests = outbox.initiate(self.journal.ledger.queue.lamport)
            actions.append(telling.initiated(self.settings.server, message))
            actions.append(AppendNamed(requests, message))
            actions.append(self._regular(message))
        return actions

    def _regular(self, message: Message) -> Action:
        self._told()
        return self.session.send(Regular(self.session.view, self.acknowledged, self._written_green, message))

    def _acknowledge(self) -> Action:
        self._told()
        return self.session.send(Acknowledged(self.session.view, self.acknowledged, self._written_green))

    def _told(self) -> None:
        self.acknowledged = self._written_yellow if self.is_primary else 0
        self._told_green = self._written_green

    # --- messages --------------------------------------------------------------------------------------------------

    def on_regular(self, server: str, wire: Regular) -> list[Action]:
        """Into the queue, to the disk, then acknowledge [COReL 5.5]."""
        if not (self.sending or self.keeping):
            return []
        message, queue = wire.message, self.journal.ledger.queue
        known = queue.counters.get(message.origin, 0)
        if message.origin.server != server or message.is_header or message.counter > known + 1:
            raise RemoteProtocolError(f"{server} sent {message} after {message.origin}:{known}")
        actions = self.on_acknowledged(server, wire)
        if message.counter <= known:
            return actions
        yellow = self.is_primary
        if not self.journal.is_urgent:
            self._awaited = self.outbox.initiated
        behind = telling.received(self.settings.server, message, yellow=yellow)
        self.journal.write(r.Received((message,), yellow), *behind)
        if message.origin == self.outbox.origin:
            self.outbox.received(message.counter)
        if message.change is not None:
            self._limit()
        return [*actions, *self.go_on()]

    def _limit(self) -> None:
        """A reconfiguration becomes green only in a quorum of the new set too, and nothing behind it before it does."""
        ledger, members = self.journal.ledger, frozenset(self.members)
        if self.cap is None and not all(each.would_hold(members, ledger.history) for each in ledger.queue.coming()):
            self.cap = ledger.queue.end - 1

    def on_acknowledged(self, server: str, wire: Acknowledged | Regular) -> list[Action]:
        """Order Rule 1: what all members of the primary component acknowledged is green."""
        actions: list[Action] = []
        if self.acknowledgements is not None:
            self.acknowledgements.take(server, wire.acknowledged)
            place = self.acknowledgements.by_all()
            actions = self._mark_green(place if self.cap is None else min(place, self.cap))
        if server in self.journal.ledger.queue.configuration.servers:
            self.greens.take(server, wire.green)
        return [*actions, *self.whiten()]

    def _mark_green(self, place: int) -> list[Action]:
        ledger = self.journal.ledger
        before, records_before = ledger.queue.green, ledger.queue.green_records
        if place <= before:
            return []
        self.journal.write(r.Greened(place))
        return [*telling.greened(self.settings.server, ledger, before, records_before), *self.settle_soon()]

    # --- settling: the green line on disk, and what is white ---------------------------------------------------------

    def settle_soon(self) -> list[Action]:
        """Arm the timer that makes the green line known."""
        return [SetTimer(SETTLE, self.settings.settle_us)]

    def settle(self) -> list[Action]:
        """Write the green line if nothing did, and tell it if no message did."""
        if not self.sending:
            return []
        if self.journal.under_way:
            return self.settle_soon()
        actions = self.write_all()
        if self._written_green > self._told_green:
            actions.append(self._acknowledge())
        self.greens.take(self.settings.server, self._written_green)
        return [*actions, *self.whiten()]

    def whiten(self) -> list[Action]:
        """Tell what every server of the green prefix has green, and forget it if a snapshot covers it [COReL 3.3]."""
        queue = self.journal.ledger.queue
        actions: list[Action] = []
        place = min(self.greens.white(queue.configuration.servers), self._written_green)
        if self.white < queue.forgotten:
            self.white, self._white_records = queue.forgotten, queue.forgotten_records
        if place > self.white:
            self._white_records += sum(len(message.records) for message in queue.between(self.white, place))
            self.white = place
            actions = [Record(trace.Whitened(self.settings.server, place)), DeliverWhite(self._white_records)]
        self._forget()
        return actions

    def _forget(self) -> None:
        if not self.sending:
            return  # who still needs what is seen in the next view
        ledger, place = self.journal.ledger, self.white
        if self.settings.snapshots:
            place = self.lending.limit(min(place, ledger.snapshot.head.place if ledger.snapshot else 0))
        if place > ledger.queue.forgotten:
            self.journal.write(r.Forgotten(place))

    def why_not_kept(self, position: int) -> str:
        """Why a state at this position would not be kept; empty if it would."""
        ledger = self.journal.ledger
        if ledger.arriving is not None and not self.sending:  # who takes part waits for no state
            later = ledger.arriving.begun.head.position
            return f"a state at position {later} is on its way from another server"
        if reason := why_unfit(ledger.queue, position):
            return reason
        if ledger.snapshot is not None and place_of(ledger.queue, position)[0] <= ledger.snapshot.head.place:
            return f"a state at position {ledger.snapshot.head.position} stands for the same messages, or for more"
        return ""

    def on_snapshot(self, event: SnapshotOffered) -> list[Action]:
        """Keep the application's state, if nothing speaks against it."""
        if self.why_not_kept(event.position):
            return []
        head = head_of(self.journal.ledger.queue, event.position, event.state, event.digest)
        assert head is not None
        self.journal.write(r.SnapshotBegun(head, False))
        for piece in pieces_of(event.state):
            self.journal.write(r.SnapshotPiece(piece))
        digest = telling.state_digest(event.state, event.digest)
        entry = trace.SnapshotKept(self.settings.server, head.place, head.position, digest)
        actions = [*self.write_all(), Record(entry)]
        self._forget()
        return actions
