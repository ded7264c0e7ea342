"""Liveness: servers that are together in quiet have all that one of them has green at all.

Implements: [COReL 3.5], [COReL 7.2.2]. That some alone may order is the word of `OrderDue`; at the end it is owed by
all if they are one component.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.trace import corel as trace
from isotone.trace.events import Ended, Stabilised
from tests.spec.naive_corel.history import History, Log, Moment
from tests.spec.naive_corel.invariants import Cases


def all_ordered(history: History) -> Cases:
    """Of some alone, and at the end."""
    yield from _alone(history)
    yield from _at_the_end(history)


def is_left_open(history: History) -> bool:
    """Whether the run broke off before anything was owed at its end."""
    return any(not end.quiet for end in history.of_kind(Ended))


def _ended_in_quiet(history: History) -> bool:
    return any(end.quiet for end in history.of_kind(Ended))


def _alone(history: History) -> Cases:
    """Those to whom order was due at one time are in one primary component, and all that one of them has is green."""
    for due in _times(history):
        primaries = {_primary_at(log, moment) for log, moment in due}
        yield len(primaries) == 1 and None not in primaries
        moments = [moment for _, moment in due]
        yield from _green_at_all(moments, {name for moment in moments for name in moment.queue})


def _times(history: History) -> Iterable[list[tuple[Log, Moment]]]:
    """Where order was due to some servers, each time."""
    times: dict[tuple[tuple[str, ...], int], list[tuple[Log, Moment]]] = {}
    for log in history.logs:
        earlier: list[tuple[str, ...]] = []
        for moment in log.rows(trace.OrderDue):
            if not moment.is_own:
                continue
            assert isinstance(moment.entry, trace.OrderDue)
            servers = moment.entry.servers
            times.setdefault((servers, earlier.count(servers)), []).append((log, moment))
            earlier.append(servers)
    return times.values()


def _primary_at(log: Log, moment: Moment) -> tuple[int, tuple[str, ...]] | None:
    """The primary component that the server was in."""
    found: tuple[int, tuple[str, ...]] | None = None
    for each in log.moments[: log.moments.index(moment)]:
        match each.entry:
            case trace.PrimaryEstablished(primary=number, servers=servers):
                found = number, servers
            case trace.QueueArranged() | trace.ReplicaStarted() | trace.PrimaryAttempted():
                found = None
    return found


def _green_at_all(moments: list[Moment], names: set[str]) -> Cases:
    for moment in moments:
        yield moment.green_names >= names


def _at_the_end(history: History) -> Cases:
    """The servers of the longest green prefix owe what anybody has; a stranger neither owes nor has anything."""
    whole = [set(each.components[0]) for each in history.of_kind(Stabilised) if len(each.components) == 1]
    nodes = {log.moments[0].where[0] for log in history.everybody}
    if history.is_last and _ended_in_quiet(history) and any(nodes <= each for each in whole):
        there = {log.server: log.moments[-1] for log in history.logs if not _is_strange(history, log)}
        longest = max(there.values(), key=lambda moment: moment.green, default=None)
        votes = longest.servers if longest else ()
        owing = [moment for server, moment in there.items() if not votes or server in votes]
        yield from _green_at_all(owing, {name for moment in there.values() for name in moment.queue})


def _is_strange(history: History, log: Log) -> bool:
    """It is gone itself, or its server lost an earlier one and the last primary is without it."""
    if isinstance(log.moments[-1].entry, trace.DiskLost):
        return True
    established = [it for _, _, it in history.told(trace.PrimaryEstablished)]
    last = max(established, key=lambda it: it.primary).servers if established else ()
    has_lost = any(True for each in history.of(log.server) for _ in each.rows(trace.DiskLost))
    return has_lost and log.server not in last
