"""Where the rows of the log come from: archive first, then servers of the log, those that do not vote before others.

A server may lag behind the others, or have cut away what they still keep, so a task is given servers that have its
positions. Positions that nobody has are an error, also between the end of the archive and what servers keep.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec

from isotone.core.errors import InputError, MachineError
from isotone.pipeline.log.options import LogOptions
from isotone.pipeline.log.servers import Kept, Servers, read_range
from isotone.replicated.archive.places import require_pyarrow
from isotone.replicated.archive.segments import Segment
from isotone.replicated.archive.store import Archive, Listing

SEGMENTS_RECORDS_MAX = 65_536
"""Small segments are read together, up to so many records in one task."""
TAIL_RECORDS_MAX = 65_536
ON_LOSS = "failOnDataLoss=false goes on without what is gone"


class Piece(msgspec.Struct, frozen=True):
    """What one task reads: positions ``first`` … ``last``, from these segments, or from these servers."""

    first: int
    last: int
    segments: tuple[Segment, ...] = ()
    servers: tuple[str, ...] = ()
    """Addresses, those first that are to be asked first."""


class Extent(msgspec.Struct, frozen=True):
    """What there is of the log, from the oldest position to the last."""

    first: int
    last: int
    listing: Listing
    servers: tuple[Kept, ...] = ()
    """Those first that are to be asked first."""
    silent: str = ""
    """Who does not answer, and why."""


def extent(options: LogOptions, servers: Servers | None = None) -> Extent:
    """Ask the archive and the servers."""
    listing = Listing(())
    if options.archive:
        archive = Archive(options.archive, options.archive_credential_file)
        if not archive.exists():
            raise InputError(f"there is no archive at {options.archive}")
        listing = archive.listing()
    if not options.replicas:
        return Extent(listing.first, listing.end, listing)
    if servers is None:
        with closing(Servers(options)) as own:
            return extent_of(listing, own.kept(), own.described_problems())
    return extent_of(listing, servers.kept(), servers.described_problems())


def extent_of(listing: Listing, kept: tuple[Kept, ...], silent: str = "") -> Extent:
    """What an archive and servers have together.

    The oldest position is that of the archive. Without one it is the oldest of those that lie without a gap before the
    last: a server that was left behind long ago may have others.
    """
    last = max(each.last for each in kept)
    first = max(each.first for each in kept if each.last == last)
    while before := [each.first for each in kept if each.first < first <= each.last + 1]:
        first = min(before)
    if listing.segments:
        first, last = min(first, listing.first), max(last, listing.end)
    return Extent(first, last, listing, kept, silent)


def pieces(there: Extent, first: int, last: int, *, fail_on_loss: bool = True) -> list[Piece]:
    """The positions ``first`` … ``last`` in pieces for tasks; `InputError` for what nobody has."""
    if first < there.first:
        if fail_on_loss:
            raise InputError(
                f"position {first} was cut away: the oldest that archive and servers keep is {there.first}; {ON_LOSS}"
            )
        first = there.first
    if last > there.last:
        raise InputError(f"position {last} is not there yet: the last is {there.last}")
    found: list[Piece] = []
    while first <= last:
        more = _next_pieces(there, first, last)
        if more:
            found += more
            first = more[-1].last + 1
            continue
        begins = [each.first for each in there.servers] + [each.first for each in there.listing.segments]
        before = min([*(each for each in begins if each > first), last + 1])
        if fail_on_loss:
            raise InputError(_missing(there, first, before - 1))
        first = before
    return found


def _missing(there: Extent, first: int, last: int) -> str:
    archive = f"the archive ends at {there.listing.end}" if there.listing.segments else "there is no archive of them"
    silent = f" ({there.silent})" if there.silent else ""
    return (
        f"positions {first} to {last} are missing: {archive}, and no server that answers has them{silent}. "
        f"Read what is behind them with from={last + 1}, or all that there is: {ON_LOSS}"
    )


def _next_pieces(there: Extent, first: int, last: int) -> list[Piece]:
    """Those that begin at ``first``; none when nobody has it."""
    listing = there.listing
    if listing.segments and listing.first <= first <= listing.end:
        return _from_archive(listing, first, min(last, listing.end))
    having = [each for each in there.servers if each.has(first)]
    if not having:
        return []
    last = min(last, having[0].last, first + TAIL_RECORDS_MAX - 1)
    if listing.segments and first < listing.first:
        last = min(last, listing.first - 1)
    preferred = sorted(there.servers, key=lambda each: not (each.has(first) and each.has(last)))
    return [Piece(first, last, servers=tuple(each.address for each in preferred))]


def _from_archive(listing: Listing, first: int, last: int) -> list[Piece]:
    groups: list[list[Segment]] = [[]]
    for segment in listing.covering(first, last):
        if groups[-1] and segment.last - groups[-1][0].first >= SEGMENTS_RECORDS_MAX:
            groups.append([])
        groups[-1].append(segment)
    return [Piece(max(first, each[0].first), min(last, each[-1].last), tuple(each)) for each in groups]


def read_piece(piece: Piece, options: LogOptions) -> Iterator[Any]:
    """Arrow tables with exactly the piece's positions, in order."""
    if piece.segments:
        yield from _from_segments(piece, options)
        return
    first = piece.first
    try:
        for table in read_range(piece.servers, piece.first, piece.last, options):
            first += len(table)
            yield table
    except InputError:
        found = Archive(options.archive, options.archive_credential_file).listing() if options.archive else Listing(())
        if not found.segments or not found.first <= first <= piece.last <= found.end:
            raise
        # The servers have cut it away since the query was planned: then it is archived.
        for each in _from_archive(found, first, piece.last):
            yield from _from_segments(each, options)


def _from_segments(piece: Piece, options: LogOptions) -> Iterator[Any]:
    archive = Archive(options.archive, options.archive_credential_file)
    for segment in piece.segments:
        table = _read_segment(archive, segment)
        begin = max(piece.first, segment.first)
        yield table.slice(begin - segment.first, min(piece.last, segment.last) - begin + 1)


def _read_segment(archive: Archive, segment: Segment) -> Any:
    """The segment; if it was joined with others meanwhile, its part of the joined one."""
    try:
        return archive.read(segment)
    except MachineError:
        for other in archive.listing().covering(segment.first, segment.last):
            if other != segment and other.first <= segment.first and segment.last <= other.last:
                return archive.read(other).slice(segment.first - other.first, len(segment))
        raise


def batches(tables: Iterator[Any]) -> Iterator[Any]:
    """As record batches."""
    require_pyarrow()
    for table in tables:
        yield from table.to_batches()
