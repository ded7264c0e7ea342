"""Units: what gets a stamp. A bundle, a fragment of a large message, or the metadata of a bundle that was pruned.

A unit stands at one place of its site's dense sequence and carries the Lamport time at which it was born; both are
given once and never change. Daemons and sites appear by their index in the sorted daemon view, so that comparing
indices compares names.

Implements: [Spread 5.1], the message identifier (seq, lts, session_seq).
Deviations: D-previous the FIFO condition names the site sequence of the session's previous reliable unit instead of
counting session sequences, because sequences that went to UNRELIABLE messages or were pruned would leave gaps in the
count; D-causal CAUSAL waits for its causal past alone, not for silent sites. Units below CAUSAL may be delivered ahead
of their own past, so what a daemon has delivered does not tell the past of what it sends; every unit below AGREED
therefore carries its past, and whoever delivers it takes that over. D-cut a join, leave or kill is a *cut*: every
unit below AGREED names the last cut before which its daemon had received everything when it stamped it, so that it
stands on the same side of each cut at all daemons.
"""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service

HEADER = struct.Struct(">BBHHHQQQ")  # kind, service, site, daemon, number of dependencies, sequence, lamport, previous
METADATA = struct.Struct(">BBHHQQH")  # kind, service, site, daemon, sequence, lamport, how far back the previous is
FAR_BACK = struct.Struct(">Q")
FAR = 0xFFFF  # the previous is farther back than a distance can say; it follows in full
# the agreed position in the past and the cut before it: Lamport time and daemon of each
PAST = struct.Struct(">QHQH")

Position = tuple[int, int]
"""A place in the total order: Lamport time, then the stamping daemon's index."""

BEFORE_ALL: Position = (0, 0)
LAMPORT_MAX = 1 << 62  # of what a peer may say, so that the clock can go on


class UnitKind(IntEnum):
    """What the body holds."""

    BUNDLE = 1
    FRAGMENT = 2
    PRUNED = 3
    GROUPS = 4  # a message of the groups among themselves
    MEMBERSHIP = 5  # a message of the membership while a daemon view forms


class Unit(msgspec.Struct, frozen=True, gc=False):
    """One stamped unit. ``sequence`` is 0 for UNRELIABLE ones, which have no place in the site's sequence.

    ``previous`` is the site sequence of the same session's previous reliable unit, 0 when there is none in this view.
    ``weak_before`` (all below AGREED) has for each site the highest sequence of a RELIABLE, FIFO or CAUSAL unit in the
    causal past; ``agreed_before`` is the highest position of an AGREED or SAFE unit in it. ``behind`` is the position
    of the last cut that it stands behind; it stands before all that are later, unless it waits for what is behind them.
    """

    kind: UnitKind
    service: Service
    site: int
    daemon: int
    sequence: int
    lamport: int
    previous: int
    body: bytes | memoryview = b""
    weak_before: tuple[int, ...] = ()
    agreed_before: Position = BEFORE_ALL
    behind: Position = BEFORE_ALL

    @property
    def is_cut(self) -> bool:
        """Whether what is below AGREED stands on the same side of it everywhere: a join, leave or kill."""
        return self.kind is UnitKind.GROUPS and self.service is Service.SAFE

    @property
    def position(self) -> Position:
        """Its place in the total order."""
        return (self.lamport, self.daemon)

    @property
    def waits_for_all(self) -> bool:
        """Whether the walk passes it only when it is stable: SAFE units, and metadata that has a place in the order."""
        return self.service is Service.SAFE or (self.kind is UnitKind.PRUNED and self.service is Service.AGREED)

    def pruned(self) -> Unit:
        """The same unit without its content: it keeps its place in every order, and so its past."""
        return msgspec.structs.replace(self, kind=UnitKind.PRUNED, body=b"")


def encode_unit(unit: Unit) -> tuple[bytes, bytes | memoryview]:
    """Header and body; the body is not copied."""
    if unit.kind is UnitKind.PRUNED:
        return _encode_metadata(unit), b""
    header = HEADER.pack(
        unit.kind,
        unit.service,
        unit.site,
        unit.daemon,
        len(unit.weak_before),
        unit.sequence,
        unit.lamport,
        unit.previous,
    )
    return header + encode_past(unit), unit.body


