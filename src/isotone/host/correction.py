"""One flipped bit of a record, found by its checksum alone.

A flipped bit changes a CRC by an amount that follows from its place, whatever the other bytes are. So the difference of
two checksums is led back byte by byte, and where it becomes that of one bit, that bit may be it. A checksum of 32 bits
tells no more than that: wider damage that happens to look like one bit is as likely as a record has bits among 2**32,
so neither two bits nor long records are put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

POLYNOMIAL = 0xEDB88320
CORRECTED_BYTES_MAX = 64 * 1024
"""In longer records a bit fits by chance too often: here once in 8,000 times."""


def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return found


TABLE = _table()
BIT_OF = {TABLE[1 << place]: 1 << place for place in range(8)}
INDEX_OF = {entry >> 24: index for index, entry in enumerate(TABLE)}


def corrections(data: bytes, checksum: int) -> Iterator[bytes]:
    """What differs in one bit from this and has this checksum; by the place of the bit, the last byte first."""
    if len(data) > CORRECTED_BYTES_MAX:
        return
    change = crc32(data) ^ checksum
    for place in range(len(data) - 1, -1, -1):
        bit = BIT_OF.get(change)
        if bit is not None:
            yield data[:place] + bytes((data[place] ^ bit,)) + data[place + 1 :]
        index = INDEX_OF[change >> 24]
        change = ((change ^ TABLE[index]) << 8 | index) & 0xFFFFFFFF
