"""How much may be in flight: additive increase, multiplicative decrease, on loss and on standing queues.

Implements: [Spread 4.3], a flow regulator in the style of TCP. Deviations:
Dh8 a queue that stands at the bottleneck is a signal like loss, only weaker: the window shrinks to what the path holds
    without it, so that a bulk transfer leaves the bottleneck all but empty for everyone's fresh messages;
Dh9 who competes with flows that fill the queue would starve by Dh8. So at times, when a queue stands, the window is all
    but closed for two round trips. If the queue stays, it is not ours: for some time only loss counts, as in TCP;
Dh10 a loss while no queue stands is taken for chance rather than congestion and costs a fifth instead of a half, or
    nothing if the window was not even used.

The window grows by one packet in a round trip, or doubles while no signal was ever seen, and only if it was used.
There is at most one decrease for the packets of one round trip.
"""

from __future__ import annotations

from isotone.detector.estimator import RunningMinimum
from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.settings import HopSettings

INITIAL_PACKETS = 10
LEAST_PACKETS = 2
LOSS_FACTOR = 0.5
CHANCE_LOSS_FACTOR = 0.8
QUEUE_FACTOR = 0.85
QUEUE_STEP_PACKETS = 1.5  # a decrease for a queue is at least this, so that a small window empties the queue as well
QUEUE_PACKETS = 0.5  # so many packet times make a queue
NOISE_PARTS = 16
QUEUE_FLOOR_US = 1_000  # timers and schedulers cause as much
BASE_WINDOW_US = 60_000_000  # a path that became longer looks like a foreign queue for so long, which does no harm
TEST_ROUNDS = 2
TEST_EVERY_US = 10_000_000
FOREIGN_SHARE = 0.1  # of a queue of our own less than this is left after a test
CAREFUL_SHARE = 0.25
CAREFUL_STEP = 0.5  # of a packet; what is added in a round trip, unless we compete with flows that add a whole one
PACE_GAIN = 1.1  # pacing shapes, the window limits
PACE_GAIN_DOUBLING = 2.0
UNPACED = 1e6


