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
from isotone.evs.links.packing import PART, Unpacker
from isotone.evs.links.ring.packets import PacketStore
from isotone.evs.links.ring.settings import RingSettings
from isotone.evs.links.ring.token import LONE_PART, PACKET, PacketKind

HEADER_BYTES = PACKET.size
LONE_BYTES = LONE_PART.size
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
        step, size = event.segment_size, len(whole)
        frames: list[Frame] = []
        words: list[Word] = []
        senders: dict[int, Unpacker] = {}  # whose parts may have to be copied
        start = 0
        while start < size:
            taken = self._take_run(whole, start, step, senders, frames)
            if taken == start:
                taken = min(start + step, size)
                self._take_packet(whole[start:taken], senders, frames, words)
            start = taken
        for unpacker in senders.values():
            unpacker.settle()
        return frames, words

    def _take_packet(
        self, packet: memoryview, senders: dict[int, Unpacker], frames: list[Frame], words: list[Word]
    ) -> None:
        counters = self._counters
        try:
            if len(packet) < HEADER_BYTES:
                raise RemoteProtocolError("a ring packet without a header")
            kind, flags, sender, ring, number = PACKET.unpack_from(packet)
            unpacker = self._unpackers.get(sender)
            if unpacker is None or ring != self._ring:
                raise RemoteProtocolError("a packet of another ring")
            counters.packets_received += 1
            counters.bytes_received += len(packet)
            if kind == DATA:
                senders[sender] = unpacker
                self._take_data(number, unpacker, packet, frames)
            else:
                words.append((kind, flags, sender, number, packet[HEADER_BYTES:]))
        except RemoteProtocolError:
            counters.malformed += 1

    def _take_run(
        self, whole: memoryview, start: int, step: int, senders: dict[int, Unpacker], frames: list[Frame]
    ) -> int:
        """Packets from here on that are one part each of one frame, in their order; where the first other stands.

        A loop of its own, because at high load nearly all packets are of this kind: 1 us for each instead of 6.
        """
        packets, piece_bytes = self._packets, step - LONE_BYTES
        if piece_bytes <= 0 or start + step > len(whole) or not packets.is_whole:
            return start
        unpack, ring, begin, room = LONE_PART.unpack_from, self._ring, start, len(whole) - step
        kind, _, sender, of_ring, first, piece_kind, form, size, total, frame, offset = unpack(whole, start)
        unpacker, count_max = self._unpackers.get(sender), packets.settled + self._settings.window_max - packets.through
        if of_ring != ring or first != packets.through + 1 or kind != DATA or form != PART or unpacker is None:
            return begin
        expected = (DATA, sender, ring, piece_kind, PART, piece_bytes, total, frame)
        number, at, pieces = first, offset, list[memoryview]()
        while (kind, sender, of_ring, piece_kind, form, size, total, frame) == expected and number == first + len(
            pieces
        ):
            if at != offset + len(pieces) * piece_bytes or len(pieces) == count_max:
                break
            pieces.append(whole[start + LONE_BYTES : start + step])
            start += step
            if start > room:
                break
            kind, _, sender, of_ring, number, piece_kind, form, size, total, frame, at = unpack(whole, start)
        if not pieces or not unpacker.take_parts(
            (expected[7], offset, expected[3], expected[6], pieces[0]), pieces, frames
        ):
            return begin
        senders[expected[1]] = unpacker
        packets.extend(first, [(whole[place : place + step],) for place in range(begin, start, step)])
        self._counters.packets_received += len(pieces)
        self._counters.bytes_received += start - begin
        return start

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


def split_before_token(event: DatagramsReceived) -> tuple[DatagramsReceived, ...]:
    """A token that came behind packets in one buffer shall find them taken: who counts them then says so on it."""
    data, size = event.data, event.segment_size
    last = (len(data) - 1) // size * size
    if last <= 0 or data[last] != PacketKind.TOKEN:
        return (event,)
    view = memoryview(data)
    packets = DatagramsReceived(event.at, event.source, view[:last], size)
    return packets, DatagramsReceived(event.at, event.source, view[last:], len(data) - last)
