"""What a path says about its queues: round trips of nearly full packets, what is delivered, and losses, in rounds.

A queue *stands* when even the fastest packet of a round waited in it. It is *at hand* when the slowest of late waited
about as long as any of late: a queue that overflows is full, so a loss without one at hand is chance.

Implements: [Spread 4.3], a flow regulator in the style of TCP. Deviations: Dh8 and Dh10, in congestion.
"""

from __future__ import annotations

from isotone.detector.estimator import RunningMinimum

BASE_WINDOW_US = 60_000_000  # a path that became longer looks like a foreign queue for so long, which does no harm
HIGHEST_WINDOW_US = 10_000_000
QUEUE_PACKETS = 0.5  # so many packet times make a queue
NOISE_PARTS = 16
QUEUE_FLOOR_US = 1_000  # timers and schedulers cause as much
AT_HAND_PACKETS = 1.5
AT_HAND_SHARE = 0.7  # of the longest wait of late
OVERFLOW_LOSSES = 8  # one loss says little: what counts is the mean over about so many,
OVERFLOW_SHARE = 0.8  # of which so many had a queue at hand
RATE_GAIN = 0.25
QUIET_ROUNDS = 4


class PathSigns:
    """Measurements of one direction; all times are microseconds. ``packet_us`` is what a packet takes to be sent."""

    __slots__ = (
        "_at_hand_share",
        "_base",
        "_began_at",
        "_delivered",
        "_highest",
        "_quiet_rounds",
        "_rate",
        "_round_trip_us_in_round",
        "_slowest_us",
        "_slowest_us_in_round",
        "round_trip_us",
    )

    def __init__(self) -> None:
        self._base = RunningMinimum(BASE_WINDOW_US)  # the round trip of a nearly full packet without queues
        self._highest = RunningMinimum(HIGHEST_WINDOW_US)  # the longest of late, negated
        self.round_trip_us: int | None = None  # the shortest in the last round
        self._round_trip_us_in_round: int | None = None
        self._slowest_us = 0  # the longest in the last round
        self._slowest_us_in_round = 0
        self._began_at: int | None = None  # the round
        self._delivered = 0  # bytes that left the network in this round
        self._rate = 0.0  # bytes in a microsecond that were delivered: the best of late
        self._quiet_rounds = 0  # without a loss
        self._at_hand_share = 1.0  # of losses

    @property
    def base_us(self) -> int:
        """The round trip without queues; 0 until measured."""
        return self._base.value or 0

    @property
    def noise_us(self) -> float:
        """Round trips differ by as much without any queue."""
        return max(self.base_us / NOISE_PARTS, QUEUE_FLOOR_US)

    @property
    def queue_us(self) -> int:
        """What even the fastest packet of the last round waited in queues."""
        return 0 if self.round_trip_us is None else self.round_trip_us - self.base_us

    @property
    def held_bytes(self) -> float:
        """What the path holds without a queue at the rate of late; 0 when losses are frequent: then it is unknown."""
        return self._rate * self.base_us if self._quiet_rounds >= QUIET_ROUNDS else 0.0

    def queue_stands(self, share: float, packet_us: float) -> bool:
        """Whether every packet of the last round waited in a queue; ``share`` scales what counts as one."""
        return self.queue_us > share * max(QUEUE_PACKETS * packet_us, self.noise_us)

    def sampled(self, round_trip_us: int, at: int) -> None:
        """A round trip was measured."""
        self._base.take(round_trip_us, at)
        self._highest.take(-round_trip_us, at)
        best = self._round_trip_us_in_round
        self._round_trip_us_in_round = round_trip_us if best is None else min(best, round_trip_us)
        self._slowest_us_in_round = max(self._slowest_us_in_round, round_trip_us)

    def delivered(self, left_bytes: int) -> None:
        """So much left the network."""
        self._delivered += left_bytes

    def end_round(self, at: int) -> None:
        """A round trip is over."""
        self.round_trip_us, self._round_trip_us_in_round = self._round_trip_us_in_round, None
        self._slowest_us, self._slowest_us_in_round = self._slowest_us_in_round, 0
        if self._began_at is not None and at > self._began_at:
            rate = self._delivered / (at - self._began_at)
            self._rate = max(rate, self._rate + (rate - self._rate) * RATE_GAIN)
        self._began_at, self._delivered = at, 0
        self._quiet_rounds += 1

    def judge_loss(self, packet_us: float) -> bool:
        """Whether a loss is one of a queue that overflows; without measurements it is."""
        if self.round_trip_us is None:
            return True
        highest_us = -(self._highest.value or 0) - self.base_us
        limit_us = max(AT_HAND_PACKETS * packet_us, self.noise_us, AT_HAND_SHARE * highest_us)
        at_hand = max(self._slowest_us, self._slowest_us_in_round) - self.base_us > limit_us
        self._at_hand_share += (at_hand - self._at_hand_share) / OVERFLOW_LOSSES
        return at_hand and self._at_hand_share >= OVERFLOW_SHARE

    def lost(self) -> None:
        """A loss was answered."""
        self._quiet_rounds = 0
