"""All durable state of a server, and how each record changes it: live and when a log is read again, by one function.

Implements: [COReL 5.5], [COReL 5.6], the variables on stable storage. Deviations: D-log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from isotone.core.contract import StoredLog
from isotone.core.errors import LocalProtocolError
from isotone.corel import records as r
from isotone.corel.message import Message, Origin
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import History

KEPT_BYTES_MAX = 256 * 1024


@dataclass
class Ledger:
    """What a crash does not take, once it is written."""

    history: History
    queue: MessageQueue = field(default_factory=MessageQueue)
    life: int = 0
    committed: int = 0  # Last_Committed_Primary
    attempted: int = 0  # Last_Attempted_Primary
    _laid: dict[tuple[Origin, int], Message] = field(default_factory=dict)
    _checkpoint: list[r.Record] | None = None  # a checkpoint while it is read

    def apply(self, record: r.Record) -> None:
        """One step."""
        if isinstance(record, r.Checkpoint | r.Kept | r.CheckpointEnded):
            self._take_checkpoint(record)
            return
        self._checkpoint = None  # a checkpoint that ends in something else was torn by a crash
        queue = self.queue
        match record:
            case r.Received(messages, yellow):
                queue.append(messages, yellow=yellow)
            case r.Greened(place):
                queue.mark_green(place)
            case r.Inserted(messages):
                queue.insert(messages)
            case r.Laid(messages):
                self._laid |= {message.name: message for message in messages}
            case r.Arranged():
                self._arrange(record)
            case r.Attempted(number):
                self.attempted = number
            case r.Committed(primary):
                self.committed = primary.number
                self.history = self.history.committed(primary)
                queue.mark_all_yellow()
            case r.Established(primary):
                self.history = self.history.established(primary)
                queue.mark_green(queue.yellow)
            case r.Forgotten(place):
                queue.forget(place)
            case r.Lived(life):
                self.life = life

    def _arrange(self, record: r.Arranged) -> None:
        """Steps 3 and 6 as one: what is laid aside and not named is forgotten."""
        queue = self.queue
        own = {message.name: message for message in queue.between(queue.green, queue.end)}
        order = [own.get(name) or self._laid[name] for name in record.order]
        queue.arrange(order, green=record.green, yellow=record.yellow)
        self.committed = record.committed
        self.history = record.history
        self._laid.clear()

    def clear_laid(self) -> None:
        """A recovery was broken off; what was laid aside is not counted on."""
        self._laid.clear()

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def checkpoint(self) -> Iterator[r.Record]:
        """The records that say all again."""
        queue = self.queue
        counters = tuple(sorted(queue.counters.items()))
        yield r.Checkpoint(
            self.life,
            self.committed,
            self.attempted,
            self.history,
            queue.forgotten,
            queue.green,
            queue.yellow,
            queue.green_records,
            queue.lamport,
            counters,
        )
        for messages in in_chunks(queue.held, KEPT_BYTES_MAX):
            yield r.Kept(messages)
        yield r.CheckpointEnded()

    def _take_checkpoint(self, record: r.Record) -> None:
        if isinstance(record, r.Checkpoint):
            self._checkpoint = [record]
            return
        assert self._checkpoint is not None, "a checkpoint is written in one piece"
        if isinstance(record, r.Kept):
            self._checkpoint.append(record)
        else:
            parts, self._checkpoint = self._checkpoint, None
            self._become(parts)

    def _become(self, parts: list[r.Record]) -> None:
        head = parts[0]
        assert isinstance(head, r.Checkpoint)
        self.life, self.committed, self.attempted = head.life, head.committed, head.attempted
        self.history = head.history
        held = [message for part in parts[1:] if isinstance(part, r.Kept) for message in part.messages]
        self.queue = queue = MessageQueue(
            head.forgotten, head.green, head.yellow, head.green_records, held, dict(head.counters), head.lamport
        )
        kept = sum(len(message.records) for message in queue.between(queue.forgotten, queue.green))
        queue.forgotten_records = queue.green_records - kept
        self._laid.clear()

    def restore(self, log: StoredLog) -> None:
        """Read the log. A checkpoint at its end that is not whole is as if it were not there."""
        if log.damaged:
            numbers = ", ".join(map(str, log.damaged))
            raise LocalProtocolError(f"the log is damaged at {numbers}: it must be repaired from another server")
        for data in log.records:
            self.apply(r.decode_record(data))
        self._checkpoint = None
        self._laid.clear()


def in_chunks(messages: Iterable[Message], bytes_max: int) -> Iterator[tuple[Message, ...]]:
    """Cut into runs of at most so many bytes, a message larger than that alone."""
    chunk: list[Message] = []
    size = 0
    for message in messages:
        if chunk and size + message.size > bytes_max:
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(message)
        size += message.size
    if chunk:
        yield tuple(chunk)
