"""Rows out of a batch of Parquet columns, a column at a time: the quick way for what is in order.

A batch that is not wholly in order (a null where a value must be, a number below 0, an unknown kind, rows of several
runs) gives None; then the rows are read one by one, which says what is wrong with which. So this module refuses
nothing, and whatever it returns is what reading row by row returns.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any

from isotone.core.errors import InputError
from isotone.core.services import Service
from isotone.trace.columns import columns_used, entry_of, fits_of
from isotone.trace.events import TRACE_VERSION, Entry, Row
from isotone.trace.vocabulary import EntryType, type_of_kind

_SEQUENCE_MAX = (1 << 63) - 1
_SHARED_MAX = 65536
_SIGNED = frozenset(("sequence", "first_sequence", "lamport", "lengths"))
_HEADER = ("node", "incarnation", "index", "at")
Values = list[Any]
_SERVICES: Mapping[str, Service] = {service.name: service for service in Service}


class _OutOfOrder(Exception):
    """Something about the batch needs a closer look."""


class Batches:
    """Reads the batches of one file; equal tuples of texts are one object."""

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}

    def rows(self, batch: Any, run: str) -> list[Row] | None:
        """All rows of the batch, which must all be of this run; None if something about it is odd."""
        try:
            _check_run(batch, run)
            nodes, *numbers = (_whole(batch.column(name)) for name in _HEADER)
            if any(min(values, default=0) < 0 for values in numbers):
                return None
            return list(map(Row, map(intern, nodes), *numbers, self._entries(batch)))
        except (_OutOfOrder, InputError, KeyError):
            return None

    def _entries(self, batch: Any) -> list[Entry]:
        places: dict[str, list[int]] = {}
        for place, kind in enumerate(_whole(batch.column("kind"))):
            places.setdefault(kind, []).append(place)
        found: list[Any] = [None] * batch.num_rows
        for kind, rows in places.items():
            type = type_of_kind(kind)
            part = batch.select([*columns_used(type), "kind"])
            entries = self._of_kind(type, part if len(places) == 1 else part.take(self._arrow.array(rows)))
            for place, entry in zip(rows, entries):
                found[place] = entry
        return found

    def _of_kind(self, type: EntryType, part: Any) -> list[Entry]:
        fits = fits_of(type)
        if not fits or not _READERS.keys() >= {name for name, _ in fits}:
            return list(map(entry_of, part.to_pylist()))
        fields = {name: _READERS[name](self, _whole(part.column(column))) for name, column in fits}
        _check_numbers(fields)
        if "lengths" in fields and "digests" in fields:
            _check_pairs(fields)
        return list(map(type, *fields.values()))

    def _texts(self, values: Values) -> Values:
        if len(self._shared) > _SHARED_MAX:
            self._shared.clear()
        shared, found = self._shared, []
        for each in map(tuple, values):
            known = shared.get(each)
            if known is None:
                if None in each:
                    raise _OutOfOrder
                known = shared[each] = tuple(map(intern, each))
            found.append(known)
        return found


def _check_run(batch: Any, run: str) -> None:
    """Every row is of the run, and of a version that is known here."""
    for column, known in (("run", {run}), ("version", set(range(1, TRACE_VERSION + 1)))):
        if not known.issuperset(batch.column(column).unique().to_pylist()):
            raise _OutOfOrder


def _whole(column: Any) -> Values:
    """The values of a column without nulls."""
    if column.null_count:
        raise _OutOfOrder
    values: Values = column.to_pylist()
    return values


def _check_numbers(fields: Mapping[str, Values]) -> None:
    """No number is below 0; none is too large for its column, or it would not stand there."""
    for name in _SIGNED & fields.keys():
        values = fields[name]
        if name == "lengths":
            values = [min(each) for each in values if each]
        if min(values, default=0) < 0:
            raise _OutOfOrder


def _check_pairs(fields: Mapping[str, Values]) -> None:
    counts = list(map(len, fields["lengths"]))
    if counts != list(map(len, fields["digests"])):
        raise _OutOfOrder
    firsts = fields.get("first_sequence", [])
    if max(firsts, default=0) > _SEQUENCE_MAX - max(counts, default=0):
        if any(first > _SEQUENCE_MAX - max(0, count - 1) for first, count in zip(firsts, counts)):
            raise _OutOfOrder


def _text(batches: Batches, values: Values) -> Values:
    return list(map(intern, values))


def _only_text(batches: Batches, values: Values) -> Values:
    return list(map(intern, _only(batches, values)))


def _only(batches: Batches, values: Values) -> Values:
    found = [each[0] if len(each) == 1 else None for each in values]
    if None in found:
        raise _OutOfOrder
    return found


def _services(batches: Batches, values: Values) -> Values:
    return list(map(_SERVICES.__getitem__, values))


def _numbers(batches: Batches, values: Values) -> Values:
    if any(None in each for each in values):
        raise _OutOfOrder
    return list(map(tuple, values))


def _same(batches: Batches, values: Values) -> Values:
    return values


_READERS: Mapping[str, Callable[[Batches, Values], Values]] = {
    **dict.fromkeys(("client", "daemon", "group"), _only_text),
    **dict.fromkeys(("receivers", "groups", "members", "transitional", "servers"), Batches._texts),
    **dict.fromkeys(("sender", "stamper", "cause", "subject", "network", "reason"), _text),
    **dict.fromkeys(("sequence", "first_sequence", "lamport"), _same),
    **dict.fromkeys(("lengths", "digests"), _numbers),
    "digest": _only,
    "service": _services,
}
"""How the column of a field is read; entries with other fields (a view) are read one by one."""
