"""The recorder: gives each entry its header and hands the row on. Pure: time comes in, rows go out."""

from __future__ import annotations

from collections.abc import Callable

from isotone.trace.events import Entry, Row

Sink = Callable[[Row], object]
"""Takes rows in the order in which they happened; what it returns is ignored, so ``list.append`` is one."""


class Recorder:
    """Counts the entries of every (node, incarnation), dense from 0."""

    __slots__ = ("_next", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._next: dict[tuple[str, int], int] = {}

    def record(self, node: str, incarnation: int, at: int, entry: Entry) -> Row:
        """Hand the row to the sink before returning it: at level *full* the caller's effect may leave after this."""
        record = (node, incarnation)
        index = self._next.get(record, 0)
        self._next[record] = index + 1
        row = Row(node, incarnation, index, at, entry)
        self._sink(row)
        return row
