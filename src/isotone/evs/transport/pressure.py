"""The gateway's word to the daemons of its site: whether its links have room for what they would stamp.

Implements: the global flow control that [Spread 4.1] promises and does not describe. Deviations: D-hold of
docs/protocols/ordering.md.
"""

from __future__ import annotations

import struct

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame, frame_of

PRESSURE_FRAME = 3
_PRESSURE = struct.Struct(">I??")  # how often it changed, whether there is room, whether for fragments
Open = tuple[bool, bool]


def decode_pressure(body: memoryview) -> tuple[int, Open]:
    """How often the pressure changed, and what it is."""
    if len(body) != _PRESSURE.size:
        raise RemoteProtocolError("a pressure frame of the wrong length")
    count, units, bulk = _PRESSURE.unpack(body)
    return count, (units, bulk)


def encode_pressure(count: int, now_open: Open) -> Frame:
    """The word as a frame."""
    return frame_of(PRESSURE_FRAME, _PRESSURE.pack(count & 0xFFFFFFFF, *now_open))
