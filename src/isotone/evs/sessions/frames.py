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
_KINDS = (FrameKind.BUNDLE, FrameKind.CONTROL)

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

    __slots__ = ("_check", "_partial")

    def __init__(self, check: Check) -> None:
        self._check = check
        self._partial = bytearray()  # the beginning of one frame, whose head was checked if it is whole

    @property
    def held_bytes(self) -> int:
        """Bytes of the frame that is cut."""
        return len(self._partial)

    def next(self, data: memoryview, at: int) -> tuple[Arrived | None, int]:
        """The next frame of the data from this place on, or None when it is cut; and the place behind it.

        One frame at a time, since what a frame does decides whether the next is legal.
        """
        if self._partial:
            return self._complete(data, at)
        if len(data) - at < HEAD_BYTES:
            self._partial += data[at:]
            return None, len(data)
        kind, flags, size = self._read_head(data, at)
        end = at + HEAD_BYTES + size
        if end > len(data):
            self._partial += data[at:]
            return None, len(data)
        return Arrived(kind, flags, data[at + HEAD_BYTES : end]), end

    def _complete(self, data: memoryview, at: int) -> tuple[Arrived | None, int]:
        partial = self._partial
        if len(partial) < HEAD_BYTES:
            more = min(HEAD_BYTES - len(partial), len(data) - at)
            partial += data[at : at + more]
            at += more
            if len(partial) < HEAD_BYTES:
                return None, at
            self._read_head(partial, 0)
        kind, flags, _, size = FRAME.unpack_from(partial)
        more = min(HEAD_BYTES + size - len(partial), len(data) - at)
        partial += data[at : at + more]
        at += more
        if len(partial) < HEAD_BYTES + size:
            return None, at
        self._partial = bytearray()
        return Arrived(FrameKind(kind), flags, memoryview(partial)[HEAD_BYTES:]), at

    def _read_head(self, data: Buffer, at: int) -> tuple[FrameKind, int, int]:
        kind, flags, zero, size = FRAME.unpack_from(data, at)
        if kind not in _KINDS or zero or not size or flags > (DEADLINE_FLAG if kind == FrameKind.BUNDLE else 0):
            raise RemoteProtocolError(f"a frame of kind {kind} with flags {flags} and {size} bytes")
        self._check(FrameKind(kind), HEAD_BYTES + size)
        return FrameKind(kind), flags, size
