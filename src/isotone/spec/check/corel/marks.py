"""Where yellow comes from: a message is marked so in a primary component, and green only if it was yellow there.

A recovery takes marks back, or adopts those of others together with their primary component; it makes none. The commit
to a primary component makes all of the queue yellow, and the queue may be set anew in the same step.

Implements: [COReL 5.5], [COReL 5.6.1], [COReL 5.6.2 Steps 3 and 6]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace


def judge_marks(trails: list[Trail], account: Account) -> None:
    """Over all servers of a run, on any side of a fence."""
    marked = {name for trail in trails for name in _marked(trail)}
    for trail in trails:
        _judge_own(trail, account)
        _judge_adopted(trail, marked, account)


def judge_orders(side: Side, account: Account) -> None:
    """Those who are in one primary component mark in one order, also what none of them has green yet."""
    own = {event_of(row) for trail in side.own for row in trail.rows}
    known: dict[tuple[int, tuple[str, ...], int], tuple[str, EventId]] = {}  # by primary and place
    for trail in side.whole:
        primary: tuple[int, tuple[str, ...]] | None = None
        for row in trail.walk():
            entry = row.entry
            if isinstance(entry, trace.PrimaryCommitted):
                primary = (entry.primary, entry.servers)
                marked = _open_yellow(trail)
            elif isinstance(entry, trace.Yellowed):
                marked = list(entry.messages)
            else:
                primary = None if isinstance(entry, trace.QueueArranged | trace.ReplicaStarted) else primary
                continue
            if primary is None or not trail.is_told or event_of(row) not in own:
                continue
            for place, name in enumerate(marked, trail.yellow - len(marked) + 1):
                other, since = known.setdefault((*primary, place), (name, event_of(row)))
                if other != name:
                    text = f"In primary {primary[0]} {other} and {name} were marked yellow at place {place}."
                    account.accuse("YELLOW", (since, event_of(row)), text, proven=True)


def _marked(trail: Trail) -> Iterator[str]:
    """What this server marked itself; a mark that was on its way to the disk in a crash is told by the next start."""
    for row in trail.walk():
        match row.entry:
            case trace.Yellowed(messages=messages):
                yield from messages
            case trace.PrimaryCommitted() | trace.ReplicaStarted():
                yield from _open_yellow(trail)


def _open_yellow(trail: Trail) -> list[str]:
    return trail.queue[: max(0, trail.yellow - trail.green)]


def _judge_adopted(trail: Trail, marked: set[str], account: Account) -> None:
    for row in trail.walk():
        if isinstance(row.entry, trace.QueueArranged):
            for name in _open_yellow(trail):
                if name not in marked:
                    text = f"{trail.server} has {name} yellow after a recovery; nobody ever marked it."
                    account.accuse("YELLOW", (event_of(row),), text)
                    break


@dataclass
class _Before:
    """As it was before a row."""

    green: int
    yellow: int
    committed: int
    event: EventId


def _judge_own(trail: Trail, account: Account) -> None:
    """Nothing is known of a server whose record begins later than its life, until it tells its queue."""
    before: _Before | None = None
    is_in_primary = True
    is_attempting = False
    for row in trail.walk():
        entry, event = row.entry, event_of(row)
        match entry:
            case trace.PrimaryAttempted():
                is_in_primary, is_attempting = False, True
            case trace.PrimaryEstablished():
                is_in_primary, is_attempting = True, False
            case trace.Yellowed(messages=messages) if not is_in_primary:
                text = f"{trail.server} marks {' '.join(messages[:1])} yellow outside of a primary component."
                account.accuse("YELLOW", (event,), text, proven=True)
            case trace.QueueArranged() | trace.ReplicaStarted():
                is_outside = isinstance(entry, trace.QueueArranged) or not is_in_primary
                if before is not None and is_outside and not is_attempting and _is_raised(trail, before):
                    text = (
                        f"{trail.server} was yellow up to {before.yellow}, and outside of a primary component it "
                        f"marked up to {trail.yellow}."
                    )
                    account.accuse("YELLOW", (before.event, event), text, proven=True)
                is_in_primary = is_attempting = False
            case trace.Greened(proposal=0) if before is not None and trail.vouches:
                if trail.green > max(before.yellow, before.green):
                    text = f"{trail.server} has green up to {trail.green}; it was yellow up to {before.yellow}."
                    account.accuse("YELLOW", (before.event, event), text, proven=True)
        if before is not None or isinstance(entry, trace.QueueArranged | trace.ReplicaStarted):
            before = _Before(trail.green, trail.yellow, trail.committed, event)


def _is_raised(trail: Trail, before: _Before) -> bool:
    """Who adopts no primary component marks nothing in a recovery, nor by a restart; what is green is yellow too."""
    return trail.committed == before.committed and trail.yellow > max(before.yellow, trail.green)