class Congestion:
    """The congestion window of one direction, in bytes."""

    __slots__ = (
        "_base",
        "_competes",
        "_decreased_at_sequence",
        "_flight_max",
        "_packet",
        "_queue_before_test_us",
        "_round_end",
        "_round_trip_us",
        "_round_trip_us_in_round",
        "_test_at",
        "_test_rounds",
        "_timing",
        "_window",
        "_window_max",
        "doubling_until",
    )

    def __init__(self, settings: HopSettings, timing: Timing) -> None:
        self._timing = timing
        self._packet = settings.packet_bytes
        self._window_max = float(settings.window_max * settings.packet_bytes)
        self._window = min(self._window_max, float(INITIAL_PACKETS * self._packet))
        self.doubling_until = self._window_max  # the slow start threshold
        self._round_end = 1  # the round is over when the peer knows of this packet
        self._base = RunningMinimum(BASE_WINDOW_US)  # the round trip of a nearly full packet without queues
        self._round_trip_us: int | None = None  # the shortest of such in the last round
        self._round_trip_us_in_round: int | None = None
        self._flight_max = 0  # in this round
        self._decreased_at_sequence = 0  # one decrease covers the packets up to here
        self._competes = False  # the queue at the bottleneck is not ours, by the last test
        self._test_rounds = 0  # rounds that are left of a test
        self._test_at = 0  # no test before
        self._queue_before_test_us = 0

    @property
    def window(self) -> float:
        """Bytes that may be in flight."""
        return float(LEAST_PACKETS * self._packet) if self._test_rounds else self._window

    @property
    def pace(self) -> float:
        """Bytes in a microsecond; as good as infinite until a round trip was measured."""
        if not self._timing.measured:
            return UNPACED
        gain = PACE_GAIN_DOUBLING if self._window < self.doubling_until else PACE_GAIN
        return gain * self.window / self._timing.smoothed_us

    def sampled(self, round_trip_us: int, at: int) -> None:
        """The round trip of a nearly full packet was measured; on a slow path small ones are faster."""
        self._base.take(round_trip_us, at)
        best = self._round_trip_us_in_round
        self._round_trip_us_in_round = round_trip_us if best is None else min(best, round_trip_us)

    def sent(self, flight_bytes: int) -> None:
        """So much is in flight after a send."""
        self._flight_max = max(self._flight_max, flight_bytes)

    def progressed(self, left_bytes: int, flight_bytes: int, *, highest_known: int, highest_sent: int, at: int) -> None:
        """So many bytes left the network and so many are in flight; the peer knows of packets up to here."""
        if self._window < self.doubling_until and self._used and not self._test_rounds:
            self._window = min(self._window + left_bytes, self._window_max)
        if highest_known >= self._round_end:
            self._end_round(at)
            self._round_end = highest_sent + 1
            self._flight_max = flight_bytes

    def lost(self, sequence: int, highest_sent: int) -> None:
        """The peer misses this packet."""
        if sequence <= self._decreased_at_sequence:
            return
        self._decreased_at_sequence = highest_sent
        chance = self._round_trip_us is not None and not self._queue_stands(0.5)
        if not chance:
            self._shrink_to(self._window * LOSS_FACTOR)
        elif self._used:
            self._shrink_to(self._window * CHANCE_LOSS_FACTOR)

    def timed_out(self, highest_sent: int) -> None:
        """Several announcements in a row got no answer: begin anew, as small as at first."""
        self._decreased_at_sequence = highest_sent
        self._shrink_to(min(self._window * LOSS_FACTOR, float(INITIAL_PACKETS * self._packet)))

    @property
    def _used(self) -> bool:
        return 2 * self._flight_max >= self.window

    def _end_round(self, at: int) -> None:
        self._round_trip_us = self._round_trip_us_in_round
        self._round_trip_us_in_round = None
        if self._test_rounds:
            self._test_rounds -= 1
            if not self._test_rounds:
                self._end_test(at)
        elif not self._used:
            return
        elif self._queue_stands(1.0) and at >= self._test_at:
            self._test_rounds = TEST_ROUNDS
            self._queue_before_test_us = self._queue_us
        elif self._queue_stands(1.0) and not self._competes:
            if self._window > LEAST_PACKETS * self._packet:
                self._on_queue(self._queue_us)
            else:
                self._end_test(at)  # nothing is left to be lowered: the queue is not ours
        elif self._window >= self.doubling_until:
            careful = not self._competes and self._queue_stands(CAREFUL_SHARE)
            step = self._packet * (CAREFUL_STEP if careful else 1.0)
            self._window = min(self._window + step, self._window_max)

    def _end_test(self, at: int) -> None:
        left = max(FOREIGN_SHARE * self._queue_before_test_us, self._noise_us)
        self._competes = self._queue_us > left
        self._test_at = at + TEST_EVERY_US
        if not self._competes:
            self._on_queue(self._queue_before_test_us)

    def _on_queue(self, queue_us: int) -> None:
        """Shrink to what the path holds without a queue, and a little more, so that the queue empties."""
        base = self._base.value or 1
        factor = min(QUEUE_FACTOR, max(LOSS_FACTOR, base / (base + queue_us)))
        self._shrink_to(min(self._window * factor, self._window - QUEUE_STEP_PACKETS * self._packet))

    @property
    def _queue_us(self) -> int:
        """What even the fastest packet of the last round waited in queues."""
        return 0 if self._round_trip_us is None else self._round_trip_us - (self._base.value or 0)

    def _queue_stands(self, share: float) -> bool:
        """Whether every packet of the last round waited in a queue; ``share`` scales what counts as one."""
        if self._round_trip_us is None:
            return False
        packet_us = self._packet * self._round_trip_us / self._window
        return self._queue_us > share * max(QUEUE_PACKETS * packet_us, self._noise_us)

    @property
    def _noise_us(self) -> float:
        """Round trips differ by as much without any queue."""
        return max((self._base.value or 0) / NOISE_PARTS, QUEUE_FLOOR_US)

    def _shrink_to(self, window: float) -> None:
        self._window = max(window, float(LEAST_PACKETS * self._packet))
        self.doubling_until = self._window
