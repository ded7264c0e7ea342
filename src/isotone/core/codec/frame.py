"""Frames on a byte stream: a head that says what follows and how long it is. What sessions speak.

Datagrams have no head in common: what a packet of a link begins with is that link's affair (docs/protocols/wire.md).
"""

from __future__ import annotations

import struct
from enum import IntEnum

# kind, flags, reserved, bytes of body
FRAME = struct.Struct("<BBHI")


class FrameKind(IntEnum):
    """What a frame's body is, and so which decoder reads it."""

    BUNDLE = 1
    CONTROL = 3
