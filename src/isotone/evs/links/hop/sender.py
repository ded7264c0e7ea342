"""The sending half of a hop link: packets that are not acknowledged, copies that are asked for, and what is in flight.

Implements: [Spread 4.3, Figure 4.1]. Deviations:
Dh5 a packet is given up after a time *and* a number of copies, as in the receiver (Dh3), instead of MaxNACKS;
Dh6 a request that left the peer before the last copy can have arrived is ignored, because duplicated requests would
    double the copies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.hop.wire import Range
from isotone.evs.links.packing import Buffer


class Packet(msgspec.Struct, gc=False):
    """A packet until it is acknowledged: the parts of its body as they were offered, never copied."""

    parts: list[Buffer]
    size: int
    first_sent_at: int
    last_sent_at: int
    copies: int = 0
    in_flight: bool = True


class Sender:
    """Figure 4.1 for one peer; `Hop` sends what this decides."""

    __slots__ = (
        "_highest_known",
        "_packets",
        "_resend",
        "_settings",
        "_timing",
        "acknowledged_up_to",
        "failure",
        "flight_bytes",
        "highest_sent",
        "packets_resent",
        "stored_bytes",
    )

    def __init__(self, settings: HopSettings, timing: Timing) -> None:
        self._settings = settings
        self._timing = timing
        self._packets: dict[int, Packet] = {}  # Msg: exactly acknowledged_up_to + 1 … highest_sent
        self._resend: OrderedDict[int, None] = OrderedDict()  # the retransmit queue; keys of `_packets`
        self._highest_known = 0  # the peer knows of every packet up to here, by receipt or by announcement
        self.highest_sent = 0  # Seq
        self.acknowledged_up_to = 0
        self.flight_bytes = 0  # sent, and neither acknowledged nor known to have left the network
        self.stored_bytes = 0
        self.packets_resent = 0
        self.failure: str | None = None

    @property
    def outstanding(self) -> bool:
        """Whether anything waits for its acknowledgement."""
        return self.highest_sent > self.acknowledged_up_to

    @property
    def window_open(self) -> bool:
        """Whether a new packet may be sent: the bound on outstanding packets."""
        return self.highest_sent - self.acknowledged_up_to < self._settings.window_max

    @property
    def has_copies(self) -> bool:
        """Whether requested copies wait; they are sent whatever the windows say."""
        return bool(self._resend)

    def send(self, parts: list[Buffer], size: int, at: int) -> int:
        """Store a new packet; its sequence number. Lines 13 to 17."""
        assert self.window_open
        self.highest_sent += 1
        self._packets[self.highest_sent] = Packet(parts, size, at, at)
        self.stored_bytes += size
        self.flight_bytes += size
        return self.highest_sent

    def send_copy(self, at: int) -> tuple[int, Packet]:
        """The next packet of the retransmit queue."""
        sequence, _ = self._resend.popitem(last=False)
        packet = self._packets[sequence]
        packet.last_sent_at = at
        packet.copies += 1
        if not packet.in_flight:
            packet.in_flight = True
            self.flight_bytes += packet.size
        self.packets_resent += 1
        return sequence, packet

    def acknowledged(self, up_to: int, highest_known: int) -> int:
        """Release what the peer has; how many bytes left the network. Lines 18 to 21."""
        if not up_to <= highest_known <= self.highest_sent:
            raise RemoteProtocolError("an acknowledgement of packets that were never sent")
        before = self.flight_bytes
        for sequence in range(self._highest_known + 1, highest_known + 1):
            self._left(self._packets[sequence])
        self._highest_known = max(self._highest_known, highest_known)
        for sequence in range(self.acknowledged_up_to + 1, up_to + 1):
            packet = self._packets.pop(sequence)
            self._left(packet)
            self._resend.pop(sequence, None)
            self.stored_bytes -= packet.size
        self.acknowledged_up_to = max(self.acknowledged_up_to, up_to)
        return before - self.flight_bytes

    def requested(self, ranges: Iterable[Range], at: int) -> int:
        """Queue copies of what the peer misses; the highest sequence number newly lost, or 0. Lines 2 to 7."""
        highest_lost = 0
        ranges = list(ranges)
        if ranges and sum(ranges[-1]) - 1 > self.highest_sent:
            raise RemoteProtocolError("a request for packets that were never sent")
        for first, count in ranges:
            for sequence in range(max(first, self.acknowledged_up_to + 1), first + count):
                packet = self._packets[sequence]
                if sequence in self._resend or at - packet.last_sent_at < self._timing.minimum_us:
                    continue
                self._left(packet)
                self._resend[sequence] = None
                highest_lost = sequence
                self._judge(sequence, packet, at)
        return highest_lost

    def clear(self) -> None:
        """The link failed: hold nothing."""
        self._packets.clear()
        self._resend.clear()
        self.acknowledged_up_to = self._highest_known = self.highest_sent
        self.stored_bytes = self.flight_bytes = 0

    def _left(self, packet: Packet) -> None:
        if packet.in_flight:
            packet.in_flight = False
            self.flight_bytes -= packet.size

    def _judge(self, sequence: int, packet: Packet, at: int) -> None:
        give_up = self._settings.give_up_us(self._timing.timeout_us)
        if packet.copies >= self._settings.attempts_min and at - packet.first_sent_at >= give_up:
            self.failure = f"packet {sequence} still missing at the peer after {packet.copies} copies"
