"""The bytes of a segment file: a header, then one frame for each operation on its log.

```
header   512 bytes: magic, version, a record with `SegmentHeader`, zeros
frame    48 bytes of head, then the body
head     mark (2)  kind (1)  zero (1)  length of the body (4)  CRC-32 of the body (4)
         operation (8)  first (8)  next (8)  synced (8)  CRC-32 of the head (4)
```
All numbers are little-endian. Operations on a log are numbered densely from 1; ``first`` and ``next`` are the numbers
of its first and its next record after the operation, so that any frame tells where the log stands, and ``synced`` is
the last operation that was known to be durable when the frame was made. The checksum of a head begins with one of the
log's name and the number of the segment: a frame that stands within a record is not taken for one of this file.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from io import BytesIO
from typing import NamedTuple
from zlib import crc32

import msgspec

from isotone.core.errors import InputError
from isotone.trace.records import TornTail, frame, preamble, read_preamble

SEGMENT_MAGIC = b"ISOSEGMT"
SEGMENT_VERSION = 1
HEADER_BYTES = 512
NAME_BYTES_MAX = 80  # of a log or cell; as a file's name each may take three
RECORD_BYTES_MAX = 256 * 1024 * 1024

MARK = b"\xa5\x5e"
HEAD = struct.Struct("<2sBxIIQQQQ")
CHECKSUM = struct.Struct("<I")
FRAME_BYTES = HEAD.size + CHECKSUM.size
NUMBER = struct.Struct("<Q")
PREAMBLE_BYTES = len(preamble(SEGMENT_MAGIC, SEGMENT_VERSION))


class Kind(IntEnum):
    """What a frame stands for."""

    APPEND = 1
    CUT_HEAD = 2
    CUT_TAIL = 3
    SYNCED = 4  # no operation: says that all before it is durable
    REPAIR = 5  # the number of a record that was damaged, and its bytes


KINDS = frozenset(map(int, Kind))


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Where the log stood when the segment began."""

    version: int
    log: str
    segment: int
    operation: int
    first: int
    next: int


class Frame(NamedTuple):
    """A frame whose head is good. ``whole`` says that its body is."""

    kind: int
    operation: int
    first: int
    next: int
    synced: int
    start: int  # of the frame in the file
    length: int  # of the body
    checksum: int  # of the body
    whole: bool

    @property
    def body(self) -> int:
        """Where the body begins."""
        return self.start + FRAME_BYTES

    @property
    def end(self) -> int:
        """Where the next frame begins."""
        return self.start + FRAME_BYTES + self.length

    @property
    def before(self) -> int:
        """The last operation before it."""
        return self.operation if self.kind == Kind.SYNCED else self.operation - 1


def salt_of(log: str, segment: int) -> int:
    """What the checksums of the heads in one file begin with."""
    return crc32(f"{segment}/{log}".encode())


def pack_frame(kind: int, body: bytes, salt: int, *, operation: int, first: int, next_: int, synced: int) -> bytes:
    """One frame."""
    head = HEAD.pack(MARK, kind, len(body), crc32(body), operation, first, next_, synced)
    return head + CHECKSUM.pack(crc32(head, salt)) + body


def pack_header(header: SegmentHeader) -> bytes:
    """The first bytes of a file."""
    data = preamble(SEGMENT_MAGIC, SEGMENT_VERSION) + frame(msgspec.msgpack.encode(header))
    assert len(data) <= HEADER_BYTES, f"the name {header.log!r} is too long"
    return data.ljust(HEADER_BYTES, b"\0")


def read_header(data: bytes, name: str, log: str, segment: int) -> SegmentHeader | None:
    """The header, or None when it is damaged; `InputError` when a newer version wrote it."""
    try:
        version = read_preamble(BytesIO(data[:PREAMBLE_BYTES]), SEGMENT_MAGIC, name, "a segment")
    except (InputError, TornTail):
        return None
    header = _decode(data)
    if header is not None and header.version == SEGMENT_VERSION:
        return header if (header.log, header.segment) == (log, segment) else None
    if version > SEGMENT_VERSION:
        raise InputError(
            f"{name}: written in format {version} by a newer version of Isotone; this one knows {SEGMENT_VERSION}. "
            "Use the newer version"
        )
    return None


def _decode(data: bytes) -> SegmentHeader | None:
    length, checksum = struct.unpack_from(">II", data.ljust(HEADER_BYTES, b"\0"), PREAMBLE_BYTES)
    body = data[PREAMBLE_BYTES + 8 : PREAMBLE_BYTES + 8 + min(length, HEADER_BYTES)]
    if not length or len(body) != length or crc32(body) != checksum:
        return None
    try:
        return msgspec.msgpack.decode(body, type=SegmentHeader)
    except msgspec.MsgspecError:
        return None


def next_frame(data: bytes, place: int, salt: int) -> Frame | None:
    """The frame at this place; if none is there, the next whose head is good; its numbers tell what is missing."""
    found = _frame_at(data, place, salt)
    while found is None and (place := data.find(MARK, place + 1)) >= 0:
        found = _frame_at(data, place, salt)
    return found


def _frame_at(data: bytes, place: int, salt: int) -> Frame | None:
    body = place + FRAME_BYTES
    if body > len(data):
        return None
    mark, kind, length, checksum, operation, first, next_, synced = HEAD.unpack_from(data, place)
    if mark != MARK or kind not in KINDS:
        return None
    if crc32(data[place : place + HEAD.size], salt) != CHECKSUM.unpack_from(data, place + HEAD.size)[0]:
        return None
    whole = body + length <= len(data) and crc32(memoryview(data)[body : body + length]) == checksum
    return Frame(kind, operation, first, next_, synced, place, length, checksum, whole)
