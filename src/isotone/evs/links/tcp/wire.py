"""The bytes of a stream: the greeting, frames with a length in front, reports. The layout is on docs/protocols/tcp.md.

Implements: [Spread 4.2], the length in front of every message.
"""

from __future__ import annotations

from struct import Struct

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame
from isotone.evs.links.packing import Buffer

MAGIC = b"ISOT"
VERSION = 1
FRAME, REPORT = 0, 1
WORD = 0xFFFFFFFF
_HELLO = Struct("!4sBBI")  # magic, version, length of the name, link
_HEADER = Struct("!BBHI")  # kind, FRAME or REPORT, zero, bytes of the frame or bytes received so far
HELLO_BYTES_MAX = _HELLO.size + 255
assert _HEADER.size == FRAME_HEADER_BYTES


class Hello(msgspec.Struct, frozen=True):
    """The greeting of the end that opened: who it is and for which link."""

    name: str
    link: int


def pack_hello(hello: Hello) -> bytes:
    """The greeting as bytes."""
    name = hello.name.encode("ascii")
    return _HELLO.pack(MAGIC, VERSION, len(name), hello.link) + name


def read_hello(data: Buffer) -> tuple[Hello, int] | None:
    """The greeting at the beginning of an accepted stream and its length, or nothing while it is not complete.

    Whoever accepts streams for several links collects bytes until this answers, then hands the stream, and all of
    these bytes, to the link of that name and number.
    """
    view = memoryview(data)
    head = bytes(view[: len(MAGIC)])
    if head != MAGIC[: len(head)]:
        raise RemoteProtocolError("a stream that does not begin as ours do")
    if len(view) < _HELLO.size:
        return None
    _, version, length, link = _HELLO.unpack_from(view)
    if version != VERSION:
        raise RemoteProtocolError(f"a stream of version {version}; this is version {VERSION}")
    if len(view) < _HELLO.size + length:
        return None
    name = bytes(view[_HELLO.size : _HELLO.size + length])
    if not name.isascii():
        raise RemoteProtocolError("a name that is not ASCII")
    return Hello(name.decode("ascii"), link), _HELLO.size + length


def frame_header(frame: Frame) -> bytes:
    """What stands in front of a frame."""
    return _HEADER.pack(frame.kind, FRAME, 0, frame.size)


def pack_report(received: int) -> bytes:
    """So many bytes of frames came so far; 32 bits of it travel."""
    return _HEADER.pack(0, REPORT, 0, received & WORD)


class Reader:
    """Bytes in, frames and reports out; holds the frame that is cut."""

    __slots__ = ("_done", "_frame_bytes_max", "_partial", "report")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._partial = bytearray()  # the beginning of a frame or of a report
        self._done = 0
        self.report: int | None = None  # the last that came and was not taken from here; 32 bits

    @property
    def held_bytes(self) -> int:
        """Bytes of what is cut."""
        return len(self._partial)

    @property
    def received(self) -> int:
        """Bytes of frames that came, also of one that is cut. Reports do not count, so they cause no reports."""
        return self._done + (len(self._partial) if len(self._partial) >= FRAME_HEADER_BYTES else 0)

    def clear(self) -> None:
        """Forget what is cut."""
        self._partial = bytearray()

    def read(self, data: memoryview, frames: list[Frame]) -> None:
        """Frames that lie whole in the data are slices of it; one that is cut is collected and copied once."""
        at, end = 0, len(data)
        if self._partial:
            at = self._complete(data, frames)
        while end - at >= FRAME_HEADER_BYTES:
            kind, size = self._read_header(data, at)
            if size < 0:
                at += FRAME_HEADER_BYTES
                continue
            if end - at - FRAME_HEADER_BYTES < size:
                break
            at += FRAME_HEADER_BYTES
            frames.append(Frame(kind, (data[at : at + size],), size))
            at += size
            self._done += FRAME_HEADER_BYTES + size
        self._partial += data[at:]

    def _complete(self, data: memoryview, frames: list[Frame]) -> int:
        """Add to what was cut; how much of the data it took."""
        partial = self._partial
        at = max(0, FRAME_HEADER_BYTES - len(partial))
        partial += data[:at]
        if len(partial) < FRAME_HEADER_BYTES:
            return at
        kind, size = self._read_header(partial, 0)
        if size < 0:
            self._partial = bytearray()
            return at
        more = FRAME_HEADER_BYTES + size - len(partial)
        partial += data[at : at + more]
        if len(partial) == FRAME_HEADER_BYTES + size:
            frames.append(Frame(kind, (memoryview(partial)[FRAME_HEADER_BYTES:],), size))
            self._partial = bytearray()
            self._done += FRAME_HEADER_BYTES + size
        return at + more

    def _read_header(self, data: Buffer | bytearray, at: int) -> tuple[int, int]:
        """Kind and size of a frame; the size is −1 for a report, which is noted."""
        kind, form, zero, size = _HEADER.unpack_from(data, at)
        if form == FRAME and not zero:
            if size > self._frame_bytes_max:
                raise RemoteProtocolError(f"a frame of {size} bytes: the limit is {self._frame_bytes_max}")
            return kind, size
        if form != REPORT or zero or kind:
            raise RemoteProtocolError("a header with bits that version 1 does not have")
        self.report = size
        return kind, -1
