"""Files of records that survive a kill at any byte: magic and version, then (length, CRC-32, body) after each other.

The body of a record is never empty, so a tail of zeros, which a file system may leave behind, is no record. A writer
that closes cleanly writes `END` last.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO
from zlib import crc32

from isotone.core.errors import InputError

END = b"\xc0"  # MessagePack's nil; no other body is one byte long
MAGIC_BYTES = 8
_FRAME = struct.Struct(">II")
_VERSION = struct.Struct(">H")


class TornTail(Exception):
    """The file ends within a record, or what stands there was never written whole."""


def frame(body: bytes) -> bytes:
    """One record."""
    return _FRAME.pack(len(body), crc32(body)) + body


def preamble(magic: bytes, version: int) -> bytes:
    """The first bytes of a file."""
    assert len(magic) == MAGIC_BYTES
    return magic + _VERSION.pack(version)


def read_preamble(file: BinaryIO, magic: bytes, name: str, what: str) -> int:
    """The version of the file; `InputError` when it is something else, `TornTail` when it is only begun."""
    start = file.read(MAGIC_BYTES + _VERSION.size)
    if not magic.startswith(start[:MAGIC_BYTES]):
        raise InputError(f"{name}: this is not {what}")
    if len(start) < MAGIC_BYTES + _VERSION.size:
        raise TornTail("the file ends within its first bytes")
    (version,) = _VERSION.unpack_from(start, MAGIC_BYTES)
    return int(version)


def read_records(file: BinaryIO) -> Iterator[bytes]:
    """The bodies up to the end of the file; `TornTail` at the first place that is not a whole record."""
    left = os.fstat(file.fileno()).st_size - file.tell()
    while left:
        head = file.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise TornTail(f"{left} bytes of an unfinished record at the end")
        length, checksum = _FRAME.unpack(head)
        left -= _FRAME.size
        if not 0 < length <= left:
            raise TornTail(f"an unfinished record at the end: {left} of {length} bytes")
        body = file.read(length)
        if len(body) < length or crc32(body) != checksum:
            raise TornTail(f"a damaged record, {left - length} bytes before the end")
        left -= length
        yield body
