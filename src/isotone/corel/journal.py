"""Writing the ledger: records gather while a write is under way, and go to the log together.

What promises something stands behind the `Persist` that makes it true. Lazy records (a green line, forgotten
messages) promise nothing that the log does not hold already, and wait for the next write or for the settling timer.
Messages that came one by one become one record, up to so many bytes: a disk may be slow for long.

Implements: [COReL 5.5], "written on stable storage before it is acknowledged". Deviations: D-log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

from isotone.core.contract import Action, Append, CutHead, Persist, StoredLog
from isotone.corel import records as r
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.ledger import Ledger

LOG = "log"
RECEIVED_BYTES_MAX = 256 * 1024  # of messages that came one by one and are written as one record
LAZY = (r.Greened, r.Established, r.Forgotten)


@dataclass
class Journal:
    """The one log of a server."""

    ledger: Ledger
    checkpoint_records: int
    under_way: int = 0  # how many writes are not yet durable
    _gathered: list[r.Record] = field(default_factory=list)  # applied, and not yet given to the disk
    _run_bytes: int = 0  # of the messages in the last of them
    _behind: list[Action] = field(default_factory=list)  # to be done when they are durable
    _ticket: int = 0
    _next: int = 1  # the number that the next record gets
    _since_checkpoint: int = 0
    _cut: dict[int, int] = field(default_factory=dict)  # when this ticket is durable, cut before this record
    _forgotten: int = 0  # where the last checkpoint began

    def begin(self, log: StoredLog) -> None:
        """Go on behind what was found."""
        self._next = log.first + len(log.records)
        self._since_checkpoint = len(log.records)
        self._forgotten = self.ledger.queue.forgotten

    @property
    def is_urgent(self) -> bool:
        """Whether something was gathered that is not lazy."""
        return any(not isinstance(record, LAZY) for record in self._gathered)

    @property
    def is_whole(self) -> bool:
        """Whether no snapshot is on its way."""
        return self.ledger.arriving is None

    def write(self, record: r.Record, *behind: Action) -> None:
        """Apply now; write with the next `flush`, and do the rest when it is durable."""
        self.ledger.apply(record)
        self.gather(record, *behind)

    def gather(self, record: r.Record, *behind: Action) -> None:
        """The same for a record that was applied already."""
        last = self._gathered[-1] if self._gathered else None
        if isinstance(record, r.Received) and self._fits(last, record):
            self._gathered[-1] = r.Received(last.messages + record.messages, last.yellow)
            self._run_bytes += _size(record)
        elif isinstance(last, r.Greened) and isinstance(record, r.Greened):
            self._gathered[-1] = record
        else:
            self._gathered.append(record)
            self._run_bytes = _size(record) if isinstance(record, r.Received) else 0
        self._behind += behind

    def _fits(self, last: r.Record | None, record: r.Received) -> TypeGuard[r.Received]:
        """Whether the last one can hold these too."""
        alike = isinstance(last, r.Received) and last.yellow == record.yellow
        return alike and self._run_bytes + _size(record) <= RECEIVED_BYTES_MAX

    def flush(self) -> list[Action]:
        """Give all that was gathered to the disk in one write."""
        if not self._gathered:
            return []
        actions = [self._persist(self._gathered), *self._behind]
        self._gathered, self._behind = [], []
        if self._since_checkpoint >= self.checkpoint_records and self._is_worth_it():
            start = self._next
            actions.append(self._persist(list(checkpoint_of(self.ledger))))
            self._cut[self._ticket] = start
            self._since_checkpoint, self._forgotten = 0, self.ledger.queue.forgotten
        return actions

    def _is_worth_it(self) -> bool:
        queue = self.ledger.queue
        return queue.forgotten - self._forgotten >= len(queue.held)

    def _persist(self, records: list[r.Record]) -> Persist:
        self._ticket += 1
        self.under_way += 1
        self._next += len(records)
        self._since_checkpoint += len(records)
        return Persist(self._ticket, [Append(LOG, r.encode_record(record)) for record in records])

    def on_persisted(self, ticket: int) -> list[Action]:
        """A write is durable; behind a checkpoint, the log before it goes."""
        self.under_way -= 1
        before = self._cut.pop(ticket, 0)
        if not before:
            return []
        self._ticket += 1
        self.under_way += 1
        return [Persist(self._ticket, [CutHead(LOG, before)])]


def _size(record: r.Received) -> int:
    return sum(message.size for message in record.messages)
