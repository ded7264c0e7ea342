"""Packets: a fixed header and, behind it, frames. What links of every kind put on the network.

Implements: the packet level of [Spread 4.1, 4.2, 4.3]: packets carry several data and control messages each, are
sequenced per link, and name the daemon view that they belong to. On a datagram link a datagram is one packet; on a
byte stream the header's length says where the next one begins.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from enum import IntEnum

import msgspec

from isotone.core.codec.wire import Buffer
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, DaemonId
from isotone.core.versions import PROTOCOL_VERSIONS, VersionRange

MAGIC = 0x4E69
PAYLOAD_BYTES_MAX = 1 << 20

# magic, version, kind, flags, link, epoch, coordinator, sender, sequence, bytes of payload
HEADER = struct.Struct("<HBBHHQIIQI")
# kind, flags, reserved, bytes of body
FRAME = struct.Struct("<BBHI")


class PacketKind(IntEnum):
    """Whether the packet takes part in its link's reliability."""

    SEQUENCED = 1
    UNSEQUENCED = 2


class FrameKind(IntEnum):
    """What a frame's body is, and so which decoder reads it."""

    BUNDLE = 1
    FRAGMENT = 2
    CONTROL = 3


FRAME_KINDS = {int(kind): kind for kind in FrameKind}


class PacketHeader(msgspec.Struct, frozen=True, gc=False):
    """The fixed head of a packet.

    ``link`` numbers the link at its sender; ``epoch`` and ``coordinator`` name the daemon view, both 0 outside of one;
    ``coordinator`` and ``sender`` are short digests (`short_digest`) of daemon ids: they find the daemon in a table and
    prove nothing. ``sequence`` counts the sequenced packets of the link from 1, and is 0 on others.
    """

    version: int
    kind: PacketKind
    flags: int
    link: int
    epoch: int
    coordinator: int
    sender: int
    sequence: int
    length: int


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One part of a packet; the body is a view into it."""

    kind: FrameKind
    flags: int
    body: memoryview


def short_digest(daemon: DaemonId) -> int:
    """32 bits that name a daemon in packet headers; whoever forms a daemon view checks that they differ in it."""
    return int.from_bytes(hashlib.blake2b(str(daemon).encode(), digest_size=4).digest(), "little")


def pack_header_into(buffer: bytearray | memoryview, offset: int, header: PacketHeader) -> None:
    """Write the header at this place of a buffer, which has room for it."""
    _check_local(header)
    try:
        HEADER.pack_into(buffer, offset, MAGIC, *msgspec.structs.astuple(header))
    except struct.error as error:
        raise LocalProtocolError(f"{header}: {error}") from error


def unpack_header(
    data: Buffer,
    offset: int = 0,
    *,
    versions: VersionRange = PROTOCOL_VERSIONS,
    payload_max: int = PAYLOAD_BYTES_MAX,
) -> PacketHeader:
    """The header at this place; whether its payload is there too is for the caller to see."""
    if len(data) - offset < HEADER.size:
        raise RemoteProtocolError(f"a packet of {len(data) - offset} bytes")
    magic, version, kind, flags, link, epoch, coordinator, sender, sequence, length = HEADER.unpack_from(data, offset)
    if magic != MAGIC:
        raise RemoteProtocolError("not a packet of ours")
    if version not in versions:
        raise RemoteProtocolError(f"a packet of version {version}; known here: {versions}")
    if kind == PacketKind.SEQUENCED:
        named, fits = PacketKind.SEQUENCED, 1 <= sequence <= SEQUENCE_MAX
    else:
        named, fits = PacketKind.UNSEQUENCED, sequence == 0 and kind == PacketKind.UNSEQUENCED
    if not fits or epoch > SEQUENCE_MAX or length > payload_max:
        raise RemoteProtocolError(f"a packet of kind {kind}, sequence {sequence}, epoch {epoch}, {length} bytes")
    return PacketHeader(version, named, flags, link, epoch, coordinator, sender, sequence, length)


def read_packet(
    data: Buffer, *, versions: VersionRange = PROTOCOL_VERSIONS, payload_max: int = PAYLOAD_BYTES_MAX
) -> tuple[PacketHeader, memoryview]:
    """A datagram that is one whole packet: its header, and its payload without copying."""
    header = unpack_header(data, versions=versions, payload_max=payload_max)
    if HEADER.size + header.length != len(data):
        raise RemoteProtocolError(f"a packet of {header.length} bytes in a datagram of {len(data)}")
    return header, memoryview(data)[HEADER.size :]


def pack_frame(kind: FrameKind, size: int, *, flags: int = 0) -> bytes:
    """The head of a frame whose body, of this many bytes, the caller puts behind it."""
    try:
        return FRAME.pack(kind, flags, 0, size)
    except struct.error as error:
        raise LocalProtocolError(f"a frame of {size} bytes with flags {flags}: {error}") from error


def iter_frames(payload: Buffer) -> Iterator[Frame]:
    """The frames of a packet. The whole table is checked before the first frame is handed out."""
    view = memoryview(payload)
    place, size = 0, len(view)
    while place < size:
        if size - place < FRAME.size:
            raise RemoteProtocolError("a frame without a whole head")
        kind, _, reserved, length = FRAME.unpack_from(view, place)
        if kind not in FRAME_KINDS or reserved or not length:
            raise RemoteProtocolError(f"a frame of kind {kind} with {length} bytes, reserved {reserved}")
        place += FRAME.size + length
    if place != size:
        raise RemoteProtocolError(f"the last frame ends {place - size} bytes behind its packet")
    return _frames(view)


def _frames(view: memoryview) -> Iterator[Frame]:
    place = 0
    while place < len(view):
        kind, flags, _, length = FRAME.unpack_from(view, place)
        start = place + FRAME.size
        place = start + length
        yield Frame(FRAME_KINDS[kind], flags, view[start:place])


def _check_local(header: PacketHeader) -> None:
    sequenced = header.kind is PacketKind.SEQUENCED
    if sequenced != (header.sequence > 0) or max(header.sequence, header.epoch) > SEQUENCE_MAX:
        raise LocalProtocolError(f"only a sequenced packet has a sequence, up to {SEQUENCE_MAX}: {header}")
    if not header.version or header.length > PAYLOAD_BYTES_MAX:
        raise LocalProtocolError(f"a packet has a version, and at most {PAYLOAD_BYTES_MAX} bytes: {header}")
