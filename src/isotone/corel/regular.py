"""Regular messages: sending, receiving, acknowledging, and what becomes green and white by it.

Appends that come while a write is under way travel together behind it, with the acknowledgement of what was written.

Implements: [COReL 5.5], [COReL 5.2, Order Rule 1]. Deviations: D-cumulative, D-again; D-quiet acknowledgements are sent
in primary components only, for nobody counts them elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.core.contract import Action, Record, SetTimer
from isotone.core.errors import RemoteProtocolError
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.events import AppendNamed, AppendRefused, AppendWanted, DeliverWhite
from isotone.corel.journal import Journal
from isotone.corel.message import Message
from isotone.corel.ordering import Acknowledgements, Greens
from isotone.corel.outbox import Outbox
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
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
    sending: bool = False  # standing in a view, recovered, and not signalled
    keeping: bool = False  # signalled after that: what comes is kept red
    acknowledgements: Acknowledgements | None = None  # the primary component bit: set while there is one
    acknowledged: int = 0  # the last place acknowledged in this view
    _written_yellow: int = 0
    _written_green: int = 0
    _told_green: int = 0

    @property
    def is_primary(self) -> bool:
        """The primary component bit [COReL 5.2]: volatile, false after a restart."""
        return self.acknowledgements is not None

    # --- beginning and ending --------------------------------------------------------------------------------------

    def begin(self, primary: tuple[str, ...]) -> list[Action]:
        """The view is recovered: of a primary component, with these servers, or not."""
        queue = self.journal.ledger.queue
        self.sending, self.keeping = True, False
        self.acknowledgements = Acknowledgements(dict.fromkeys(primary, queue.yellow)) if primary else None
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
        self.acknowledgements = None

    # --- the application -------------------------------------------------------------------------------------------

    def on_append(self, event: AppendWanted) -> list[Action]:
        """Take a record, or refuse it when too much waits."""
        outbox, settings = self.outbox, self.settings
        if len(event.record) > settings.record_bytes_max:
            return [AppendRefused(event.request, f"a record has at most {settings.record_bytes_max} bytes")]
        if len(outbox.waiting) >= settings.waiting_records_max or outbox.waiting_bytes >= settings.waiting_bytes_max:
            return [AppendRefused(event.request, f"{len(outbox.waiting)} records wait already")]
        outbox.want(event.request, event.record)
        return self.go_on()

    def go_on(self) -> list[Action]:
        """Unless a write is under way: write what gathered, and behind it send what waits, or acknowledge."""
        if self.journal.under_way or not self.sending:
            return []
        actions: list[Action] = []
        if self.journal.is_urgent:
            actions += self.write_all()
        sent = self._send_waiting()
        if self.is_primary and not sent and self._written_yellow > self.acknowledged:
            sent = [self._acknowledge()]
        return actions + sent

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
        if message.origin.server != server or not message.records or message.counter > known + 1:
            raise RemoteProtocolError(f"{server} sent {message} after {message.origin}:{known}")
        actions = self.on_acknowledged(server, wire)
        if message.counter <= known:
            return actions
        yellow = self.is_primary
        behind = telling.received(self.settings.server, message, yellow=yellow)
        self.journal.write(r.Received((message,), yellow), *behind)
        if message.origin == self.outbox.origin:
            self.outbox.received(message.counter)
        return [*actions, *self.go_on()]

    def on_acknowledged(self, server: str, wire: Acknowledged | Regular) -> list[Action]:
        """Order Rule 1: what all members of the primary component acknowledged is green."""
        actions: list[Action] = []
        if self.acknowledgements is not None:
            self.acknowledgements.take(server, wire.acknowledged)
            actions = self._mark_green(self.acknowledgements.by_all())
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
        """Forget what every server has green [COReL 3.3]."""
        queue = self.journal.ledger.queue
        place = min(self.greens.white(), self._written_green)
        if place <= queue.forgotten:
            return []
        self.journal.write(r.Forgotten(place))
        return [Record(trace.Whitened(self.settings.server, place)), DeliverWhite(queue.forgotten_records)]
