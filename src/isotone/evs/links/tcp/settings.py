"""What can be set for each link over a byte stream, and the bounds that follow.

Implements: [Spread 4.2], what it leaves to be chosen. Deviations: Dt1 as in `link`.
"""

from __future__ import annotations

import msgspec

from isotone.evs.links.contract import FRAME_BYTES_MAX, FRAME_HEADER_BYTES

REPORT_PARTS = 16


class TcpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one link; both ends have the same ``stall_us``."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    queue_bytes_max: int = 256 * 1024
    """Frames wait here while the stream takes nothing."""
    write_bytes_max: int = 64 * 1024
    """A write ends with the first frame that reaches this."""
    open_us: int = 2_000_000
    """The stream must be there, and the greeting on it, within this time: a first packet may be lost and is sent again
    after a second. It is less than the membership waits for an exchange, or that would end before anybody knows why."""
    stall_us: int = 30_000_000
    """A peer that takes nothing and says nothing for so long, while something is for it, fails the link. On a path that
    loses every third packet the pauses between retransmissions of one segment add up to as much."""
    unreported_us: int = 90_000_000
    """A peer that says something but takes nothing for so long fails the link."""

    @property
    def report_us(self) -> int:
        """Two reports of what was received are at least this far apart."""
        return self.stall_us // REPORT_PARTS

    @property
    def fail_bound_us(self) -> int:
        """Within this time after the peer took its last byte the link has failed, if there was more for it."""
        return max(self.stall_us, self.unreported_us) + self.report_us

    @property
    def memory_max(self) -> int:
        """Bound of all buffers of one end: queue, write under way, frame half received."""
        return self.queue_bytes_max + self.write_bytes_max + 4 * (self.frame_bytes_max + FRAME_HEADER_BYTES)
