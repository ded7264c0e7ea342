"""Values that flow: whole numbers, sets of numbers as ranges, sets of pairs, decisions about transactions.

A `RangeSet` is known up to its ``limit`` only: whether a number above it is in the set is not said [Flows 4.2]. Union
and intersection keep the lower limit. A set of too many ranges is truncated: the limit is lowered, and what is above
it is dropped.

Implements: [Flows 4.2]. Deviations: Dw1 a guarded set is never truncated below the highest number of the preceding
result, because a result that loses numbers would fall; see ``docs/protocols/flows.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

LIMITLESS = 2**62
"""The limit of a set that is known in full."""


class RangeSet(msgspec.Struct, frozen=True, gc=False):
    """Numbers from 0, as closed ranges ``a1, b1, a2, b2 …`` that neither overlap nor touch, up to a limit."""

    bounds: tuple[int, ...] = ()
    limit: int = LIMITLESS

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.bounds, number)
        return place % 2 == 1 or (place > 0 and self.bounds[place - 1] == number)

    def __bool__(self) -> bool:
        return bool(self.bounds)

    @property
    def ranges(self) -> int:
        """How many ranges it has."""
        return len(self.bounds) // 2

    def size(self) -> int:
        """How many numbers are in it."""
        return sum(self.bounds[1::2]) - sum(self.bounds[::2]) + self.ranges

    def numbers(self) -> list[int]:
        """All of them, in order; for few."""
        bounds = self.bounds
        return [each for first, last in zip(bounds[::2], bounds[1::2]) for each in range(first, last + 1)]

    def union(self, other: RangeSet) -> RangeSet:
        """What is in one of them, up to the lower limit."""
        if self.bounds == other.bounds and self.limit == other.limit:
            return self
        limit = min(self.limit, other.limit)
        return RangeSet(_cut(_joined(self.bounds, other.bounds), limit), limit)

    def intersection(self, other: RangeSet) -> RangeSet:
        """What is in both, up to the lower limit."""
        if self.bounds == other.bounds and self.limit == other.limit:
            return self
        return RangeSet(_common(self.bounds, other.bounds), min(self.limit, other.limit))

    def difference(self, other: RangeSet) -> RangeSet:
        """What is in this one only. Above the other's limit nothing is known of the other: nothing is taken away."""
        return RangeSet(_common(self.bounds, _complement(other.bounds)), self.limit)

    def within(self, other: RangeSet) -> bool:
        """Whether all of it is in the other; what is above a limit is in neither."""
        return self.bounds == other.bounds or _common(self.bounds, other.bounds) == self.bounds

    def truncated(self, ranges_max: int, floor: int = 0) -> RangeSet:
        """At most so many ranges; but all that is up to ``floor`` stays (Dw1)."""
        if len(self.bounds) <= 2 * ranges_max:
            return self
        limit = min(self.limit, max(self.bounds[2 * ranges_max] - 1, floor))
        return RangeSet(_cut(self.bounds, limit), limit)


def range_set(numbers: Iterable[int], limit: int = LIMITLESS) -> RangeSet:
    """The set of these numbers."""
    bounds: list[int] = []
    for number in sorted(set(numbers)):
        if bounds and bounds[-1] + 1 == number:
            bounds[-1] = number
        else:
            bounds += (number, number)
    return RangeSet(_cut(tuple(bounds), limit), limit)


def interval(first: int, last: int) -> RangeSet:
    """All numbers from the first to the last."""
    return RangeSet((first, last)) if first <= last else RangeSet()


def prefix_end(numbers: RangeSet) -> int:
    """The last number of 1, 2, 3 … that are all in the set; 0 if 1 is not."""
    bounds = numbers.bounds
    return bounds[1] if bounds and bounds[0] <= 1 else 0


def _cut(bounds: tuple[int, ...], limit: int) -> tuple[int, ...]:
    if not bounds or bounds[-1] <= limit:
        return bounds
    place = bisect_right(bounds, limit)
    if place % 2 == 1:
        return (*bounds[:place], limit)
    return bounds[:place]


