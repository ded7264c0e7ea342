"""Versions of what servers say to each other, and of what they write: a later version marks its bytes, the first not.

What is said and what is written is an array of MessagePack, and no array begins with a byte below 0x80. So bytes of
version 1 stand as they are, and those of a later version begin with its number; what follows is that version's affair.
Nothing is read in a version that this program does not know: it is refused, by the number.

Implements: [DESIGN 3, Versions]. Deviations: none.
"""

from __future__ import annotations

from isotone.core.versions import VersionRange

FIRST = 1
MARK_MAX = 0x7F  # a number up to here is one byte, and no array begins with it

WIRE_VERSIONS = VersionRange(FIRST, FIRST)
"""What servers say to each other: the versions that this program speaks."""
RECORD_VERSIONS = VersionRange(FIRST, FIRST)
"""What stands in a log: the versions that this program reads; it writes the lowest."""


def version_of(data: bytes) -> int:
    """The version of these bytes; what makes no sense is left to the codec of the first."""
    return data[0] if data and FIRST < data[0] <= MARK_MAX else FIRST


def marked(version: int, data: bytes) -> bytes:
    """These bytes in their version."""
    assert FIRST <= version <= MARK_MAX
    return data if version == FIRST else bytes((version,)) + data


def unmarked(data: bytes) -> bytes:
    """The inverse."""
    return data if version_of(data) == FIRST else data[1:]


def differing(server: str, version: int, speaks: VersionRange) -> str:
    """Why nothing that this server says counts here."""
    return f"{server} speaks version {version} of the replicas' protocol, and this server {speaks}"
