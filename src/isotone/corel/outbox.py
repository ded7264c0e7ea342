"""What this server wants ordered: records that wait, and messages sent that it has not yet received itself.

Implements: [COReL 5.5], the down-call. Deviations: D-again a message that the sender did not receive in the view that
it was sent in is sent again, under its name and timestamp; who has it already passes it over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isotone.corel.configuration import Configuration
from isotone.corel.message import RECORD_OVERHEAD, Message, Origin


@dataclass
class Outbox:
    """Of one life."""

    origin: Origin
    message_bytes_max: int
    waiting: deque[tuple[int, bytes]] = field(default_factory=deque)  # request and record
    waiting_bytes: int = 0
    initiated: int = 0  # the counter of the last message
    lamport: int = 0  # the timestamp of the last message
    pending: deque[Message] = field(default_factory=deque)  # sent, in order, and not in our own queue yet

    def want(self, request: int, record: bytes) -> None:
        """Take a record."""
        self.waiting.append((request, record))
        self.waiting_bytes += len(record)

    def initiate(self, lamport: int) -> tuple[Message, tuple[int, ...]]:
        """Put records that wait into one message, as many as fit; at least one waits. ``lamport``: the highest seen."""
        requests: list[int] = []
        records: list[bytes] = []
        size = 0
        while self.waiting and (not records or size + len(self.waiting[0][1]) <= self.message_bytes_max):
            request, record = self.waiting.popleft()
            requests.append(request)
            records.append(record)
            size += len(record) + RECORD_OVERHEAD
            self.waiting_bytes -= len(record)
        return self._initiate(lamport, tuple(records), None), tuple(requests)

    def initiate_change(self, lamport: int, change: Configuration) -> Message:
        """A reconfiguration, in a message of its own."""
        return self._initiate(lamport, (), change)

    def _initiate(self, lamport: int, records: tuple[bytes, ...], change: Configuration | None) -> Message:
        self.initiated += 1
        self.lamport = max(self.lamport, lamport) + 1
        message = Message(self.origin, self.initiated, self.lamport, records, change)
        self.pending.append(message)
        return message

    def received(self, counter: int) -> None:
        """Our own messages up to this one are in our queue."""
        while self.pending and self.pending[0].counter <= counter:
            self.pending.popleft()
