"""How fast a simulated byte stream may send: window and retransmission timeout, as values without IO.

Implements: slow start, congestion avoidance and fast recovery in the manner of NewReno (RFC 5681, RFC 6582) with
limited transmit (RFC 3042), and the retransmission timer of RFC 6298. Deviations: the window counts bytes and starts at
ten segments; there are no selective acknowledgements, so several losses in one window cost a round trip each.
"""

from __future__ import annotations

DUPLICATES_BEFORE_REPAIR = 3
INITIAL_SEGMENTS = 10
INITIAL_TIMEOUT_US = 1_000_000


class RetransmitTimeout:
    """Smoothed round trips, and the timeout that follows from them."""

    __slots__ = ("_backoff", "_high", "_low", "_smoothed", "_variation")

    def __init__(self, low_us: int, high_us: int) -> None:
        self._low = low_us
        self._high = high_us
        self._smoothed = 0
        self._variation = 0
        self._backoff = 1

    @property
    def value_us(self) -> int:
        """How long to wait for an acknowledgement now."""
        base = self._smoothed + 4 * self._variation if self._smoothed else INITIAL_TIMEOUT_US
        return min(max(base, self._low) * self._backoff, self._high)

    def measured(self, round_trip_us: int) -> None:
        """A segment that was sent once was acknowledged after this long."""
        if not self._smoothed:
            self._smoothed, self._variation = max(round_trip_us, 1), round_trip_us // 2
            return
        self._variation += (abs(self._smoothed - round_trip_us) - self._variation) // 4
        self._smoothed += (round_trip_us - self._smoothed) // 8

    def expired(self) -> None:
        """Nothing came in time: wait twice as long."""
        self._backoff = min(self._backoff * 2, 1 << 16)

    def progressed(self) -> None:
        """New data was acknowledged."""
        self._backoff = 1


class Congestion:
    """The congestion window of one direction, in bytes. Sequences count bytes from 0."""

    __slots__ = ("_duplicates", "_recover", "_segment", "_threshold", "recovering", "window")

    def __init__(self, segment_bytes: int) -> None:
        self.window = INITIAL_SEGMENTS * segment_bytes
        self.recovering = False
        self._segment = segment_bytes
        self._threshold = 1 << 30
        self._duplicates = 0
        self._recover = -1  # losses below this sequence belong to an event that was answered already

    @property
    def allowance(self) -> int:
        """How many bytes may be on their way; two duplicates permit a segment each (limited transmit)."""
        if self.recovering:
            return self.window
        return self.window + min(self._duplicates, DUPLICATES_BEFORE_REPAIR - 1) * self._segment

    def acknowledged(self, acked: int, reached: int) -> bool:
        """New data is acknowledged up to ``reached``; says whether the segment there must be repaired now."""
        self._duplicates = 0
        if self.recovering and reached < self._recover:
            self.window = max(self.window - acked, 0) + self._segment
            return True
        if self.recovering:
            self.recovering = False
            self.window = self._threshold
        elif self.window < self._threshold:
            self.window += min(acked, self._segment)
        else:
            self.window += max(self._segment * self._segment // self.window, 1)
        return False

    def duplicated(self, reached: int, sent: int) -> bool:
        """The same acknowledgement again, with bytes up to ``sent`` on their way; says whether to repair now."""
        self._duplicates += 1
        if self.recovering:
            self.window += self._segment
            return False
        if self._duplicates != DUPLICATES_BEFORE_REPAIR or reached < self._recover:
            return False
        self._halve(sent - reached)
        self.recovering = True
        self._recover = sent
        self.window = self._threshold + DUPLICATES_BEFORE_REPAIR * self._segment
        return True

    def expired(self, reached: int, sent: int) -> None:
        """The retransmission timer ran out: begin again with one segment."""
        self._halve(sent - reached)
        self.window = self._segment
        self.recovering = False
        self._duplicates = 0
        self._recover = sent

    def _halve(self, flight: int) -> None:
        self._threshold = max(flight // 2, 2 * self._segment)
