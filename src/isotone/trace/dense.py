"""Indices are dense: each once, in order, and what is missing is said."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from isotone.core.errors import InputError
from isotone.trace.events import Crashed, Gap, Row, Truncated

_SHOWN_MAX = 300


def dense(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of any records, each record's in order: repeated ones dropped, a `Gap` for every hole.

    Two rows of one id that differ are an `InputError` that shows both: they are of two runs, or one was altered.

    A `Gap` has the index of the first row that it stands for, so the row after it may continue behind all of them. One
    that was written by hand may be followed by the next index instead.
    """
    reached: dict[str, _Reached] = {}
    for row in rows:
        at = reached.get(row.node)
        if at is None or at.incarnation != row.incarnation:
            at = reached[row.node] = _Reached(row.incarnation) if at is None else at.other(row.incarnation)
        index = row.index
        if index < at.lowest:
            assert at.row is not None  # indices are not below 0
            check_same(at.row, row)
            continue
        if index > at.highest:
            yield Row(row.node, row.incarnation, at.highest, row.at, Gap(lost=index - at.highest))
        at.lowest = index + 1
        at.highest = at.lowest if type(row.entry) is not Gap else index_after(row)
        at.row = row
        yield row


class _Reached:
    """How far a record is read: the lowest index that is new, the highest without a hole, the last row."""

    __slots__ = ("_others", "highest", "incarnation", "lowest", "row")

    def __init__(self, incarnation: int, others: dict[int, _Reached] | None = None) -> None:
        self.incarnation = incarnation
        self.lowest = self.highest = 0
        self.row: Row | None = None
        self._others = others if others is not None else {}  # of the same node

    def other(self, incarnation: int) -> _Reached:
        """The same of another incarnation of the node."""
        self._others[self.incarnation] = self
        return self._others.get(incarnation) or _Reached(incarnation, self._others)


def check_same(one: Row, other: Row) -> None:
    """Refuse two rows of one id that do not say the same; how a file ends the reader says, and another may go on."""
    is_end = isinstance(one.entry, Crashed | Gap | Truncated) or isinstance(other.entry, Crashed | Gap | Truncated)
    if one.index == other.index and one != other and not is_end:
        place = f"{one.node}#{one.incarnation} row {one.index}"
        raise InputError(f"two records of {place}, which do not agree: {_told(one)} and {_told(other)}")


def _told(row: Row) -> str:
    return f"at {row.at} {row.entry!r}"[:_SHOWN_MAX]


class Indices:
    """Which indices of a record were seen; mostly they follow each other, and then it is a few runs of them."""

    __slots__ = ("_others", "_runs")

    def __init__(self) -> None:
        self._runs: list[list[int]] = []  # first and last of each, upwards
        self._others: set[int] = set()  # that came behind higher ones

    def add(self, index: int) -> bool:
        """False if it was seen before."""
        if not self._runs or index > self._runs[-1][1]:
            if self._runs and index == self._runs[-1][1] + 1:
                self._runs[-1][1] = index
            else:
                self._runs.append([index, index])
            return True
        place = bisect_right(self._runs, index, key=lambda run: run[0]) - 1
        if index in self._others or (place >= 0 and index <= self._runs[place][1]):
            return False
        self._others.add(index)
        return True


def index_after(row: Row) -> int:
    """The index at which a record goes on after this row."""
    return row.index + (max(1, row.entry.lost) if isinstance(row.entry, Gap) else 1)


def is_in_order(rows: Iterable[Row]) -> bool:
    """Whether every node's rows stand in its own order."""
    return nodes_in_order((row.node, row.incarnation, row.index) for row in rows) is not None


def nodes_in_order(places: Iterable[tuple[str, int, int]]) -> frozenset[str] | None:
    """The nodes of these rows, if every node's rows stand in its own order."""
    last: dict[str, tuple[int, int]] = {}
    for node, incarnation, index in places:
        place = (incarnation, index)
        if place < last.get(node, place):
            return None
        last[node] = place
    return frozenset(last)
