"""Frames of Spread's clients, in either byte order: what they ask, cut out of a stream; what they are told.

The writer's byte order is marked in the type field, and again in the hint, which holds a message's 16-bit type and
passes from sender to receivers as it was. This daemon writes little-endian. In a bundle the hint is the message's type
and one flag, and the bits of Spread's type that receivers see are flags too (docs/protocols/spread-clients.md).

Implements: Spread's client protocol, frames in both byte orders.
Deviations: D-marker half a byte-order mark is malformed; D-reserved bits that only daemons write are malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from isotone.core.bundles import Bundle
from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.daemon.spread.constants import (
    APPLICATION_BITS,
    APPLICATION_SHIFT,
    CAUSED_BY_JOIN,
    CAUSED_BY_LEAVE,
    DATA_BYTES_MAX,
    FLAG_APPLICATION_BITS,
    FLAG_BIG_ENDIAN,
    FLAG_SELF_DISCARD,
    GROUPS_PER_MESSAGE_MAX,
    HEAD_BYTES,
    JOIN,
    LEAVE,
    LITTLE_ENDIAN,
    MESSAGE_BYTES_MAX,
    REJECT,
    REQUEST_BITS,
    RESERVED_BITS,
    SELF_DISCARD,
    SERVICE_BITS,
    SLOT_BYTES,
)
from isotone.daemon.spread.short_names import short_name

LITTLE_HEAD = struct.Struct("<I32si4si")  # type, name, groups, hint, bytes of data
BIG_HEAD = struct.Struct(">I32si4si")
BARE_HINT = LITTLE_ENDIAN.to_bytes(4, "little")
HINT_BITS = 0x80FFFF80  # read in either order


class Head:
    """The head of a frame that a client wrote, checked."""

    __slots__ = ("data_bytes", "groups", "hint", "is_big_endian", "is_data", "message_type", "size", "type")

    def __init__(self, raw: bytes, private_group: bytes) -> None:
        type = int.from_bytes(raw[:4], "little")
        if type & LITTLE_ENDIAN == LITTLE_ENDIAN:
            fields = LITTLE_HEAD.unpack(raw)
        elif type & LITTLE_ENDIAN == 0:
            fields = BIG_HEAD.unpack(raw)
        else:
            raise RemoteProtocolError("half a byte-order mark")
        self.type: int = fields[0] & ~LITTLE_ENDIAN
        self.groups: int = fields[2]
        self.hint: bytes = fields[3]
        self.data_bytes: int = fields[4]
        self._check(fields[1], private_group)
        self.message_type, self.is_big_endian = read_hint(self.hint)
        self.is_data = not self.type & REQUEST_BITS
        self.size: int = HEAD_BYTES + SLOT_BYTES * self.groups + self.data_bytes

    def _check(self, name: bytes, private_group: bytes) -> None:
        type = self.type
        if (type & (SERVICE_BITS | REQUEST_BITS)).bit_count() != 1:
            raise RemoteProtocolError("not one request")
        if type & RESERVED_BITS:
            raise RemoteProtocolError("bits of daemons")
        if name[: SLOT_BYTES - 1].partition(b"\0")[0] != private_group:
            raise RemoteProtocolError("another's private name")
        if not 0 <= self.groups <= GROUPS_PER_MESSAGE_MAX:
            raise RemoteProtocolError("number of groups")
        if not 0 <= self.data_bytes <= DATA_BYTES_MAX:
            raise RemoteProtocolError("number of bytes")
        if self.data_bytes + SLOT_BYTES * self.groups > MESSAGE_BYTES_MAX:
            raise RemoteProtocolError("too large")

    def is_like(self, other: Head) -> bool:
        """Whether messages with these heads may share a bundle, if they go to the same groups."""
        return self.type == other.type and self.is_big_endian is other.is_big_endian

    @property
    def service(self) -> Service:
        """That the message asks for."""
        return Service((self.type & SERVICE_BITS).bit_length() - 1)

    @property
    def flags(self) -> int:
        """Of the bundle in which the message travels."""
        flags = self.type >> APPLICATION_SHIFT & FLAG_APPLICATION_BITS | self.type & SELF_DISCARD
        return flags | FLAG_BIG_ENDIAN if self.is_big_endian else flags


class Frame:
    """One frame of a client; the data is a copy."""

    __slots__ = ("data", "head", "slots")

    def __init__(self, head: Head, slots: bytes, data: bytes) -> None:
        self.head = head
        self.slots = slots
        self.data = data


class FrameReader:
    """Cuts a stream into frames, however it comes; holds less than one frame and one read."""

    def __init__(self, private_group: str) -> None:
        self._private_group = private_group.encode("ascii")
        self._held = bytearray()
        self._needed = HEAD_BYTES
        self._raw = b""
        self._last: Head | None = None  # what these bytes say

    def read(self, data: bytes | memoryview) -> Iterator[Frame]:
        """The frames that are complete now. Raises at a wrong head; the stream cannot be read on from there."""
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return
            view, self._held = memoryview(self._held), bytearray()
        else:
            view = memoryview(data)
        place = 0
        self._needed = HEAD_BYTES
        while len(view) - place >= HEAD_BYTES:
            head = self._head_of(bytes(view[place : place + HEAD_BYTES]))
            if len(view) - place < head.size:
                self._needed = head.size
                break
            body = place + HEAD_BYTES + SLOT_BYTES * head.groups
            end = place + head.size
            yield Frame(head, bytes(view[place + HEAD_BYTES : body]), bytes(view[body:end]))
            place = end
        self._held = bytearray(view[place:])

    def _head_of(self, raw: bytes) -> Head:
        """Checked, unless it is the same as that of the frame before, as in a run of like messages."""
        if self._last is None or raw != self._raw:
            self._last, self._raw = Head(raw, self._private_group), raw
        return self._last


# --- parts of frames -----------------------------------------------------------------------------------------------


def slot(name: str) -> bytes:
    """A name in its slot, in its short form if it is too long."""
    return short_name(name).encode("ascii").ljust(SLOT_BYTES, b"\0")


def slot_names(slots: bytes) -> list[str]:
    """The names in some slots, each up to its first zero; 32 bytes without one are a name that is too long."""
    places = range(0, len(slots), SLOT_BYTES)
    return [slots[place : place + SLOT_BYTES].partition(b"\0")[0].decode("latin-1") for place in places]


def read_hint(hint: bytes) -> tuple[int, bool]:
    """The message's type, and whether its sender is big-endian."""
    value = int.from_bytes(hint, "little")
    if value & ~HINT_BITS:
        raise RemoteProtocolError("hint")
    mark = value & LITTLE_ENDIAN
    if mark not in (0, LITTLE_ENDIAN):
        raise RemoteProtocolError("half a byte-order mark")
    return (value if mark else int.from_bytes(hint, "big")) >> 8 & 0xFFFF, not mark


