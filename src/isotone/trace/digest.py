"""The checksum of a Parquet file: 64 bits over all of its bytes, kept in its own metadata.

The value stands in the footer as 16 hexadecimal digits behind its key. It is computed with zeros in their place, so it
covers everything else: pages, statistics, the description of the part, and how the record ended. A file without the
key was written by another program, and is taken as it is.

Implements: [DESIGN 3], formats. Deviations: none.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from isotone.core.errors import InputError

KEY = b"isotone_digest"
NONE = b"0" * 16
_BEHIND_KEY = b"\x18\x10"
"""Between a key and its value, as Parquet's footer is encoded: a string of 16 bytes."""
_BLOCK_BYTES = 1 << 20
_FOOTER_BYTES = 8


def seal(path: Path) -> None:
    """Write the digest into a file that was written with `NONE` under `KEY`."""
    with path.open("r+b") as file:
        place = _place(file)
        assert place is not None, "written without the key"
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def check_seal(path: Path) -> None:
    """Refuse a file whose bytes are not those that were sealed."""
    found = path.stat()
    _check(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=1024)
def _check(path: Path, size: int, changed: int) -> None:
    with path.open("rb") as file:
        place = _place(file)
        if place is None:
            return
        file.seek(place)
        told = file.read(len(NONE))
        if told != _digest(file, place):
            raise InputError(f"{path}: damaged: its checksum is wrong")


def _place(file: BinaryIO) -> int | None:
    """Where the value stands, if the file has one."""
    size = file.seek(0, os.SEEK_END)
    if size < _FOOTER_BYTES:
        return None
    file.seek(size - _FOOTER_BYTES)
    length = int.from_bytes(file.read(4), "little")
    start = max(0, size - _FOOTER_BYTES - length)
    file.seek(start)
    at = file.read(size - start).rfind(KEY + _BEHIND_KEY)
    return None if at < 0 else start + at + len(KEY) + len(_BEHIND_KEY)


def _digest(file: BinaryIO, place: int) -> bytes:
    state = blake2b(digest_size=8)
    file.seek(0)
    left = place
    while left and (block := file.read(min(left, _BLOCK_BYTES))):
        state.update(block)
        left -= len(block)
    state.update(NONE)
    file.seek(place + len(NONE))
    while block := file.read(_BLOCK_BYTES):
        state.update(block)
    return state.hexdigest().encode()
