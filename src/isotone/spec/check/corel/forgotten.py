"""White that came too early: a server that others had to wait for gets a state instead of the messages.

Nothing is assumed about the order of rows across servers, so a state is no proof by itself: white may have been told
behind it. But whoever gives one has forgotten what it stands for, or got a state itself; and nobody may forget what a
server of its green prefix lacks. So a server that knows that it is one of them never gets a state, unless one without a
vote got one before, or those who went on had removed it.

Implements: [COReL 3.3], docs/protocols/corel-growth.md, state transfer. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.spec.check.account import Account
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace


@dataclass(frozen=True)
class _Installed:
    """A state that a server got."""

    server: str
    event: EventId
    green: int  # what it had green before, in any life of this log
    place: int
    is_asked: bool  # it knew that it is one of the servers, and none of its disks was lost


@dataclass(frozen=True)
class _White:
    event: EventId
    teller: str
    place: int
    servers: tuple[str, ...]  # of the green prefix; none if they are not told


def judge_forgotten(trails: list[Trail], account: Account) -> None:
    """Of one side of a fence: what its servers found on disk when it began may stand on a state too."""
    installed = [each for trail in trails for each in _installed(trail)]
    whites = [each for trail in trails for each in _whites(trail)]
    asked = sorted((each for each in installed if each.is_asked), key=lambda each: each.green)
    given = max((each.place for each in installed if not each.is_asked), default=0)
    given = max(given, max((_found(trail) for trail in trails), default=0))
    for each in asked:
        if any(white.servers and each.server not in white.servers for white in _beyond(whites, each)):
            given = max(given, each.place)
    for each in asked:  # the one with the least green first: a state that it may have, it may give
        if each.green < given:
            given = max(given, each.place)
            continue
        for white in _beyond(whites, each):
            text = (
                f"{white.teller} has white up to {white.place}; {each.server}, green up to {each.green}, got a state."
            )
            account.accuse("WHITE", (white.event, each.event), text)


def _beyond(whites: list[_White], installed: _Installed) -> list[_White]:
    return [white for white in whites if white.place > installed.green]


def _found(trail: Trail) -> int:
    entry = trail.rows[0].entry
    return entry.green if isinstance(entry, trace.ReplicaStarted) else 0


def _installed(trail: Trail) -> list[_Installed]:
    found: list[_Installed] = []
    green, servers = 0, tuple[str, ...]()
    for row in trail.walk():
        if isinstance(row.entry, trace.StateInstalled) and row.entry.place > green:
            is_asked = trail.server in servers and not trail.began_empty
            found.append(_Installed(trail.server, event_of(row), green, row.entry.place, is_asked))
        green, servers = max(green, trail.green), trail.servers
    return found


def _whites(trail: Trail) -> list[_White]:
    return [
        _White(event_of(row), trail.server, row.entry.place, trail.servers)
        for row in trail.walk()
        if isinstance(row.entry, trace.Whitened)
    ]
