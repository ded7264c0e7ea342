"""Repair of damaged records of a replica's log, from the messages that other servers have.

Each record is one step of the algorithm, and what it may be follows from the state before it: the next messages of the
order as a peer has them, the next place of a line, the next number. Of a damaged record length and checksum are known,
so the one candidate with these is what stood there. What no candidate fits, or of which not even the checksum is known,
is not repaired: then the server is removed, and a new one added.

Implements: docs/protocols/host.md, "Scrub".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from zlib import crc32

import msgspec

from isotone.core.errors import InputError, IsotoneError
from isotone.corel import records as r
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import History, Primary
from isotone.corel.repair import candidates_for
from isotone.host.replay import read_log
from isotone.host.scrub import repair
from isotone.host.segments import Found, escape
from isotone.host.store import LOGS

RUN_MAX = 4_096
"""So many messages at most stand in one record that is looked for."""
NUMBERS_AHEAD, TRIES_MAX = 64, 16
DO_INSTEAD = "remove this server, and add a new one: isotone replica remove, isotone replica add"


class Source(Protocol):
    """Other servers, as far as they answer."""

    def messages(self, after: int, count: int) -> list[Message]:
        """The messages at places after + 1 … in the order of a peer, as many as it has."""

    def primaries(self) -> list[Primary]:
        """Primary components that peers know of."""


@dataclass
class Outcome:
    """What came of it."""

    repaired: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def scrub(path: Path, source: Source, servers: tuple[str, ...] = ()) -> Outcome:
    """Repair what can be repaired in the store of a server that does not run; ``servers`` are the founders."""
    directory = path / LOGS / escape(LOG)
    if not directory.is_dir():
        raise InputError(f"{path} is no store of a replica")
    found = read_log(directory)
    outcome = Outcome()
    right = _found_again(found, source, Ledger(History(Primary(0, tuple(sorted(servers))))), outcome)
    if right:
        repair(path, LOG, right)
        outcome.repaired = sorted(right)
    outcome.left = [number for number in found.damaged if number not in right]
    return outcome


def _found_again(found: Found, source: Source, ledger: Ledger, outcome: Outcome) -> dict[int, bytes]:
    """From the first record on: each that is damaged is looked for in the state that those before it make."""
    right: dict[int, bytes] = {}
    for number in range(found.first, found.next):
        data = found.records.get(number)
        if data is None:
            data = _one(found, number, ledger, source, outcome)
            if data is None:
                return right  # behind a hole nothing is certain
            right[number] = data
        try:
            ledger.apply(r.decode_record(data))
        except (IsotoneError, AssertionError, KeyError) as error:
            outcome.reasons.append(f"record {number} does not follow from those before it: {error}")
            return {}
    return right


def _one(found: Found, number: int, ledger: Ledger, source: Source, outcome: Outcome) -> bytes | None:
    place = found.bad.get(number)
    if place is None:
        outcome.reasons.append(f"of record {number} not even the checksum is left; {DO_INSTEAD}")
        return None
    for data in candidates(ledger, source, place.length):
        if len(data) == place.length and crc32(data) == place.checksum:
            return data
    outcome.reasons.append(f"record {number} of {place.length} bytes is nothing that other servers know; {DO_INSTEAD}")
    return None


# --- what may have stood there ----------------------------------------------------------------------------------------


def candidates(ledger: Ledger, source: Source, length: int) -> Iterator[bytes]:
    """The records of at most this length that are possible in this state, the likely ones first."""
    queue = ledger.queue
    fit, primaries = _within(source.messages(queue.end, RUN_MAX), length), source.primaries()
    yield from candidates_for(ledger, fit, primaries)
    yield from map(r.encode_record, _rarer(ledger, source, primaries, length))


def _within(messages: Sequence[Message], length: int) -> list[Message]:
    """As many as a record of this length may hold."""
    fit: list[Message] = []
    for message in messages:
        length -= len(msgspec.msgpack.encode(message))
        if length < 0:
            break
        fit.append(message)
    return fit


def _rarer(ledger: Ledger, source: Source, primaries: Sequence[Primary], length: int) -> Iterator[r.Record]:
    """Of recoveries and checkpoints: messages from other places on, and primary components that peers know of."""
    queue = ledger.queue
    for start in dict.fromkeys((queue.end, queue.yellow, queue.green)):
        fresh = [each for each in source.messages(start, RUN_MAX) if not queue.has(each.name)]
        fit = tuple(_within(fresh, length))
        for kind in (r.Inserted, r.Laid, r.Kept):
            yield from (kind(fit[:count]) for count in range(len(fit), max(0, len(fit) - TRIES_MAX), -1))
    yield r.CheckpointEnded()
    yield from (r.Greened(line) for line in range(queue.yellow + 1, queue.end + 1))
    yield from (r.Lived(ledger.life + ahead) for ahead in range(2, NUMBERS_AHEAD))
    for primary in (ledger.history.last, *primaries):
        yield r.Committed(primary)
        yield r.Established(primary)
