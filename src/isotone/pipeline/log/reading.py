"""Where the rows of the log come from: archive first, then servers of the log, those that do not vote before others.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError
from isotone.host.log_client import RemoteLog
from isotone.pipeline.log.options import LogOptions
from isotone.replicated.archive.segments import Segment, require_pyarrow, table_of
from isotone.replicated.archive.store import Archive, Listing

SEGMENTS_RECORDS_MAX = 65_536
"""Small segments are read together, up to so many records in one task."""
TAIL_RECORDS_MAX = 65_536
READ_RECORDS_MAX = 4_096
ANSWER_WITHIN_S = 30.0
_T = TypeVar("_T")


class Piece(msgspec.Struct, frozen=True):
    """What one task reads: positions ``first`` … ``last``, from these segments, or from the servers."""

    first: int
    last: int
    segments: tuple[Segment, ...] = ()


class Extent(msgspec.Struct, frozen=True):
    """What there is of the log: from the oldest position that anybody keeps to the last."""

    first: int
    last: int
    listing: Listing
    servers: tuple[str, ...]
    """Addresses, those first that are to be asked first."""


def extent(options: LogOptions) -> Extent:
    """Ask the archive and the servers."""
    listing = Listing(())
    if options.archive:
        archive = Archive(options.archive, options.archive_credential_file)
        if not archive.exists():
            raise InputError(f"there is no archive at {options.archive}")
        listing = archive.listing()
    if not options.replicas:
        return Extent(listing.first, listing.end, listing, ())
    found = servers_of(options)
    kept = min(first for _, first, _ in found.values())
    green = max(last for _, _, last in found.values())
    first = listing.first if listing.segments and kept <= listing.end + 1 else kept
    servers = tuple(sorted(found, key=lambda address: (found[address][0], address)))
    return Extent(first, max(green, listing.end), listing, servers)


def servers_of(options: LogOptions) -> dict[str, tuple[bool, int, int]]:
    """Of each server that answers: whether it votes, and what it keeps."""
    found: dict[str, tuple[bool, int, int]] = {}
    problems: list[str] = []
    for address in options.replicas:
        try:
            status = asked([address], options, lambda log: log.status())
            found[address] = (status["is_voter"], status["first_position"], status["green_position"])
        except IsotoneError as error:
            problems.append(str(error))
    if not found:
        raise MachineError(f"no server of the log answers: {'; '.join(problems)}")
    return found


def pieces(there: Extent, first: int, last: int) -> list[Piece]:
    """The positions ``first`` … ``last`` in pieces for tasks; `InputError` for what nobody has."""
    if first < there.first:
        raise InputError(f"position {first} was cut away: the oldest that archive and servers keep is {there.first}")
    if last > there.last:
        raise InputError(f"position {last} is not there yet: the last is {there.last}")
    found: list[Piece] = []
    group: list[Segment] = []
    for segment in there.listing.covering(first, last):
        if group and segment.last - group[0].first >= SEGMENTS_RECORDS_MAX:
            found.append(_from_archive(group, first, last))
            group = []
        group.append(segment)
    if group:
        found.append(_from_archive(group, first, last))
    begin = max(first, there.listing.end + 1) if there.listing.segments else first
    while begin <= last:
        end = min(last, begin + TAIL_RECORDS_MAX - 1)
        found.append(Piece(begin, end))
        begin = end + 1
    return found


def _from_archive(group: list[Segment], first: int, last: int) -> Piece:
    return Piece(max(first, group[0].first), min(last, group[-1].last), tuple(group))


def read_piece(piece: Piece, options: LogOptions, servers: tuple[str, ...]) -> Iterator[Any]:
    """Arrow tables with exactly the piece's positions, in order."""
    if not piece.segments:
        yield from _from_servers(piece, options, servers)
        return
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


def _from_servers(piece: Piece, options: LogOptions, servers: tuple[str, ...]) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        log = runner.run(_opened(servers, options))
        try:
            first = piece.first
            while first <= piece.last:
                entries = runner.run(log.read(first, min(piece.last, first + READ_RECORDS_MAX - 1)))
                if not entries:
                    raise MachineError(f"{log.server or servers[0]} does not have position {first} yet")
                yield table_of(entries)
                first += len(entries)
        except LocalProtocolError as error:
            raise InputError(f"position {first} was cut away: {error}") from error
        finally:
            runner.run(log.close())


async def _opened(servers: tuple[str, ...], options: LogOptions) -> RemoteLog:
    return RemoteLog(servers, name="spark", credential=credential_of(options))


def asked(servers: list[str], options: LogOptions, ask: Callable[[RemoteLog], Awaitable[_T]]) -> _T:
    """One question to the first of these servers that answers."""

    async def ask_one() -> _T:
        async with asyncio.timeout(ANSWER_WITHIN_S), await _opened(tuple(servers), options) as log:
            return await ask(log)

    try:
        return asyncio.run(ask_one())
    except TimeoutError:
        raise MachineError(f"{', '.join(servers)}: no answer within {ANSWER_WITHIN_S:g} seconds") from None


def credential_of(options: LogOptions) -> bytes:
    """The credential for the servers; empty without one."""
    if not options.credential_file:
        return b""
    try:
        return (Path(options.credential_file).read_bytes().splitlines() or [b""])[0].strip()
    except OSError as error:
        raise InputError(f"cannot read the credential in {options.credential_file}: {error.strerror}") from error


def batches(tables: Iterator[Any]) -> Iterator[Any]:
    """As record batches."""
    require_pyarrow()
    for table in tables:
        yield from table.to_batches()
