"""Time on a hop link: what follows from measured round trips, and the buckets that spread packets over time.

Implements: [Spread 4.3], the leaky bucket with a burst and an average rate. Deviations: Dh7 a second bucket of the same
kind paces at the measured rate, because a window that is sent at once is a queue at the bottleneck.
"""

from __future__ import annotations

from math import ceil

from isotone.detector.estimator import RoundTrips
from isotone.detector.settings import DetectorSettings
from isotone.evs.links.hop.settings import HopSettings

ROUND_TRIP_PARTS = 8  # acknowledgements in a round trip at most, unless their count asks for more
MINIMUM_WINDOW_US = 10_000_000
WAIT_MAX_US = 10_000_000  # a bucket asks to be looked at again after so long at the latest


class Timing:
    """All durations that depend on the measured round trip, in microseconds."""

    __slots__ = ("_round_trips", "_settings")

    def __init__(self, settings: HopSettings) -> None:
        self._settings = settings
        self._round_trips = RoundTrips(
            DetectorSettings(round_trip_initial_us=settings.round_trip_initial_us, minimum_window_us=MINIMUM_WINDOW_US)
        )

    def take(self, sample_us: int, at: int) -> None:
        """Learn from one measured round trip."""
        self._round_trips.take(sample_us, at)

    @property
    def measured(self) -> bool:
        """Whether anything was measured yet."""
        return self._round_trips.samples > 0

    @property
    def smoothed_us(self) -> int:
        """The mean round trip."""
        return max(1, self._round_trips.smoothed_us)

    @property
    def minimum_us(self) -> int:
        """The round trip without queues; 0 until measured."""
        return self._round_trips.minimum_us if self.measured else 0

    @property
    def timeout_us(self) -> int:
        """When an answer that was asked for at once must have come."""
        settings = self._settings
        return min(max(self._round_trips.answer_within_us, settings.timeout_min_us), settings.timeout_max_us)

    @property
    def acknowledge_us(self) -> int:
        """The shortest time between two acknowledgements that nothing else calls for."""
        return self.smoothed_us // ROUND_TRIP_PARTS

    @property
    def settle_us(self) -> int:
        """How long a missing packet is taken for late when no reordering was seen."""
        return max(self._settings.reorder_min_us, self.smoothed_us // ROUND_TRIP_PARTS)


class Bucket:
    """A leaky bucket: ``level`` is what may be sent now; it may be overdrawn, and the debt is waited for."""

    __slots__ = ("_at", "depth", "level", "rate")

    def __init__(self, *, rate: float, depth: float) -> None:
        self.rate = rate  # bytes in a microsecond
        self.depth = depth
        self.level = depth  # never above depth
        self._at: int | None = None

    def refill(self, at: int) -> None:
        """Let time pass; at first the bucket is full."""
        if self._at is None:
            self.level = self.depth
        else:
            self.level = min(self.depth, self.level + self.rate * max(0, at - self._at))
        self._at = at

    def wait_us(self, need: float) -> int:
        """How long until the level is at ``need``; 0 if it is."""
        if self.level >= min(need, self.depth):
            return 0
        return min(WAIT_MAX_US, max(1, ceil((min(need, self.depth) - self.level) / self.rate)))

    def take(self, size: int) -> None:
        """Send this much."""
        self.level -= size