def _encode_metadata(unit: Unit) -> bytes:
    """Small, because it is sent in place of what is to be saved."""
    back = unit.sequence - unit.previous if unit.previous else 0
    far = back >= FAR
    fixed = METADATA.pack(
        unit.kind, unit.service, unit.site, unit.daemon, unit.sequence, unit.lamport, FAR if far else back
    )
    return fixed + (FAR_BACK.pack(unit.previous) if far else b"") + encode_past(unit)


def encode_past(unit: Unit) -> bytes:
    """The causal past of a unit below AGREED; nothing for others."""
    if not unit.weak_before:
        return b""
    return PAST.pack(*unit.agreed_before, *unit.behind) + struct.pack(f">{len(unit.weak_before)}Q", *unit.weak_before)


Past = tuple[tuple[int, ...], Position, Position]
"""Of a unit below AGREED: ``weak_before``, ``agreed_before``, ``behind``."""
NO_PAST: Past = ((), BEFORE_ALL, BEFORE_ALL)


def past_of(unit: Unit) -> Past:
    """What `encode_past` tells."""
    return unit.weak_before, unit.agreed_before, unit.behind


def decode_past(frame: memoryview, offset: int, sites: int) -> tuple[Past, int]:
    """The inverse of `encode_past` for a unit below AGREED, and where it ends."""
    lamport, daemon, cut_lamport, cut_daemon = PAST.unpack_from(frame, offset)
    weak_before = struct.unpack_from(f">{sites}Q", frame, offset + PAST.size)
    return (weak_before, (lamport, daemon), (cut_lamport, cut_daemon)), offset + PAST.size + 8 * sites


def _decode_metadata(frame: memoryview, sites: int) -> Unit:
    kind, service, site, daemon, sequence, lamport, back = METADATA.unpack_from(frame)
    previous = FAR_BACK.unpack_from(frame, METADATA.size)[0] if back == FAR else sequence - back if back else 0
    end = METADATA.size + FAR_BACK.size * (back == FAR)
    past = NO_PAST
    if not Service(service).is_agreed:
        past, end = decode_past(frame, end, sites)
    if len(frame) != end or (back != FAR and back > sequence):
        raise RemoteProtocolError("metadata that contradicts itself")
    head = (UnitKind(kind), Service(service), site, daemon, sequence, lamport, previous)
    return Unit(*head, b"", *past)


def decode_unit(frame: memoryview, *, sites: int, daemons: int) -> Unit:
    """The inverse of `encode_unit` for a daemon view of this many sites and daemons."""
    try:
        metadata = len(frame) > 0 and frame[0] == UnitKind.PRUNED
        unit = _decode_metadata(frame, sites) if metadata else _decode_whole(frame, sites)
    except (struct.error, ValueError) as error:
        raise RemoteProtocolError(f"not a unit: {error}") from None
    check_unit(unit, sites=sites, daemons=daemons)
    return unit


def _decode_whole(frame: memoryview, sites: int) -> Unit:
    kind, service, site, daemon, count, sequence, lamport, previous = HEADER.unpack_from(frame)
    offset, past = HEADER.size, NO_PAST
    if count:
        if count != sites:
            raise RemoteProtocolError(f"a unit with {count} dependencies in a view of {sites} sites")
        past, offset = decode_past(frame, offset, sites)
    head = (UnitKind(kind), Service(service), site, daemon, sequence, lamport, previous)
    return Unit(*head, frame[offset:], *past)


def check_unit(unit: Unit, *, sites: int, daemons: int) -> None:
    """Raise if no correct daemon of a view of this many sites and daemons would send this."""
    if unit.site >= sites or unit.daemon >= daemons or unit.lamport >= LAMPORT_MAX:
        raise RemoteProtocolError(f"site {unit.site}, daemon {unit.daemon}, time {unit.lamport} are not of this view")
    if len(unit.weak_before) not in (0, sites):
        raise RemoteProtocolError(f"a unit with {len(unit.weak_before)} dependencies in a view of {sites} sites")
    if unit.behind >= unit.position:
        raise RemoteProtocolError(f"a unit of time {unit.lamport} behind a cut of time {unit.behind[0]}")
    _check_service(unit)


def _check_service(unit: Unit) -> None:
    service, sequence, previous = unit.service, unit.sequence, unit.previous
    if (sequence == 0) != (service is Service.UNRELIABLE) or previous >= max(sequence, 1):
        raise RemoteProtocolError(f"sequence {sequence} after {previous} does not fit the service {service.name}")
    if bool(unit.weak_before) == service.is_agreed:
        raise RemoteProtocolError(f"dependencies do not fit the service {service.name}")
