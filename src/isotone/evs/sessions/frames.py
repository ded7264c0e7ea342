"""Frames on a session's stream: a head with kind, flags and length, then a bundle or a control message.

The reader takes bytes cut anywhere, checks each head as soon as it is there, and hands out bodies that lie whole in
what came without copying them. It never holds more than one frame.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from isotone.core.codec.frame import FRAME, FrameKind
from isotone.core.codec.wire import Buffer
from isotone.core.errors import RemoteProtocolError

HEAD_BYTES = FRAME.size
DEADLINE_FLAG = 1
"""A request with a deadline: microseconds in front of the bundle."""
DEADLINE = Struct("<Q")
_KINDS = {int(kind): kind for kind in (FrameKind.BUNDLE, FrameKind.CONTROL)}

Parts = tuple[bytes | memoryview, ...]
Check = Callable[[FrameKind, int], None]


class Arrived:
    """A frame that is complete; ``size`` counts its head too."""

    __slots__ = ("body", "flags", "kind", "size")

    def __init__(self, kind: FrameKind, flags: int, body: memoryview) -> None:
        self.kind = kind
        self.flags = flags
        self.body = body
        self.size = HEAD_BYTES + len(body)


def control_frame(data: bytes) -> bytes:
    """A control message as a frame."""
    return FRAME.pack(FrameKind.CONTROL, 0, 0, len(data)) + data


def bundle_frame(parts: list[bytes | memoryview], deadline_us: int | None = None) -> tuple[Parts, int]:
    """A bundle as a frame, the payload not copied; and the size of the whole."""
    body = sum(map(len, parts))
    if deadline_us is None:
        head = FRAME.pack(FrameKind.BUNDLE, 0, 0, body) + bytes(parts[0])
    else:
        body += DEADLINE.size
        head = FRAME.pack(FrameKind.BUNDLE, DEADLINE_FLAG, 0, body) + DEADLINE.pack(deadline_us) + bytes(parts[0])
    return (head, *parts[1:]), HEAD_BYTES + body


class FrameReader:
    """Bytes in, frames out. ``check`` sees kind and size of each frame, head included, before its body is collected."""

    __slots__ = ("_check", "_chunks", "_kind", "_size", "held_bytes")

    def __init__(self, check: Check) -> None:
        self._check = check
        self._chunks: list[bytes] = []  # of the frame that is cut
        self._kind, self._size = 0, 0  # kind and flags, and size with the head, of that frame; 0 while its head is cut
        self.held_bytes = 0  # of the chunks

    def next(self, data: memoryview, at: int) -> tuple[Arrived | None, int]:
        """The next frame of the data from this place on, or None when it is cut; and the place behind it.

        One frame at a time, since what a frame does decides whether the next is legal.
        """
        if self.held_bytes:
            return self._complete(data, at)
        left = len(data) - at
        if left < HEAD_BYTES:
            return self._hold(data, at, left)
        kind, flags, size = self._read_head(data, at)
        if left < HEAD_BYTES + size:
            self._kind, self._size = kind << 8 | flags, HEAD_BYTES + size
            return self._hold(data, at, left)
        end = at + HEAD_BYTES + size
        return Arrived(kind, flags, data[at + HEAD_BYTES : end]), end

    def _hold(self, data: memoryview, at: int, size: int) -> tuple[None, int]:
        """Keep so much of a frame; it is joined once, when all is there."""
        self._chunks.append(bytes(data[at : at + size]))
        self.held_bytes += size
        return None, at + size

    def _complete(self, data: memoryview, at: int) -> tuple[Arrived | None, int]:
        if not self._size:
            more = min(HEAD_BYTES - self.held_bytes, len(data) - at)
            _, at = self._hold(data, at, more)
            if self.held_bytes < HEAD_BYTES:
                return None, at
            kind, flags, size = self._read_head(b"".join(self._chunks), 0)
            self._kind, self._size = kind << 8 | flags, HEAD_BYTES + size
        more = min(self._size - self.held_bytes, len(data) - at)
        if self.held_bytes + more < self._size:
            return self._hold(data, at, more)
        whole = memoryview(b"".join([*self._chunks, data[at : at + more]]))
        kind, flags = _KINDS[self._kind >> 8], self._kind & 0xFF
        self._chunks, self._kind, self._size, self.held_bytes = [], 0, 0, 0
        return Arrived(kind, flags, whole[HEAD_BYTES:]), at + more

    def _read_head(self, data: Buffer, at: int) -> tuple[FrameKind, int, int]:
        number, flags, zero, size = FRAME.unpack_from(data, at)
        kind = _KINDS.get(number)
        if kind is None or zero or not size or flags > (DEADLINE_FLAG if kind is FrameKind.BUNDLE else 0):
            raise RemoteProtocolError(f"a frame of kind {number} with flags {flags} and {size} bytes")
        self._check(kind, HEAD_BYTES + size)
        return kind, flags, size
