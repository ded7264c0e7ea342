"""What one process did between a start, or a return of its centre, and the next: the unit that properties speak of.

Implements: [HAB 2.4], processes and groups. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from isotone.spec.verdicts import EventId
from isotone.trace import hab as trace
from isotone.trace.events import Row

Place = tuple[int, str, int, EventId, str, int]  # position, message, digest, event, role, epoch


def event_of(row: Row) -> EventId:
    """The id of a row."""
    return (row.node, row.incarnation, row.index)


@dataclass
class Life:
    """Rows of one process, in their order."""

    process: str
    centre: str
    incarnation: int
    life: int
    number: int = 0
    rows: list[Row] = field(default_factory=list)
    base: int = 0  # the position that it began behind
    delivered: list[Place] = field(default_factory=list)
    confirmed: int = 0  # the last position that it knew to be confirmed
    alone: tuple[int, int] | None = None  # how much was delivered, and confirmed, when it went on by an override
    out: EventId | None = None  # where it recorded that its centre is lost, or learned that it takes no part
    is_last: bool = True  # its process began no other life
    installed: bool = False

    @property
    def end(self) -> int:
        """The last position that it has."""
        return self.delivered[-1][0] if self.delivered else self.base


def lives_of(rows: Iterable[Row]) -> list[Life]:
    """All lives, by process and in their order."""
    found: list[Life] = []
    current: dict[str, Life] = {}
    for row in sorted(rows, key=event_of):
        entry = row.entry
        if not isinstance(entry, trace.HaRole | trace.HaDelivered | trace.HaInstalled | trace.HaDeclared):
            continue
        known = current.get(entry.process)
        number = getattr(entry, "life", known.life if known else 0)
        begins = known is None or known.incarnation != row.incarnation or number != known.life
        if begins:
            if known is not None:
                known.is_last = False
            known = Life(entry.process, entry.centre, row.incarnation, number)
            current[entry.process] = known
            found.append(known)
        assert known is not None
        _take(known, row)
    return found


def _take(life: Life, row: Row) -> None:
    entry = row.entry
    life.rows.append(row)
    match entry:
        case trace.HaInstalled():
            life.base, life.installed = entry.position, True
            life.delivered = []
            life.alone = life.alone and (0, 0)
        case trace.HaDelivered():
            life.number = entry.number
            life.confirmed = max(life.confirmed, entry.confirmed)
            for offset, (message, digest) in enumerate(zip(entry.messages, entry.digests, strict=False)):
                place = (entry.position + offset, message, digest, event_of(row), entry.role, entry.epoch)
                life.delivered.append(place)
        case trace.HaDeclared(effective=True) if entry.lost == life.centre:
            life.out = life.out or event_of(row)
        case trace.HaDeclared(effective=True, override=True):
            life.alone = life.alone or (len(life.delivered), life.confirmed)
        case trace.HaRole():
            life.number = entry.number or life.number
            if entry.role == "out" and entry.epoch:  # without an epoch it has not begun yet
                life.out = life.out or event_of(row)
