"""Quorum systems: which sets of servers may become a primary component.

A rule says of a set of servers, and of what is known about earlier primary components, whether it is a quorum. Static
rules look at the set alone; `DynamicVoting` asks for a part of the last primary, and of each one that was committed to
and perhaps established. Rules combine with `AllOf` and `AnyOf`. Two disjoint quorums are refused before anything runs.

Implements: [COReL 4.4], [COReL 7.2]. Deviations: D-half a majority is more than half: the thesis' floor(n/2) and
ceil(n/2) are none for even n. D-static dynamic voting stands alone or under `AllOf`, never under `AnyOf`: whether a
static quorum meets one that a history allows cannot be checked beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Protocol

import msgspec

from isotone.core.codec.control import Natural
from isotone.core.errors import LocalProtocolError

Servers = frozenset[str]
EXHAUSTIVE_MAX = 14  # so many servers at most are checked set by set


class Primary(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A primary component: its number and its servers, sorted. Number 0 is the set of all servers."""

    number: Natural
    servers: tuple[str, ...]


class History(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """What is known of earlier primaries: the last one established, and those committed to since then."""

    last: Primary
    pending: tuple[Primary, ...] = ()
    forced: bool = False  # the last one is no primary: an operator chose these servers, and they never met since

    def committed(self, primary: Primary) -> History:
        """Committed, perhaps established by others."""
        return History(self.last, (*self.pending, primary))

    def among(self, servers: Servers) -> History:
        """The same, of these servers only: who was removed, or never had a vote, is not asked [growth]."""
        parts = [Primary(each.number, tuple(s for s in each.servers if s in servers)) for each in self._all()]
        return History(parts[0], tuple(parts[1:]), self.forced)

    def answered_by(self, members: Servers) -> History:
        """The same, with these in place of a primary of which nobody stays: nobody else could ever answer for it."""
        parts = [each if each.servers else Primary(each.number, tuple(sorted(members))) for each in self._all()]
        return History(parts[0], tuple(parts[1:]), self.forced)

    def _all(self) -> tuple[Primary, ...]:
        return (self.last, *self.pending)

    @property
    def formed(self) -> tuple[Primary, ...]:
        """The primaries that were committed to, as far as it is known still; no set that was given or forced."""
        known = self.pending if self.forced else self._all()
        return tuple(each for each in known if each.number)

    def established(self, primary: Primary) -> History:
        """It is the last one now; what came before it no longer matters."""
        if primary.number < self.last.number:
            return self
        return History(primary, tuple(each for each in self.pending if each.number > primary.number))


def merged(histories: list[History]) -> History:
    """What servers that meet know together [COReL 7.2.2]."""
    first = max(histories, key=lambda history: history.last.number)
    last = first.last
    pending = {each.number: each for history in histories for each in history.pending if each.number > last.number}
    return History(last, tuple(pending[number] for number in sorted(pending)), first.forced and not pending)


def doubled(histories: Iterable[History]) -> dict[int, tuple[Primary, ...]]:
    """Numbers that more than one primary has, and these.

    Who attempted a number never attempts it again, and quorums meet, so only one set of servers commits to it [COReL
    Claim 4]; unless a log was set back to before its attempt.
    """
    known: dict[int, set[Primary]] = {}
    for each in (each for history in histories for each in history.formed):
        known.setdefault(each.number, set()).add(each)
    return {
        number: tuple(sorted(found, key=lambda each: each.servers))
        for number, found in sorted(known.items())
        if len(found) > 1
    }


def formed_twice(primaries: tuple[Primary, ...]) -> str:
    """For an operator, who alone can choose."""
    sets = " and by ".join(" ".join(each.servers) for each in primaries)
    return (
        f"primary {primaries[0].number} was formed twice, by {sets}: "
        "a disk lost what was acknowledged, or is an older copy, and both may have ordered. "
        "Nobody orders until one is chosen: stop the servers of the other and replace them, or recover without them"
    )


class Quorum(Protocol):
    """A rule."""

    def holds(self, members: Servers, history: History) -> bool:
        """Whether these servers, connected, may become a primary component."""
        ...

    def describe(self) -> str:
        """The rule in words."""
        ...


class Majority(msgspec.Struct, frozen=True, tag=True):
    """More than half of all servers."""

    servers: tuple[str, ...]

    def holds(self, members: Servers, history: History) -> bool:
        return 2 * len(members & set(self.servers)) > len(self.servers)

    def describe(self) -> str:
        return f"more than half of {len(self.servers)} servers"


class Weighted(msgspec.Struct, frozen=True, tag=True):
    """More than half of all votes. A server without an entry has none."""

    votes: dict[str, int]

    def holds(self, members: Servers, history: History) -> bool:
        return 2 * sum(self.votes.get(each, 0) for each in members) > sum(self.votes.values())

    def describe(self) -> str:
        return f"more than half of {sum(self.votes.values())} votes"


class TieBreaker(msgspec.Struct, frozen=True, tag=True):
    """More than half of all servers, or exactly half with this one among them."""

    servers: tuple[str, ...]
    breaker: str

    def holds(self, members: Servers, history: History) -> bool:
        present = 2 * len(members & set(self.servers))
        return present > len(self.servers) or (present == len(self.servers) and self.breaker in members)

    def describe(self) -> str:
        return f"more than half of {len(self.servers)} servers, or half with {self.breaker}"


class Monarch(msgspec.Struct, frozen=True, tag=True):
    """This server must be there: the singleton system of [COReL 7.2]."""

    server: str

    def holds(self, members: Servers, history: History) -> bool:
        return self.server in members

    def describe(self) -> str:
        return f"{self.server} must be present"


class DynamicVoting(msgspec.Struct, frozen=True, tag=True):
    """A sub-quorum of the last primary and of every pending one, and at least so many servers [COReL 7.2.2]."""

    minimum: int = 1

    def holds(self, members: Servers, history: History) -> bool:
        if len(members) < max(1, self.minimum):
            return False
        return all(is_sub_quorum(each.servers, members) for each in (history.last, *history.pending))

    def describe(self) -> str:
        least = f", and at least {self.minimum} servers" if self.minimum > 1 else ""
        parts = "more than half, or half with its first server, of the last primary and of each one pending since"
        return f"{parts}{least}"


class AllOf(msgspec.Struct, frozen=True, tag=True):
    """Every one of these rules."""

    rules: tuple[Rule, ...]

    def holds(self, members: Servers, history: History) -> bool:
        return all(rule.holds(members, history) for rule in self.rules)

    def describe(self) -> str:
        return " and ".join(f"({rule.describe()})" for rule in self.rules)


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    """At least one of these rules."""

    rules: tuple[Rule, ...]

    def holds(self, members: Servers, history: History) -> bool:
        return any(rule.holds(members, history) for rule in self.rules)

    def describe(self) -> str:
        return " or ".join(f"({rule.describe()})" for rule in self.rules)


Rule = Majority | Weighted | TieBreaker | Monarch | DynamicVoting | AllOf | AnyOf


def is_sub_quorum(previous: tuple[str, ...], members: Servers) -> bool:
    """More than half of it, or exactly half with its first server: of two disjoint sets at most one is."""
    present = 2 * sum(each in members for each in previous)
    return present > len(previous) or (0 < present == len(previous) and min(previous) in members)


def is_dynamic(rule: Quorum) -> bool:
    """Whether it looks at the history."""
    if isinstance(rule, AllOf | AnyOf):
        return any(is_dynamic(each) for each in rule.rules)
    return isinstance(rule, DynamicVoting)


def check_quorum(rule: Quorum, servers: tuple[str, ...]) -> None:
    """Refuse, with two of them by name, a rule that has disjoint quorums; and one that no set fulfils."""
    _check_parts(rule)
    history = History(Primary(0, tuple(sorted(servers))))
    if not rule.holds(frozenset(servers), history):
        raise LocalProtocolError(f"not even all servers together are a quorum: {rule.describe()}")
    if is_dynamic(rule):
        return  # sub-quorums of one set meet, whatever other rules ask besides
    if len(servers) > EXHAUSTIVE_MAX:
        raise LocalProtocolError(f"a rule for {len(servers)} servers cannot be checked; at most {EXHAUSTIVE_MAX}")
    for size in range(1, len(servers) + 1):
        for part in combinations(sorted(servers), size):
            rest = frozenset(servers) - set(part)
            if rule.holds(frozenset(part), history) and rule.holds(rest, history):
                one, other = ", ".join(part), ", ".join(sorted(rest))
                raise LocalProtocolError(f"both {one} and {other} would be quorums: {rule.describe()}")


def stopping_failures(rule: Quorum, servers: tuple[str, ...], history: History) -> list[tuple[str, ...]]:
    """The smallest sets of servers whose loss leaves no quorum among the rest, smallest first."""
    names, every = sorted(servers), frozenset(servers)
    has_one = bytearray(1 << len(names))  # by the bits of a set: one that was found is in it
    found: list[tuple[str, ...]] = []
    for bits in range(1, len(has_one)):  # all parts of a set come before it
        has_one[bits] = any(has_one[less] for less in _flipped(bits, bits))
        if not has_one[bits]:
            lost = _named(bits, names)
            if not rule.holds(every.difference(lost), history):
                has_one[bits] = True
                found.append(lost)
    return sorted(found, key=lambda lost: (len(lost), lost))


def survived_failures(servers: tuple[str, ...], stopping: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The largest sets of servers, not all, that may be lost while the rest still orders, largest first; from those
    that stop it.
    """
    names = sorted(servers)
    stops = bytearray(1 << len(names))
    for lost in stopping:
        stops[sum(1 << names.index(name) for name in lost)] = True
    for bits in range(len(stops)):
        stops[bits] = stops[bits] or any(stops[less] for less in _flipped(bits, bits))
    every = len(stops) - 1
    found = [
        _named(bits, names)
        for bits in range(1, every)
        if not stops[bits] and all(more == every or stops[more] for more in _flipped(bits, every ^ bits))
    ]
    return sorted(found, key=lambda lost: (-len(lost), lost))


def _flipped(bits: int, places: int) -> Iterator[int]:
    """This set, with each of these bits turned over in turn."""
    while places:
        lowest = places & -places
        yield bits ^ lowest
        places ^= lowest


def _named(bits: int, names: list[str]) -> tuple[str, ...]:
    """The members of a set whose bits are given."""
    return tuple(name for place, name in enumerate(names) if bits >> place & 1)


def _check_parts(rule: Quorum) -> None:
    if isinstance(rule, Weighted) and any(vote < 0 for vote in rule.votes.values()):
        raise LocalProtocolError("votes are not below 0")
    if not isinstance(rule, AnyOf | AllOf):
        return
    if isinstance(rule, AnyOf) and any(is_dynamic(each) for each in rule.rules):
        raise LocalProtocolError("dynamic voting is a rule by itself or under all-of, never one of several")
    for each in rule.rules:
        _check_parts(each)
