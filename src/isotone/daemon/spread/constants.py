"""Numbers of Spread's client protocol: sizes, bits of the type field, result codes.

Implements: Spread's client protocol, its numbers.
"""

from __future__ import annotations

from enum import IntEnum

SLOT_BYTES = 32
"""Of every name in a frame; it ends at the first zero byte."""
NAME_MAX = SLOT_BYTES - 1
HEAD_BYTES = 48
GROUPS_PER_MESSAGE_MAX = 100
DATA_BYTES_MAX = 144_000
MESSAGE_BYTES_MAX = DATA_BYTES_MAX - HEAD_BYTES
"""Data and slots of one frame."""
FRAME_BYTES_MAX = HEAD_BYTES + MESSAGE_BYTES_MAX
FRAME_OVERHEAD = 480
"""Bytes that an object for a frame of a client takes besides; so many small frames count as what they are."""
PARCEL_OVERHEAD = 160
"""The same for what a client is told."""
PRIVATE_NAME_MAX, DAEMON_NAME_MAX = 10, 19
METHOD_SLOT_BYTES = 30
METHOD_SLOTS = 3
CHOICE_BYTES = METHOD_SLOTS * METHOD_SLOT_BYTES
USER_BYTES, PASSWORD_BYTES = 32, 8

# --- bits of the type field ----------------------------------------------------------------------------------------

LITTLE_ENDIAN = 0x80000080
"""Both bits are set by a little-endian writer, none by a big-endian one; the same in either reading."""
SERVICE_BITS = 0x0000003F
SELF_DISCARD = 0x00000040
CAUSED_BY_JOIN = 0x00000100
CAUSED_BY_LEAVE = 0x00000200
CAUSED_BY_DISCONNECT = 0x00000400
CAUSED_BY_NETWORK = 0x00000800
REGULAR_MEMBERSHIP = 0x00001000
TRANSITION = 0x00002000
JOIN = 0x00010000
LEAVE = 0x00020000
KILL = 0x00040000
REQUEST_BITS = JOIN | LEAVE | KILL
REJECT = 0x00400000
RESERVED_BITS = 0x00FFFF00 & ~REQUEST_BITS
"""What only daemons write: a client that could set them would forge views, or more."""
APPLICATION_BITS = 0x7F000000
"""Passed on from sender to receivers; the flush library's subgroup cast is among them."""

# --- the same in the flags of a bundle -----------------------------------------------------------------------------

FLAG_SELF_DISCARD = 0x0040
FLAG_BIG_ENDIAN = 0x0080
FLAG_APPLICATION_BITS = 0x7F00
APPLICATION_SHIFT = 16

VERSION_MIN = 30_100
VERSION_WITH_PATCH = 31_500
VERSION_WITH_CHOICE = 31_600
VERSION_WITH_SETS = 40_000


class Code(IntEnum):
    """Answers to a client that connects; one byte, two's complement."""

    ACCEPT = 1
    QUOTA = -3
    ILLEGAL_NAME = -5
    NOT_UNIQUE = -6
    VERSION = -7
    AUTHENTICATION = -9

    @property
    def byte(self) -> bytes:
        """As it is written."""
        return bytes((self & 0xFF,))
