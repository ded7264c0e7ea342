"""What comes over a ring: one receive buffer of many packets, read in one loop.

Frames of all data packets are collected into one list; the token and other words are left to whoever holds the token's
state. Nothing is copied but parts of frames that are not complete when the buffer is done.

Implements: [Spread 4.1], receipt of packets. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import DatagramsReceived
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame, LinkCounters
from isotone.evs.links.packing import Unpacker
from isotone.evs.links.ring.packets import PacketStore
from isotone.evs.links.ring.settings import RingSettings
from isotone.evs.links.ring.token import PACKET, PacketKind

HEADER_BYTES = PACKET.size
DATA = int(PacketKind.DATA)

Word = tuple[int, int, int, int, memoryview]
"""A packet that is no data: kind, flags, sender, number, what is behind the header."""


class Inbound:
    """The receiving side of one member."""

    __slots__ = ("_counters", "_packets", "_ring", "_settings", "_unpackers")

    def __init__(
        self,
        *,
        ring: int,
        others: Sequence[int],
        packets: PacketStore,
        settings: RingSettings,
        counters: LinkCounters,
    ) -> None:
        held_max = settings.window_max * settings.body_bytes
        self._ring, self._packets, self._settings, self._counters = ring, packets, settings, counters
        self._unpackers = {
            member: Unpacker(frame_bytes_max=settings.frame_bytes_max, held_bytes_max=held_max) for member in others
        }

    def take(self, event: DatagramsReceived) -> tuple[list[Frame], list[Word]]:
        """Read a buffer; what is malformed is counted and dropped, packet by packet."""
        whole = memoryview(event.data)
        step, size, ring, counters = event.segment_size, len(whole), self._ring, self._counters
        frames: list[Frame] = []
        words: list[Word] = []
        senders: dict[int, Unpacker] = {}  # whose parts may have to be copied
        for start in range(0, size, step):
            end = min(start + step, size)
            try:
                if end - start < HEADER_BYTES:
                    raise RemoteProtocolError("a ring packet without a header")
                kind, flags, sender, number_of_ring, number = PACKET.unpack_from(whole, start)
                unpacker = self._unpackers.get(sender)
                if unpacker is None or number_of_ring != ring:
                    raise RemoteProtocolError("a packet of another ring")
                counters.packets_received += 1
                counters.bytes_received += end - start
                if kind == DATA:
                    senders[sender] = unpacker
                    self._take_data(number, unpacker, whole[start:end], frames)
                else:
                    words.append((kind, flags, sender, number, whole[start + HEADER_BYTES : end]))
            except RemoteProtocolError:
                counters.malformed += 1
        for unpacker in senders.values():
            unpacker.settle()
        return frames, words

    def _take_data(self, sequence: int, unpacker: Unpacker, packet: memoryview, frames: list[Frame]) -> None:
        packets, settings = self._packets, self._settings
        if sequence > packets.settled + 2 * settings.unsettled_max + settings.global_window:
            raise RemoteProtocolError("a packet far beyond the window")
        if sequence <= packets.through or packets.has(sequence):
            self._counters.duplicates += 1
            return
        unpacker.unpack(packet, frames, HEADER_BYTES)
        packets.add(sequence, (packet,))

    def clear(self) -> None:
        """The ring failed."""
        for unpacker in self._unpackers.values():
            unpacker.clear()
