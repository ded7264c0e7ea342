"""The gateway's word to the daemons of its site: which of its links have room for what they would stamp.

Implements: the global flow control that [Spread 4.1] promises and does not describe. Deviations: D-hold of
docs/protocols/ordering.md.
"""

from __future__ import annotations

import struct

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.ordering.stamper import LINKS, PLACE, UNLIMITED

PRESSURE_FRAME = 3
_PRESSURE = struct.Struct(">IQ??")  # how often it changed, full links, whether places and fragments have room


class LinkRoom(msgspec.Struct, frozen=True, gc=False):
    """What the links of a site take now; by default everything."""

    full: int = 0  # bits of the links without room for content, and `PLACE` if one has none for a place in the order
    room: int = UNLIMITED  # bytes of units that the other links take
    bulk_room: int = UNLIMITED  # the same for fragments, which need all links

    def as_told(self) -> LinkRoom:
        """As the other daemons of the site hear it: whether there is room, not how much."""
        return LinkRoom(self.full, UNLIMITED, UNLIMITED if self.bulk_room > 0 else 0)


def link_bit(site: int) -> int:
    """The bit of the link towards this site; where there are too many sites, some share theirs."""
    return 1 << site % 64


def decode_pressure(body: memoryview) -> tuple[int, LinkRoom]:
    """How often the pressure changed, and what it is."""
    if len(body) != _PRESSURE.size:
        raise RemoteProtocolError("a pressure frame of the wrong length")
    count, links, places, bulk = _PRESSURE.unpack(body)
    return count, LinkRoom(links | (0 if places else PLACE), UNLIMITED, UNLIMITED if bulk else 0)


def encode_pressure(count: int, room: LinkRoom) -> Frame:
    """The word as a frame."""
    places, bulk = not room.full & PLACE, room.bulk_room > 0
    return frame_of(PRESSURE_FRAME, _PRESSURE.pack(count & 0xFFFFFFFF, room.full & LINKS, places, bulk))
