"""What waits in front of a hop link, and how much room there is for more.

The queue need only last until `LinkRoomy` is answered, so it holds a part of a round trip's worth: what is in there,
nobody overtakes. Large frames that fill it leave room for one packet of others: the layer above goes on offering small
frames while bulk waits for its turn. Unless it is full there is room for the largest frame.

Implements: [Spread 4.3], flow control, towards the layer above. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame
from isotone.evs.links.hop.congestion import Congestion
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.packing import Packer, cost_of

PACKETS_MIN = 2
WINDOW_PARTS = 8


class SendQueue:
    """Frames that were offered and have not left."""

    __slots__ = ("_congestion", "_settings", "_short", "packer")

    def __init__(self, settings: HopSettings, congestion: Congestion) -> None:
        self.packer = Packer(settings.body_bytes)
        self._settings, self._congestion = settings, congestion
        self._short = False  # there was no room for a large frame since room returned last

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now."""
        capacity = self._capacity
        large = self.packer.large_bytes
        small = self.packer.queued_bytes - large
        if small >= capacity:
            return 0
        if large >= capacity:
            return self._settings.body_bytes - FRAME_HEADER_BYTES
        return max(capacity - small - large, self._settings.frame_bytes_max + FRAME_HEADER_BYTES)

    def offer(self, frames: Sequence[Frame]) -> None:
        """Queue frames for which there is room."""
        room = self.room
        assert sum(frame.size for frame in frames) <= room, "more than there is room for"
        assert cost_of(frames) <= room + self._settings.frame_bytes_max
        assert all(frame.size <= self._settings.frame_bytes_max for frame in frames)
        self.packer.offer(frames)

    def returned_room(self) -> int:
        """The room, once the largest frame fits again and half is empty, so that it is not said too often; else 0."""
        capacity = self._capacity
        large = self.packer.large_bytes
        fuller = max(large, self.packer.queued_bytes - large)
        if fuller >= capacity:
            self._short = True
        elif self._short and 2 * fuller <= capacity:
            self._short = False
            return self.room
        return 0

    @property
    def _capacity(self) -> int:
        least = PACKETS_MIN * self._settings.packet_bytes
        return int(min(max(self._congestion.window / WINDOW_PARTS, least), self._settings.queue_bytes_max))
