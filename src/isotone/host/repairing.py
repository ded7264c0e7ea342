"""Repair of damaged records of a replica's log, from the messages that other servers have.

Each record is one step of the algorithm, and what it may be follows from the state before it: the next messages of the
order as a peer has them, the next place of a line, the next number; and from what the log says later; or one bit was
flipped. Of a damaged record length and checksum are known. A checksum of 32 bits fits by chance once in four thousand
million times, and candidates may be millions: so all are looked at, and only if one alone fits it is what stood there.
What is then left, or of which not even the checksum is known, is not repaired: then the server is removed, and a new
one added.

Implements: docs/protocols/host.md, "Scrub".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol
from zlib import crc32

import msgspec

from isotone.core.errors import InputError, IsotoneError
from isotone.corel import records as r
from isotone.corel.configuration import Configuration
from isotone.corel.identities import log_identity
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import Majority, Primary, Rule
from isotone.corel.repair import Others, candidates_for, rarer_candidates
from isotone.host.correction import corrections
from isotone.host.inspect import read_one, readable
from isotone.host.scrub import repair
from isotone.host.segments import Found, Place, escape, segment_path
from isotone.host.store import LOGS, identity_of, owner_of

RUN_MAX = 4_096
"""So many messages at most stand in one record that is looked for."""
INCARNATIONS_MAX = 64
DO_INSTEAD = "remove this server, and add a new one: isotone replica remove, isotone replica add"


class Source(Protocol):
    """Other servers, as far as they answer."""

    def messages(self, after: int, count: int) -> list[Message]:
        """The messages at places after + 1 … in the order of a peer, as many as it has."""

    def primaries(self) -> list[Primary]:
        """Primary components that peers know of."""

    def forcings(self) -> list[tuple[int, Configuration]]:
        """Of each peer its fence, with the configuration that this made, and with that of its green prefix."""

    def state(self) -> bytes:
        """The newest snapshot of a peer."""


@dataclass
class Outcome:
    """What came of it."""

    repaired: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def scrub(path: Path, source: Source, servers: tuple[str, ...] = (), rule: Rule | None = None) -> Outcome:
    """Repair what can be repaired in the store of a server that does not run.

    ``servers`` are the founders, and ``rule`` is theirs.
    """
    directory = path / LOGS / escape(LOG)
    with readable(directory):
        if not directory.is_dir():
            raise InputError(f"{path} is no store of a replica")
    found = read_one(directory)
    outcome = Outcome()
    ledger = Ledger.founded(servers, rule or Majority(servers))
    ledger.ready = not servers or owner_of(path) in servers
    right = _found_again(found, source, ledger, outcome)
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
    fit = {
        data
        for data in candidates(ledger, source, place.length, _later(found, number), _identities(found.directory))
        if len(data) == place.length and crc32(data) == place.checksum
    }
    fit |= {data for data in corrections(_damaged(found, place), place.checksum) if _is_record(data)}
    if len(fit) == 1:
        return fit.pop()
    why = f"{len(fit)} different records fit its checksum" if fit else "it is nothing that other servers know"
    outcome.reasons.append(f"record {number} of {place.length} bytes: {why}; {DO_INSTEAD}")
    return None


def _identities(directory: Path) -> list[bytes]:
    """By which the log may be known, if it was begun in one of the first incarnations of its store."""
    store = identity_of(directory.parent.parent).bytes
    return [log_identity(store, incarnation) for incarnation in range(1, INCARNATIONS_MAX)]


def _later(found: Found, number: int) -> list[r.Record]:
    """What stands behind it, as far as it can be read."""
    later = (found.records.get(each) for each in range(number + 1, found.next))
    return [r.decode_record(data) for data in later if data is not None and _is_record(data)]


def _damaged(found: Found, place: Place) -> bytes:
    path = segment_path(found.directory, place.segment)
    with readable(path), path.open("rb") as file:
        file.seek(place.offset)
        return file.read(place.length)


def _is_record(data: bytes) -> bool:
    try:
        r.decode_record(data)
    except IsotoneError:
        return False
    return True


# --- what may have stood there ----------------------------------------------------------------------------------------


def candidates(
    ledger: Ledger, source: Source, length: int, later: Sequence[r.Record] = (), identities: Sequence[bytes] = ()
) -> Iterator[bytes]:
    """The records of at most this length that are possible in this state, the likely ones first."""
    fit, primaries = _within(source.messages(ledger.queue.end, RUN_MAX), length), source.primaries()
    yield from candidates_for(ledger, fit, primaries)
    messages = partial(source.messages, count=RUN_MAX)
    others = Others(messages, primaries, source.forcings(), later, source.state, identities)
    yield from rarer_candidates(ledger, others, length)


def _within(messages: Sequence[Message], length: int) -> list[Message]:
    """As many as a record of this length may hold."""
    fit: list[Message] = []
    for message in messages:
        length -= len(msgspec.msgpack.encode(message))
        if length < 0:
            break
        fit.append(message)
    return fit
