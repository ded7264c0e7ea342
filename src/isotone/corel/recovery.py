"""Recovery in one view, once all states are there: priority messages, then red ones.

It says what to write and what to send; it holds nothing that must survive. All members pass its phases at the same
places of the group's order, so each knows when all have everything.

Implements: [COReL 5.6.2, Steps 3 to 7], [COReL Figure 3]. Deviations: D-window a few parcels are under way at a time;
D-red priority messages stand at the end of the queue, red, until all are there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isotone.core.errors import RemoteProtocolError
from isotone.corel import records as r
from isotone.corel.checkpoint import in_chunks
from isotone.corel.exchange import Name, Plan, priority_of, retransmitters
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.wire import Priority, Retransmitted

PARCEL_BYTES_MAX = 32 * 1024
PARCELS_MAX = 4


@dataclass
class Recovery:
    """One run of the procedure; a new view begins a new one."""

    me: str
    view: str
    plan: Plan
    ledger: Ledger
    writes: list[r.Record] = field(default_factory=list)  # applied already, to be written before what is sent
    sends: list[Priority | Retransmitted] = field(default_factory=list)
    new: list[Message] = field(default_factory=list)  # in the queue since the last look, and not before
    is_arranged: bool = False  # Step 6 is done
    done: bool = False
    _order: list[Name] = field(default_factory=list)  # the agreed order behind what all have green, as it arrives
    _parcels: deque[Priority] = field(default_factory=deque)
    _missing: dict[Name, str] = field(default_factory=dict)  # not yet retransmitted, and by whom
    _red: deque[Message] = field(default_factory=deque)  # own red messages that were not yet looked at for sending
    _under_way: int = 0

    def begin(self) -> None:
        """Step 3 for representatives; Step 5 where there are others."""
        plan, queue = self.plan, self.ledger.queue
        assert plan.ordered <= plan.green <= plan.yellow, "a representative lacks what is green somewhere"
        if not plan.needs_priority:
            self._order = [message.name for message in queue.between(plan.ordered, plan.yellow)]
            self._arrange(self._order[queue.green - plan.ordered :])
            return
        if self.me == plan.chosen:
            stretch = queue.between(plan.ordered, plan.yellow)
            first = plan.ordered + 1
            for messages in in_chunks(priority_of(plan, stretch), PARCEL_BYTES_MAX):
                self._parcels.append(Priority(self.view, first, messages))
                first += len(messages)
            self._send_parcels()
        if plan.ordered == plan.yellow:
            self._arrange([])

    def _send_parcels(self) -> None:
        while self._parcels and self._under_way < PARCELS_MAX:
            self._under_way += 1
            self.sends.append(self._parcels.popleft())

    # --- priority messages -----------------------------------------------------------------------------------------

    def on_priority(self, sender: str, message: Priority) -> None:
        """Step 5: take what is new behind all else, red, so that it stays if the view ends; Step 6 when all is here."""
        plan, queue = self.plan, self.ledger.queue
        expected = plan.ordered + len(self._order) + 1
        if sender != plan.chosen or message.first != expected:
            raise RemoteProtocolError(f"{sender} sent priority messages from {message.first}, expected {expected}")
        if self.me == plan.chosen:
            self._under_way -= 1
            self._send_parcels()
        new = tuple(each for each in message.messages if not each.is_header and not queue.has(each.name))
        if new:
            self._write(r.Received(new, yellow=False))
            self.new += new
        self._order += [each.name for each in message.messages]
        if plan.ordered + len(self._order) == plan.yellow:
            self._arrange(self._order[queue.green - plan.ordered :])

    def _arrange(self, order: list[Name]) -> None:
        """Steps 3 and 6: lines and order as the representatives have them; the rest is red, by timestamp."""
        plan, queue = self.plan, self.ledger.queue
        committed, applied = plan.vouched
        context, context_applied = plan.context
        lines = (committed, plan.green, plan.yellow)
        self._write(r.Arranged(*lines, tuple(order), plan.history, context, applied, context_applied))
        self.is_arranged = True
        self._missing = retransmitters(plan, set(self._order))
        self._red = deque(queue.between(plan.yellow, queue.end))
        self._retransmit()

    # --- red messages ----------------------------------------------------------------------------------------------

    def _retransmit(self) -> None:
        """Step 7 under the Retransmission Rule: in the queue's order, and none before one that another owes."""
        while self._under_way < PARCELS_MAX:
            parcel = self._next_parcel()
            if not parcel:
                break
            self._under_way += 1
            self.sends.append(Retransmitted(self.view, tuple(parcel)))
        self.done = not self._missing

    def _next_parcel(self) -> list[Message]:
        parcel: list[Message] = []
        size = 0
        while self._red:
            owner = self._missing.get(self._red[0].name, "")
            if owner not in {"", self.me} or (owner and parcel and size + self._red[0].size > PARCEL_BYTES_MAX):
                break
            message = self._red.popleft()
            if owner:
                parcel.append(message)
                size += message.size
        return parcel

    def on_retransmitted(self, sender: str, message: Retransmitted) -> None:
        """Insert what is new by timestamp; go on when what we waited for has come."""
        for each in message.messages:
            if self._missing.get(each.name) != sender or each.is_header:
                raise RemoteProtocolError(f"{sender} retransmitted {each}, which it does not owe")
        for each in message.messages:
            del self._missing[each.name]
        if sender == self.me:
            self._under_way -= 1
        new = tuple(each for each in message.messages if not self.ledger.queue.has(each.name))
        if new:
            self._write(r.Inserted(new))
            self.new += new
        self._retransmit()

    def _write(self, record: r.Record) -> None:
        self.ledger.apply(record)
        self.writes.append(record)
