"""Repair of a damaged log: a damaged record is found again among those that could have stood there.

Servers do not have equal logs, so no peer has the record. But its checksum survives, what stands before it is known,
and a peer has the messages that follow there: so all records that could follow are made, and the one with the checksum
is it. Nothing else is ever written; if none has it, the server must be replaced by one with a new name.

Implements: docs/protocols/corel.md, Durability. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from isotone.corel import records as r
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import Primary

NUMBERS_MAX = 256  # so many attempts may have failed in a row
SUBSETS_MAX = 10  # servers whose subsets are tried as a primary


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
    servers = queue.configuration.servers[:SUBSETS_MAX]
    for size in range(1, len(servers) + 1):
        for members in combinations(servers, size):
            yield r.Committed(Primary(ledger.attempted, members))


def _arrangements(ledger: Ledger) -> Iterator[r.Arranged]:
    """Of recoveries that found nothing new: lines rise or fall, and the order stays."""
    queue = ledger.queue
    for green, yellow in ((queue.green, queue.yellow), (queue.yellow, queue.yellow), (queue.green, queue.green)):
        order = tuple(message.name for message in queue.between(queue.green, yellow))
        lines = (ledger.committed, green, yellow, order, ledger.history)
        yield r.Arranged(*lines, ledger.context, ledger.applied, ledger.context_applied)
