"""Indices are dense: each once, in order, and what is missing is said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isotone.trace.events import Gap, Row


def dense(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of any records, each record's in order: repeated ones dropped, a `Gap` for every hole.

    A `Gap` has the index of the first row that it stands for, so the row after it may continue behind all of them. One
    that was written by hand may be followed by the next index instead.
    """
    reached: dict[tuple[str, int], tuple[int, int]] = {}  # the lowest index that is new, the highest without a hole
    for row in rows:
        record = (row.node, row.incarnation)
        lowest, highest = reached.get(record, (0, 0))
        if row.index < lowest:
            continue
        if row.index > highest:
            yield Row(row.node, row.incarnation, highest, row.at, Gap(lost=row.index - highest))
        reached[record] = (row.index + 1, index_after(row))
        yield row


def index_after(row: Row) -> int:
    """The index at which a record goes on after this row."""
    return row.index + (max(1, row.entry.lost) if isinstance(row.entry, Gap) else 1)


def is_in_order(rows: Iterable[Row]) -> bool:
    """Whether every node's rows stand in its own order."""
    last: dict[str, tuple[int, int]] = {}
    for row in rows:
        place = (row.incarnation, row.index)
        if place < last.get(row.node, place):
            return False
        last[row.node] = place
    return True
