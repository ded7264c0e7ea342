"""Repair of a damaged log: a damaged record is found again among those that could have stood there.

Servers do not have equal logs, so no peer has the record. But its length and checksum survive, what stands before and
behind it is known, and a peer has the messages: so all records that could follow are made, and the one with the
checksum is it. Nothing else is ever written; if none has it, the server must be replaced by one with a new name.

Implements: docs/protocols/corel.md, Durability. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import msgspec

from isotone.corel import records as r
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import Primary
from isotone.corel.repair_history import (
    Forcing,
    arrangements,
    beginnings,
    catchings_up,
    few_histories,
    forcings_in,
    primaries_in,
    proposals_in,
    servers_of,
    subsets,
    voted,
)
from isotone.corel.repair_messages import by_arrival, by_timestamp, held_in, room_in, runs
from isotone.corel.snapshot import digest_of, head_of, pieces_of

NUMBERS_MAX = 256  # so many attempts may have failed in a row
TRIED_BYTES_MAX = 100_000_000  # so many bytes of arrangements are tried, the likely ones first
SNAPSHOT_PIECE_MIN = 4  # no shorter record holds a piece of a state


def candidates_for(ledger: Ledger, messages: Sequence[Message], primaries: Sequence[Primary] = ()) -> Iterator[bytes]:
    """Every record that may follow in this state, if the messages behind the queue's end are these.

    ``primaries``: those that others know of.
    """
    return map(r.encode_record, _candidates(ledger, messages, primaries))


def _candidates(ledger: Ledger, messages: Sequence[Message], primaries: Sequence[Primary]) -> Iterator[r.Record]:
    queue, history = ledger.queue, ledger.history
    known = [each.number for each in (history.last, *history.pending, *primaries)]
    contexts = sorted({0, ledger.known_context, *known})
    for count in range(1, len(messages) + 1):
        yield r.Received(tuple(messages[:count]), True)
        yield r.Received(tuple(messages[:count]), False)
        yield from (r.Transferred(tuple(messages[:count]), context) for context in contexts)
    yield from _arrangements(ledger)
    yield from (r.Greened(place) for place in range(queue.green + 1, queue.yellow + 1))
    yield from (r.Forgotten(place) for place in range(queue.forgotten + 1, queue.green + 1))
    yield r.Lived(ledger.life + 1)
    yield from (r.Attempted(ledger.attempted + step) for step in range(1, NUMBERS_MAX))
    yield from (r.Established(primary) for primary in history.pending)
    for members in subsets(servers_of(ledger, primaries)):
        yield r.Committed(Primary(ledger.attempted, members))


def _arrangements(ledger: Ledger) -> Iterator[r.Arranged]:
    """Of recoveries that found nothing new: lines rise or fall, and the order stays."""
    queue = ledger.queue
    for green, yellow in ((queue.green, queue.yellow), (queue.yellow, queue.yellow), (queue.green, queue.green)):
        order = tuple(message.name for message in queue.between(queue.green, yellow))
        lines = (ledger.committed, green, yellow, order, ledger.history)
        yield r.Arranged(*lines, ledger.context, ledger.applied, ledger.context_applied)


# --- recoveries, checkpoints, and what is rare ------------------------------------------------------------------------


@dataclass
class Others:
    """What is known beside the state before the damage."""

    messages: Callable[[int], Sequence[Message]]  # those behind a place, in the order that another server has
    primaries: Sequence[Primary] = ()  # that other servers know of
    forcings: Sequence[Forcing] = ()  # their fences and configurations
    later: Sequence[r.Record] = ()  # what stands behind the damage in the same log
    state: Callable[[], bytes] = bytes  # the newest snapshot of another server
    identities: Sequence[bytes] = ()  # that this log may have


def rarer_candidates(ledger: Ledger, others: Others, length: int) -> Iterator[bytes]:
    """Records of this length that recoveries, checkpoints and operators write: many, the likely ones first."""
    return map(r.encode_record, _rarer(ledger, others, length))


def _rarer(ledger: Ledger, others: Others, length: int) -> Iterator[r.Record]:
    queue = ledger.queue
    forcings = list(dict.fromkeys([*others.forcings, *forcings_in(others.later)]))
    primaries = list(dict.fromkeys([*others.primaries, *primaries_in(others.later)]))
    yield from checkpoint_of(ledger)
    for number in (0, *range(ledger.last_number, ledger.last_number + NUMBERS_MAX)):
        yield from (r.Forced(*forcing, number) for forcing in forcings)
    yield from beginnings(ledger, [configuration for _, configuration in forcings], others.later, others.identities)
    yield r.SetBack()
    yield from (r.Lived(ledger.life + ahead) for ahead in range(2, NUMBERS_MAX))
    yield from (r.Greened(line) for line in range(queue.yellow + 1, queue.end + 1))
    for primary in (ledger.history.last, *primaries):
        yield r.Committed(primary)
        yield r.Established(primary)
    yield from _snapshots(ledger, others.later)
    yield from _held(ledger, others, primaries, length)
    yield from _proposed(ledger, others.later, primaries)
    forced = dict.fromkeys(configuration.servers for fence, configuration in forcings if fence)
    known = few_histories(ledger, primaries, _top(ledger, others.later, primaries), forced)
    told = others.messages(queue.green)
    for order in (told, queue.between(queue.green, queue.end)):
        yield from islice(arrangements(ledger, order, known, length), TRIED_BYTES_MAX // length)
    yield from catchings_up(ledger, known, length)
    if length > SNAPSHOT_PIECE_MIN:
        for piece in pieces_of(others.state()):
            yield from (r.KeptPiece(piece), r.SnapshotPiece(piece))


def _top(ledger: Ledger, later: Sequence[r.Record], primaries: Sequence[Primary]) -> int:
    """No primary that was known when the record was written had a number above this."""
    attempted = next((record.number for record in later if isinstance(record, r.Attempted)), 0)
    numbers = [each.number for each in (*primaries, ledger.history.last, *ledger.history.pending)]
    return attempted or max(ledger.attempted + 1, *numbers)


def _held(ledger: Ledger, others: Others, primaries: Sequence[Primary], length: int) -> Iterator[r.Record]:
    """Records that hold messages: in the order of another server, by timestamp, or as they may have come."""
    queue = ledger.queue
    told = [*others.messages(_kept_up_to(ledger)), *_fresh(ledger, others)]
    for messages in runs(told, room_in(r.Kept(()), length)):
        yield from (kind(messages) for kind in (r.Inserted, r.Kept))
    missing = [message for message in _fresh(ledger, others) if not queue.has(message.name)]
    numbers = {each.number for each in (ledger.history.last, *ledger.history.pending, *primaries)}
    for level in sorted({(number, applied) for number in (0, *numbers) for applied in (0, ledger.applied)}):
        room = room_in(r.Transferred((), *level), length)
        yield from (r.Transferred(messages, *level) for messages in runs(missing, room))
    room = room_in(r.Inserted(()), length)
    yield from map(r.Inserted, by_timestamp(missing, room))
    room = room_in(r.Received((), True), length)
    for messages in chain(runs(missing, room), by_timestamp(missing, room), by_arrival(missing, room)):
        yield r.Received(messages, True)
        yield r.Received(messages, False)


def _fresh(ledger: Ledger, others: Others) -> list[Message]:
    """What is not in the queue, in the order of another server; then what only this log says later."""
    queue = ledger.queue
    starts = (queue.green, queue.yellow, queue.end)
    told = next((found for found in map(others.messages, starts) if found), ())
    found = {message.name: message for message in (*told, *held_in(others.later))}
    return [message for message in found.values() if not queue.has(message.name)]


def _kept_up_to(ledger: Ledger) -> int:
    """Behind which place the next messages of a checkpoint stand."""
    parts = ledger.checkpoint_parts
    if not parts or not isinstance(parts[0], r.Checkpoint):
        return ledger.queue.end
    return parts[0].forgotten + sum(len(part.messages) for part in parts if isinstance(part, r.Kept))


def _snapshots(ledger: Ledger, later: Sequence[r.Record]) -> Iterator[r.Record]:
    """The head of one that was offered here, whose pieces follow; or a piece that a checkpoint says again."""
    for record in later:
        if isinstance(record, r.KeptPiece | r.SnapshotPiece):
            yield r.SnapshotPiece(record.data)
            yield r.KeptPiece(record.data)
    pieces: list[bytes] = []
    for record in later:
        if not isinstance(record, r.SnapshotPiece):
            break
        pieces.append(record.data)
    queue, state = ledger.queue, b"".join(pieces)
    digest = digest_of(state)
    for position in range(queue.green_records, queue.forgotten_records - 1, -1) if pieces else ():
        head = head_of(queue, position, b"")
        if head is not None:
            yield r.SnapshotBegun(msgspec.structs.replace(head, size=len(state), digest=digest), False)


def _proposed(ledger: Ledger, later: Sequence[r.Record], primaries: Sequence[Primary]) -> Iterator[r.Record]:
    known = [*([ledger.proposal] if ledger.proposal is not None else []), *proposals_in(later)]
    if not known:
        return
    servers = servers_of(ledger, primaries)
    for proposal in voted(known, servers):
        yield r.Proposed(proposal)
        yield r.Applied(proposal)
        yield r.Committed(Primary(ledger.attempted, servers), proposal)
