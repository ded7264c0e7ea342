"""Things that cover ranges of numbers, by the first number, so that those in the way of a range are found at once.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Protocol, TypeVar


class Ranged(Protocol):
    """What covers the numbers from ``first`` to ``last``."""

    first: int
    last: int


T = TypeVar("T", bound=Ranged)


class Ranges(dict[int, T]):
    """A dictionary by first numbers, of ranges that do not overlap."""

    __slots__ = ("_firsts",)

    def __init__(self) -> None:
        super().__init__()
        self._firsts: list[int] = []  # sorted

    def add(self, item: T) -> None:
        """Put it where it begins."""
        firsts, first = self._firsts, item.first
        if not firsts or first > firsts[-1]:
            firsts.append(first)
        elif first not in self:
            insort(firsts, first)
        self[first] = item

    def take(self, first: int) -> T | None:
        """Remove what begins here."""
        item = super().pop(first, None)
        if item is not None:
            del self._firsts[bisect_right(self._firsts, first) - 1]
        return item

    def overlapping(self, first: int, last: int) -> list[T]:
        """Those that cover one of these numbers, in order."""
        place = max(0, bisect_right(self._firsts, first) - 1)
        found = []
        while place < len(self._firsts) and self._firsts[place] <= last:
            item = self[self._firsts[place]]
            if item.last >= first:
                found.append(item)
            place += 1
        return found
