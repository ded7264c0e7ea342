"""What can be set for each hop link, and the bounds that follow. Implements: [Spread 4.3], "all set per link"."""

from __future__ import annotations

import msgspec

from isotone.evs.links.contract import FRAME_BYTES_MAX
from isotone.evs.links.hop.wire import HEADER_BYTES

MICROSECONDS = 1_000_000


def retry_us(timeout_us: int) -> int:
    """The shortest pause between two attempts: an answer that waits its turn at the peer is not asked for twice."""
    return timeout_us * 5 // 4


class HopSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one link; both ends have the same ``window_max``, ``packet_bytes`` and ``frame_bytes_max``."""

    packet_bytes: int = 1400
    """A full datagram, our header included."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    window_max: int = 4096
    """Packets that may be sent beyond the one below which all were received: bounds memory at both ends."""
    queue_bytes_max: int = 1024 * 1024
    """The send queue grows with the measured window up to this."""
    rate_bytes_per_second: int | None = None
    """The leaky bucket of this link: the average it never passes; none means that only the measured path limits."""
    burst_bytes: int | None = None
    """The leaky bucket's depth; none means what `bucket_bytes` says."""
    acknowledge_packets: int = 16
    """An acknowledgement is due after so many packets at the latest."""
    fail_after_us: int = 5 * MICROSECONDS
    """What stays unanswered for so long, and for `attempts_min` attempts, fails the link."""
    attempts_min: int = 16
    round_trip_initial_us: int = 100_000
    """Assumed until the first measurement."""
    timeout_min_us: int = 2_000
    """No answer is awaited for less; covers timers of a millisecond's grain."""
    timeout_max_us: int = 2 * MICROSECONDS
    """No answer is awaited for longer."""
    reorder_min_us: int = 1_000
    """The shortest wait before a missing packet is asked for."""

    @property
    def bucket_bytes(self) -> int:
        """What may leave at once: by default four packets, or a millisecond's worth, since timers are no finer."""
        rate = self.rate_bytes_per_second or 0
        burst = self.burst_bytes if self.burst_bytes is not None else max(4 * self.packet_bytes, rate // 1_000)
        return max(burst, self.packet_bytes)

    @property
    def body_bytes(self) -> int:
        """What a packet holds besides its header."""
        return self.packet_bytes - HEADER_BYTES

    @property
    def sent_bytes_max(self) -> int:
        """Bound of the table of packets that are not acknowledged."""
        return self.window_max * self.body_bytes

    @property
    def held_bytes_max(self) -> int:
        """Bound of the parts of incomplete frames at the receiver: a window, and what a frame had before it."""
        return self.window_max * self.body_bytes + 2 * self.frame_bytes_max

    @property
    def memory_max(self) -> int:
        """Bound of all buffers of one end, both directions."""
        queue = 2 * self.queue_bytes_max + 4 * self.frame_bytes_max
        return queue + self.sent_bytes_max + self.held_bytes_max

    def give_up_us(self, timeout_us: int) -> int:
        """How long something may stay unanswered when one answer takes ``timeout_us``."""
        return max(self.fail_after_us, self.attempts_min * retry_us(timeout_us))

    def retry_max_us(self, timeout_us: int) -> int:
        """The longest pause between two attempts: twice as many as needed fit into the time."""
        return max(retry_us(timeout_us), self.give_up_us(timeout_us) // (2 * self.attempts_min))

    def fail_bound_us(self, timeout_us: int) -> int:
        """Within this time after an answer was first due the link has failed, if none came."""
        return self.give_up_us(timeout_us) + 3 * self.retry_max_us(timeout_us)