def _joined(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    pairs = sorted([*zip(one[::2], one[1::2]), *zip(other[::2], other[1::2])])
    bounds: list[int] = [*pairs[0]]
    for first, last in pairs[1:]:
        if first <= bounds[-1] + 1:
            bounds[-1] = max(bounds[-1], last)
        else:
            bounds += (first, last)
    return tuple(bounds)


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    bounds: list[int] = []
    here = there = 0
    while here < len(one) and there < len(other):
        first, last = max(one[here], other[there]), min(one[here + 1], other[there + 1])
        if first <= last:
            bounds += (first, last)
        if one[here + 1] < other[there + 1]:
            here += 2
        else:
            there += 2
    return tuple(bounds)


def _complement(bounds: tuple[int, ...]) -> tuple[int, ...]:
    edges = [0]
    for first, last in zip(bounds[::2], bounds[1::2]):
        edges += (first - 1, last + 1)
    edges.append(LIMITLESS)
    return tuple(edge for pair in zip(edges[::2], edges[1::2]) if pair[0] <= pair[1] for edge in pair)


class Pairs(msgspec.Struct, frozen=True, gc=False):
    """A set of pairs (node, number): for each node, in the order of names, a set that is not empty."""

    entries: tuple[tuple[str, RangeSet], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def union(self, other: Pairs) -> Pairs:
        """What is in one of them."""
        merged = dict(self.entries)
        for node, numbers in other.entries:
            merged[node] = merged[node].union(numbers) if node in merged else numbers
        return Pairs(tuple(sorted(merged.items(), key=_first)))

    def difference(self, other: Pairs) -> Pairs:
        """What is in this one only."""
        taken = dict(other.entries)
        left = ((node, numbers.difference(taken.get(node, RangeSet()))) for node, numbers in self.entries)
        return Pairs(tuple((node, numbers) for node, numbers in left if numbers))

    def within(self, other: Pairs) -> bool:
        """Whether all of it is in the other."""
        there = dict(other.entries)
        return all(
            _common(numbers.bounds, there.get(node, RangeSet()).bounds) == numbers.bounds
            for node, numbers in self.entries
        )

    def with_numbers_in(self, allowed: RangeSet) -> Pairs:
        """The pairs whose number is in this set: the condition ``F|2 <= R`` [Flows 2.2]."""
        kept = ((node, RangeSet(_common(numbers.bounds, allowed.bounds))) for node, numbers in self.entries)
        return Pairs(tuple((node, numbers) for node, numbers in kept if numbers))

    def truncated(self, entries_max: int) -> Pairs:
        """At most so many nodes, and so many ranges for each; what is left out will be asked for again."""
        if len(self.entries) <= entries_max and all(each.ranges <= entries_max for _, each in self.entries):
            return self
        kept = self.entries[:entries_max]
        return Pairs(tuple((node, RangeSet(each.bounds[: 2 * entries_max])) for node, each in kept))


def _first(entry: tuple[str, RangeSet]) -> str:
    return entry[0]


class Decisions(msgspec.Struct, frozen=True, gc=False):
    """Transactions that are committed or aborted. Up to ``forgotten`` all are decided, and how is no longer said."""

    committed: RangeSet = RangeSet()
    aborted: RangeSet = RangeSet()
    forgotten: int = 0

    def decided(self) -> RangeSet:
        """All that are decided."""
        return interval(1, self.forgotten).union(self.committed).union(self.aborted)

    def within(self, later: Decisions) -> bool:
        """Whether the later one says of every transaction the same, or that it is forgotten, and forgets no less."""
        if self.forgotten > later.forgotten:
            return False
        old = interval(1, later.forgotten)
        return self.committed.difference(old).within(later.committed) and self.aborted.difference(old).within(
            later.aborted
        )

    def extended(self, commit: RangeSet, abort: RangeSet, window: int) -> Decisions:
        """Decide what is not decided yet: commit these, abort those of the rest; keep how for the last ``window``."""
        decided = self.decided()
        committed = RangeSet(commit.difference(decided).bounds)
        aborted = RangeSet(abort.difference(decided).difference(committed).bounds)
        forgotten = max(self.forgotten, prefix_end(decided.union(committed).union(aborted)) - window)
        old = interval(0, forgotten)
        return Decisions(
            self.committed.union(committed).difference(old), self.aborted.union(aborted).difference(old), forgotten
        )


Value = int | bool | RangeSet | Pairs | Decisions

Plain = int | bool | list["Plain"] | str
"""What JSON and MessagePack can hold; a value's plain form says its type by its shape, except sets and such."""


def to_plain(value: Value) -> object:
    """A value as numbers, texts and tuples."""
    match value:
        case RangeSet(bounds, limit):
            return ("s", -1 if limit == LIMITLESS else limit, *bounds)
        case Pairs(entries):
            return ("p", *((node, *each.bounds) for node, each in entries))
        case Decisions(committed, aborted, forgotten):
            return ("d", forgotten, committed.bounds, aborted.bounds)
    return value


def from_plain(plain: object) -> Value:
    """The inverse of `to_plain`; a `ValueError` for anything else."""
    if isinstance(plain, bool | int):
        if not -LIMITLESS <= plain <= LIMITLESS:
            raise ValueError("a number out of range")
        return plain
    match plain:
        case ("s", int(limit), *bounds) | ["s", int(limit), *bounds]:
            return RangeSet(_checked(bounds), LIMITLESS if limit == -1 else _checked_limit(limit, bounds))
        case ("p", *entries) | ["p", *entries]:
            return Pairs(_checked_entries(entries))
        case ("d", int(forgotten), committed, aborted) | ["d", int(forgotten), committed, aborted]:
            if forgotten < 0:
                raise ValueError("a negative number")
            return Decisions(RangeSet(_checked(committed)), RangeSet(_checked(aborted)), forgotten)
    raise ValueError(f"not a value of a flow: {str(plain)[:60]}")


def _checked(bounds: object) -> tuple[int, ...]:
    if not isinstance(bounds, list | tuple) or len(bounds) % 2:
        raise ValueError("not a list of ranges")
    last = -2
    for place, edge in enumerate(bounds):
        if type(edge) is not int or edge < 0 or edge > LIMITLESS or (edge < last if place % 2 else edge <= last + 1):
            raise ValueError("ranges out of order")
        last = edge
    return tuple(bounds)


def _checked_limit(limit: int, bounds: list[object]) -> int:
    if limit < 0 or limit > LIMITLESS or (bounds and isinstance(bounds[-1], int) and bounds[-1] > limit):
        raise ValueError("a range above the limit")
    return limit


def _checked_entries(entries: list[object]) -> tuple[tuple[str, RangeSet], ...]:
    found: list[tuple[str, RangeSet]] = []
    for entry in entries:
        if not isinstance(entry, list | tuple) or not entry or not isinstance(entry[0], str):
            raise ValueError("not a node with its numbers")
        numbers = RangeSet(_checked(list(entry[1:])))
        if not numbers or (found and found[-1][0] >= entry[0]):
            raise ValueError("nodes out of order, or a node without numbers")
        found.append((entry[0], numbers))
    return tuple(found)
