"""One node's record, put together from its parts: incarnation by incarnation, part by part, and how each ends.

A record needs no `Truncated` when its writer closed it, when it ends with `Crashed`, or when it was written at level
*full* and its process died while the same machine ran, and so lost nothing: a later incarnation of the node began, or
the reader is on that machine and sees that the process is gone. The `Crashed` that it could not write is added here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from isotone.core.errors import InputError
from isotone.trace.dense import index_after
from isotone.trace.events import Crashed, Entry, Row, Truncated
from isotone.trace.layout import PartHeader, Tail
from isotone.trace.parquet import ParquetFile
from isotone.trace.process import has_all_parts, has_died, is_alive
from isotone.trace.spool import SpoolPart, rotated_path
from isotone.trace.writer import Level

Part = SpoolPart | ParquetFile
OnUnreadable = Callable[[Path, InputError], None]

NOT_CLOSED = "the writer did not close its record"
STILL_WRITTEN = "the record is still written"


def node_rows(parts: Iterable[Part], skip_unreadable: OnUnreadable | None) -> Iterator[Row]:
    """All rows of a node; a row may come twice when a part is there as spool and as Parquet."""
    by_incarnation: defaultdict[int, list[Part]] = defaultdict(list)
    for part in parts:
        by_incarnation[_header(part).incarnation].append(part)
    ordered = [by_incarnation[incarnation] for incarnation in sorted(by_incarnation)]
    for place, record in enumerate(ordered):
        later = _header(ordered[place + 1][0]) if place + 1 < len(ordered) else None
        yield from _record_rows(record, later, skip_unreadable)


def _record_rows(parts: list[Part], later: PartHeader | None, skip_unreadable: OnUnreadable | None) -> Iterator[Row]:
    header = _weakest(parts)
    died = _died_alone(parts, header, later)  # before its rows are read: all of them are there then
    last: Row | None = None
    tail = Tail(closed=False)
    for part in sorted(parts, key=lambda part: (_header(part).part, isinstance(part, SpoolPart))):
        damage = tail.problem
        try:
            for row in _part_rows(part):
                if last is None or row.index > last.index:
                    last, damage = row, ""  # the record goes on: what a damaged part lost is a gap
                yield row
            tail = part.tail
        except InputError as error:
            if skip_unreadable is None:
                raise
            skip_unreadable(part.path, error)
            tail = Tail(closed=False, problem=str(error))
        tail = Tail(tail.closed and not damage, tail.problem or damage)
    end = _missing_end(header, tail, last, died_alone=died)
    if end is not None:
        index, at = (0, 0) if last is None else (index_after(last), last.at)
        yield Row(header.node, header.incarnation, index, at, end)


def _part_rows(part: Part) -> Iterator[Row]:
    try:
        yield from part.rows()
    except FileNotFoundError:  # a live writer has rotated the spool since we looked
        if not rotated_path(part.path).exists():
            raise InputError(f"{part.path}: no such file") from None
        rotated = ParquetFile(rotated_path(part.path))
        yield from rotated.rows()
        part.tail = rotated.tail
    except OSError as error:
        raise InputError(f"{part.path}: {error}") from None


def _died_alone(parts: list[Part], header: PartHeader, later: PartHeader | None) -> bool:
    """Whether the process died and its machine went on."""
    if later is not None:
        return later.boot == header.boot != ""
    return has_died(header) and has_all_parts([part.path for part in parts], header)


def _missing_end(header: PartHeader, tail: Tail, last: Row | None, *, died_alone: bool) -> Entry | None:
    """What stands at the end of a record that nobody closed: a crash where nothing else can be, else `Truncated`."""
    if tail.closed or (last is not None and isinstance(last.entry, Crashed | Truncated)):
        return None
    if died_alone and header.level == Level.FULL.value and not tail.problem:
        return Crashed(f"{header.node}#{header.incarnation}")
    if tail.problem:
        return Truncated(f"{NOT_CLOSED}: {tail.problem}")
    return Truncated(STILL_WRITTEN if is_alive(header) else NOT_CLOSED)


def _weakest(parts: list[Part]) -> PartHeader:
    """The header with the least promise: a record is as good as its worst part."""
    headers = [_header(part) for part in parts]
    return next((header for header in headers if header.level != Level.FULL.value), headers[0])


def _header(part: Part) -> PartHeader:
    assert part.header is not None
    return part.header
