"""Checkpoints: a run of records that says again what is still needed, so that the log before it can go.

Implements: [COReL 3.3], "may discard messages when they become white". Deviations: D-log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from isotone.corel import records as r
from isotone.corel.message import Message
from isotone.corel.queue import MessageQueue
from isotone.corel.snapshot import Snapshot, pieces_of

if TYPE_CHECKING:
    from isotone.corel.ledger import Ledger

KEPT_BYTES_MAX = 256 * 1024


def checkpoint_of(ledger: Ledger) -> Iterator[r.Record]:
    """The records that say all again."""
    queue, snapshot = ledger.queue, ledger.snapshot
    yield r.Checkpoint(
        ledger.life,
        ledger.committed,
        ledger.attempted,
        ledger.history,
        queue.forgotten,
        queue.green,
        queue.yellow,
        queue.green_records,
        queue.lamport,
        tuple(sorted(queue.counters.items())),
        r.Knowledge(
            queue.configuration,
            queue.changed_at,
            ledger.context,
            ledger.base,
            ledger.fence,
            ledger.applied,
            ledger.vouches,
            ledger.ready,
            ledger.proposal,
            snapshot.head if snapshot else None,
            ledger.context_applied,
            ledger.forced,
            ledger.identity,
            ledger.set_back,
        ),
    )
    for messages in in_chunks(queue.held, KEPT_BYTES_MAX):
        yield r.Kept(messages)
    for piece in pieces_of(snapshot.state) if snapshot else []:
        yield r.KeptPiece(piece)
    yield r.CheckpointEnded()
    yield from _under_way(ledger)


def _under_way(ledger: Ledger) -> Iterator[r.Record]:
    """Behind it: a state that is not whole yet."""
    if ledger.arriving is not None:
        yield ledger.arriving.begun
        yield from (r.SnapshotPiece(piece) for piece in ledger.arriving.pieces if piece)


def become(ledger: Ledger, parts: list[r.Record]) -> None:
    """Read one that is whole."""
    head = parts[0]
    assert isinstance(head, r.Checkpoint)
    ledger.life, ledger.committed, ledger.attempted = head.life, head.committed, head.attempted
    ledger.history = head.history
    held = [message for part in parts[1:] if isinstance(part, r.Kept) for message in part.messages]
    queue = MessageQueue(
        head.forgotten, head.green, head.yellow, head.green_records, held, dict(head.counters), head.lamport
    )
    queue.configuration, queue.changed_at = ledger.queue.configuration, ledger.queue.changed_at
    queue.forgotten_records = queue.green_records - _records(queue.between(queue.forgotten, queue.green))
    ledger.queue = queue
    known = head.knowledge
    if known is None:
        return
    queue.configuration, queue.changed_at = known.configuration, known.changed_at
    ledger.context, ledger.base, ledger.fence, ledger.applied = known.context, known.base, known.fence, known.applied
    ledger.vouches, ledger.ready, ledger.proposal = known.vouches, known.ready, known.proposal
    ledger.context_applied, ledger.forced, ledger.identity = known.context_applied, known.forced, known.identity
    ledger.set_back = known.set_back
    if known.snapshot is not None:
        state = b"".join(part.data for part in parts if isinstance(part, r.KeptPiece))
        ledger.snapshot = Snapshot(known.snapshot, state)


def _records(messages: Iterable[Message]) -> int:
    return sum(len(message.records) for message in messages)


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
