"""What is measured about a peer: round trips, their variation and minimum, and the share of lost probes.

Round trips follow the well-known smoothed mean and mean deviation of TCP's retransmission timer (gains 1/8 and 1/4),
in whole microseconds. A sample counts at most as much as eight deviations, or the mean itself, above the mean: one
outlier hardly moves the estimate, while a lasting change gets through in a number of samples logarithmic in its size.
Only signs of life change an estimate, so a silent peer cannot extend its own deadline.

Implements: measured timeouts, where [Spread 6.1] has constants. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.detector.settings import DetectorSettings

CLIP_DEVIATIONS = 8
PARTS = 1_000_000
LOSS_GAIN = 16


@dataclass(slots=True)
class RunningMinimum:
    """The smallest value of the last one to two windows."""

    window_us: int
    _began_at: int = 0
    _current: int | None = None
    _previous: int | None = None

    def take(self, value: int, at: int) -> None:
        """Note a value; a window that is over becomes the previous one."""
        windows_over = (at - self._began_at) // self.window_us if self._current is not None else 0
        if self._current is None or windows_over:
            self._previous = self._current if windows_over == 1 else None
            self._current = value
            self._began_at = at
        self._current = min(self._current, value)

    @property
    def value(self) -> int | None:
        """The minimum, if anything was measured."""
        if self._current is None or self._previous is None:
            return self._current
        return min(self._current, self._previous)


@dataclass(slots=True)
class RoundTrips:
    """Smoothed round trip to one peer, its mean deviation and its minimum."""

    settings: DetectorSettings
    smoothed_us: int = 0
    variation_us: int = 0
    samples: int = 0
    _minimum: RunningMinimum = field(init=False)

    def __post_init__(self) -> None:
        self.smoothed_us = self.settings.round_trip_initial_us
        self.variation_us = self.smoothed_us // 2
        self._minimum = RunningMinimum(self.settings.minimum_window_us)

    def take(self, sample_us: int, at: int) -> None:
        """Learn from one measured round trip."""
        assert sample_us >= 0
        self._minimum.take(sample_us, at)
        self.samples += 1
        if self.samples == 1:
            self.smoothed_us = sample_us
            self.variation_us = sample_us // 2
            return
        highest = self.smoothed_us + max(CLIP_DEVIATIONS * self.variation_us, self.smoothed_us, 1)
        difference = min(sample_us, highest) - self.smoothed_us
        self.smoothed_us += _share(difference, 8)
        self.variation_us += _share(abs(difference) - self.variation_us, 4)

    @property
    def minimum_us(self) -> int:
        """The smallest round trip of late: what the wire takes; the rest of the mean is queueing."""
        value = self._minimum.value
        return self.smoothed_us if value is None else min(value, self.smoothed_us)

    @property
    def answer_within_us(self) -> int:
        """How long to wait for an answer before taking the probe, or the answer, for lost."""
        return self.smoothed_us + 4 * self.variation_us + self.settings.granularity_us


@dataclass(slots=True)
class ProbeLoss:
    """The share of probes that got no answer although the peer lives, smoothed, and how many probes that calls for."""

    settings: DetectorSettings
    lost_ppm: int = 0
    probes_needed: int = 0

    def __post_init__(self) -> None:
        self.probes_needed = probes_needed(self.settings, self.lost_ppm)

    def take(self, *, answered: int, lost: int) -> None:
        """Learn the fate of some probes."""
        for _ in range(lost):
            self.lost_ppm += _share(PARTS - self.lost_ppm, LOSS_GAIN)
        for _ in range(answered):
            self.lost_ppm += _share(-self.lost_ppm, LOSS_GAIN)
        self.probes_needed = probes_needed(self.settings, self.lost_ppm)


def probes_needed(settings: DetectorSettings, lost_ppm: int) -> int:
    """The least number of probes that are all lost with a probability of at most ``all_lost_ppm``, within limits.

    The estimate is taken a quarter higher: it is smoothed over some sixteen probes and may be low by chance.
    """
    likely_ppm = min(lost_ppm + lost_ppm // 4, PARTS)
    all_lost = PARTS
    for count in range(1, settings.probes_max):
        all_lost = all_lost * likely_ppm // PARTS
        if all_lost <= settings.all_lost_ppm:
            return max(count, settings.probes_min)
    return settings.probes_max


def _share(difference: int, divisor: int) -> int:
    """A fraction of the difference, rounded away from 0: whole numbers must not get stuck on the way."""
    if difference < 0:
        return difference // divisor
    return -(-difference // divisor)