def hint_of(message_type: int, *, is_big_endian: bool) -> bytes:
    """The inverse."""
    if is_big_endian:
        return (message_type << 8).to_bytes(4, "big")
    return (message_type << 8 | LITTLE_ENDIAN).to_bytes(4, "little")


def type_of(bundle: Bundle) -> int:
    """Spread's type of all messages of a bundle, as this daemon writes it."""
    flags = bundle.flags
    modifiers = flags & FLAG_SELF_DISCARD | (flags & FLAG_APPLICATION_BITS) << APPLICATION_SHIFT
    return 1 << bundle.service | modifiers & (SELF_DISCARD | APPLICATION_BITS) | LITTLE_ENDIAN


# --- frames to clients ---------------------------------------------------------------------------------------------


def head_of(type: int, name: str, groups: int, data_bytes: int, hint: bytes = BARE_HINT) -> bytes:
    """A head in this daemon's byte order."""
    return LITTLE_HEAD.pack(type | LITTLE_ENDIAN, short_name(name).encode("ascii"), groups, hint, data_bytes)


def message_frames(bundle: Bundle, chosen: Sequence[int]) -> bytes:
    """The messages of a bundle with these places, each in a frame of its own."""
    type, groups = type_of(bundle), len(bundle.groups)
    name = short_name(bundle.sender.private_group).encode("ascii")
    slots = b"".join(map(slot, bundle.groups))
    is_big_endian = bool(bundle.flags & FLAG_BIG_ENDIAN)
    bodies, parts = bundle.bodies(), list[bytes | memoryview]()
    pack = LITTLE_HEAD.pack
    for place in chosen:
        hint = hint_of(bundle.types[place], is_big_endian=is_big_endian)
        parts += (pack(type, name, groups, hint, bundle.lengths[place]), slots, bodies[place])
    return b"".join(parts)


def reject_frame(head: Head, slots: bytes, data: bytes, originator: str) -> bytes:
    """To who asked what is not permitted: what was asked, and the asker among the groups."""
    original = head.type | LITTLE_ENDIAN
    if head.type & JOIN:
        original = original & ~JOIN | CAUSED_BY_JOIN
    elif head.type & LEAVE:
        original = original & ~LEAVE | CAUSED_BY_LEAVE
    told = slots[: SLOT_BYTES * (GROUPS_PER_MESSAGE_MAX - 1)] + slot(originator)
    first = head_of(REJECT | head.type & SELF_DISCARD, originator, len(told) // SLOT_BYTES, len(data), head.hint)
    return b"".join((first, original.to_bytes(4, "little"), told, data))
