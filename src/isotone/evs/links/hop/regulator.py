"""When a hop link may send: the congestion window, the pace, and the leaky bucket of the settings, together.

Copies that were asked for pass the window, as [Spread 4.3] says, and wait only for the buckets. Frames that fit into a
packet may run one packet ahead of window and pace, and bulk waits for it afterwards: so a fresh message does not wait
for the pace of a large transfer. In the long run nothing is sent that window and pace do not allow.

Implements: [Spread 4.3], flow control. Deviations: Dh7 to Dh10, in pacing and congestion; Dh12 while a queue stands the
leaky bucket is filled more slowly, because one at the rate of the path would keep the queue that a burst began.
"""

from __future__ import annotations

from enum import Enum

from isotone.evs.links.hop.congestion import Congestion
from isotone.evs.links.hop.pacing import Bucket, Timing
from isotone.evs.links.hop.settings import MICROSECONDS, HopSettings

PACE_PACKETS = 1
IDLE_PACKETS = 4  # after idleness so many may leave at once
BULK_PACKETS = 2  # bulk leaves a packet's worth in the leaky bucket, for a fresh message
DRAIN_SHARE = 0.9  # of the leaky bucket's rate, while a queue stands
PACE_US = 1_000  # a burst may be as long as this, since timers are no finer


class Permission(Enum):
    """What may be sent now."""

    ANYTHING = "anything"
    WHOLE_FRAMES = "frames that fit into a packet"
    WAIT_FOR_WINDOW = "nothing until an acknowledgement comes"
    WAIT_FOR_PACE = "nothing for `wait_us`"


class Regulator:
    """Flow control of one direction."""

    __slots__ = ("_limit", "_pacing", "_packet", "_rate", "congestion", "wait_us")

    def __init__(self, settings: HopSettings, timing: Timing) -> None:
        self.congestion = Congestion(settings, timing)
        self.wait_us = 0  # set together with WAIT_FOR_PACE
        self._packet = settings.packet_bytes
        self._pacing = Bucket(rate=1.0, depth=float(PACE_PACKETS * self._packet))
        self._rate = (settings.rate_bytes_per_second or 0) / MICROSECONDS
        self._limit = Bucket(rate=self._rate, depth=float(settings.bucket_bytes)) if self._rate else None

    def refill(self, at: int, *, idle: bool) -> None:
        """Let time pass; call before asking. ``idle`` if nothing is in flight: then a small burst does no harm."""
        pace = self.congestion.pace
        self._pacing.rate = pace
        self._pacing.depth = max(PACE_PACKETS * self._packet, pace * PACE_US)
        self._pacing.refill(at)
        if idle:
            self._pacing.level = self._pacing.depth = max(self._pacing.depth, IDLE_PACKETS * self._packet)
        if self._limit is not None:
            self._limit.rate = self._rate * (DRAIN_SHARE if self.congestion.draining else 1.0)
            self._limit.refill(at)

    def copy(self) -> Permission:
        """Whether a copy may be sent."""
        return self._after(self._pacing.wait_us(0), 1, Permission.ANYTHING)

    def fresh(self, flight_bytes: int, *, urgent: bool) -> Permission:
        """Whether a new packet may be sent; ``urgent`` if a frame that fits into a packet is waiting."""
        over = flight_bytes + self._packet - self.congestion.window
        if over <= 0:
            permission = self._after(self._pacing.wait_us(self._packet), BULK_PACKETS, Permission.ANYTHING)
            if permission is Permission.ANYTHING or not urgent:
                return permission
        if urgent and over <= self._packet:
            return self._after(self._pacing.wait_us(0), 1, Permission.WHOLE_FRAMES)
        return Permission.WAIT_FOR_WINDOW

    def spend(self, size: int, flight_bytes: int) -> None:
        """A packet of this size leaves."""
        self._pacing.take(size)
        if self._limit is not None:
            self._limit.take(size)
        self.congestion.sent(flight_bytes)

    def _after(self, paced_us: int, packets: int, permission: Permission) -> Permission:
        """The permission, once the pace allows it and the bucket holds so many packets, or as many as it can."""
        self.wait_us = paced_us
        if self._limit is not None:
            self.wait_us = max(paced_us, self._limit.wait_us(packets * self._packet))
        return Permission.WAIT_FOR_PACE if self.wait_us else permission
