"""How much may be in flight: additive increase, multiplicative decrease, on loss and on standing queues.

Implements: [Spread 4.3], a flow regulator in the style of TCP. Deviations:
Dh8 a queue that stands at the bottleneck is a signal like loss, only weaker: the window shrinks to what the path holds
    without it, so that a bulk transfer leaves the bottleneck all but empty for everyone's fresh messages;
Dh9 who competes with flows that fill the queue would starve by Dh8. So at times, when a queue stands, the window is all
    but closed for two round trips: if the queue stays, it is not ours. Nor is one that does not get smaller while the
    window shrinks, nor one that overflows again and again. Then for some time only loss counts, as in TCP;
Dh10 a loss without a queue at hand is taken for chance rather than congestion. It costs a fifth instead of a half, no
    more than leaves what the path holds at the delivered rate, and nothing if the window was not even used.

The window grows by one packet in a round trip, or doubles while no signal was ever seen, and only if it was used.
There is at most one decrease for the packets of one round trip.
"""

from __future__ import annotations

from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.path import PathSigns
from isotone.evs.links.hop.settings import HopSettings

INITIAL_PACKETS = 10
LEAST_PACKETS = 2
LOSS_FACTOR = 0.5
CHANCE_LOSS_FACTOR = 0.8
QUEUE_FACTOR = 0.85
QUEUE_STEP_PACKETS = 1.5  # a decrease for a queue is at least this, so that a small window empties the queue as well
TEST_ROUNDS = 2
TEST_EVERY_US = 10_000_000
FOREIGN_SHARE = 0.1  # of a queue of our own less than this is left after a test
YIELD_ROUNDS = 6  # in a row; other flows that begin fill a queue for about as long
YIELD_SHARE = 0.8  # of a queue of our own less than this is left after these
OVERFLOWS = 3  # within `TEST_EVERY_US`
CAREFUL_SHARE = 0.25
CAREFUL_STEP = 0.5  # of a packet; what is added in a round trip, unless we compete with flows that add a whole one
DRAIN_SHARE = 0.5
PACE_GAIN = 1.1  # pacing shapes, the window limits
PACE_GAIN_DOUBLING = 2.0
UNPACED = 1e6


class Congestion:
    """The congestion window of one direction, in bytes."""

    __slots__ = (
        "_competes",
        "_decreased_at_sequence",
        "_flight_max",
        "_overflows",
        "_packet",
        "_path",
        "_queue_before_us",
        "_round_end",
        "_test_at",
        "_test_rounds",
        "_timing",
        "_window",
        "_window_max",
        "_yielded",
        "doubling_until",
    )

    def __init__(self, settings: HopSettings, timing: Timing) -> None:
        self._timing = timing
        self._path = PathSigns()
        self._packet = settings.packet_bytes
        self._window_max = float(settings.window_max * settings.packet_bytes)
        self._window = min(self._window_max, float(INITIAL_PACKETS * self._packet))
        self.doubling_until = self._window_max  # the slow start threshold
        self._round_end = 1  # the round is over when the peer knows of this packet
        self._flight_max = 0  # in this round
        self._decreased_at_sequence = 0  # one decrease covers the packets up to here
        self._competes = False  # the queue at the bottleneck is not ours, by the last that was seen
        self._overflows: list[int] = []  # when queues overflowed of late
        self._test_rounds = 0  # rounds that are left of a test
        self._test_at = 0  # no test before
        self._yielded = 0  # rounds in a row in which the window shrank for a queue
        self._queue_before_us = 0  # the queue when the test or the yielding began

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

    @property
    def draining(self) -> bool:
        """Whether a queue stands that may be ours, also when the window is not what limits us."""
        return not self._competes and self._queue_stands(DRAIN_SHARE)

    def sampled(self, round_trip_us: int, at: int) -> None:
        """The round trip of a nearly full packet was measured; on a slow path small ones are faster."""
        self._path.sampled(round_trip_us, at)

    def sent(self, flight_bytes: int) -> None:
        """So much is in flight after a send."""
        self._flight_max = max(self._flight_max, flight_bytes)

    def progressed(self, left_bytes: int, flight_bytes: int, *, highest_known: int, highest_sent: int, at: int) -> None:
        """So many bytes left the network and so many are in flight; the peer knows of packets up to here."""
        if self._window < self.doubling_until and self._used and not self._test_rounds:
            self._window = min(self._window + left_bytes, self._window_max)
        self._path.delivered(left_bytes)
        if highest_known >= self._round_end:
            self._path.end_round(at)
            self._end_round(at)
            self._round_end = highest_sent + 1
            self._flight_max = flight_bytes

    def lost(self, sequence: int, highest_sent: int, at: int) -> None:
        """The peer misses this packet."""
        if sequence <= self._decreased_at_sequence:
            return
        self._decreased_at_sequence = highest_sent
        if self._path.judge_loss(self._packet_us):
            self._on_overflow(at)
            self._shrink_to(self._window * LOSS_FACTOR)
        elif self._used:
            self._shrink_to(min(self._window, max(self._window * CHANCE_LOSS_FACTOR, self._path.held_bytes)))
        self._path.lost()

    def timed_out(self, highest_sent: int) -> None:
        """Several announcements in a row got no answer: begin anew, as small as at first."""
        self._decreased_at_sequence = highest_sent
        self._shrink_to(min(self._window * LOSS_FACTOR, float(INITIAL_PACKETS * self._packet)))

    @property
    def _used(self) -> bool:
        return 2 * self._flight_max >= self.window

    @property
    def _packet_us(self) -> float:
        return self._packet * (self._path.round_trip_us or 0) / self._window

    def _queue_stands(self, share: float) -> bool:
        return self._path.queue_stands(share, self._packet_us)

    def _end_round(self, at: int) -> None:
        if self._test_rounds:
            self._test_rounds -= 1
            if not self._test_rounds:
                self._end_test(at)
        elif not self._used:
            return
        elif self._queue_stands(1.0) and at >= self._test_at:
            self._test_rounds = TEST_ROUNDS
            self._yielded = 0
            self._queue_before_us = self._path.queue_us
        elif self._queue_stands(1.0) and not self._competes:
            self._yield(at)
        elif self._window >= self.doubling_until:
            self._yielded = 0
            careful = not self._competes and self._queue_stands(CAREFUL_SHARE)
            step = self._packet * (CAREFUL_STEP if careful else 1.0)
            self._window = min(self._window + step, self._window_max)

    # --- whose queue it is -----------------------------------------------------------------------------------------

    def _end_test(self, at: int) -> None:
        left_us = max(FOREIGN_SHARE * self._queue_before_us, self._path.noise_us)
        self._competes = self._path.queue_us > left_us
        self._test_at = at + TEST_EVERY_US
        if not self._competes:
            self._make_room(self._queue_before_us)

    def _yield(self, at: int) -> None:
        """A queue stands: make room. If it is no smaller after several rounds of that, it is not ours."""
        if not self._yielded:
            self._queue_before_us = self._path.queue_us
        self._yielded += 1
        if self._yielded > YIELD_ROUNDS and self._path.queue_us >= YIELD_SHARE * self._queue_before_us:
            self._enter_competition(at)
        else:
            self._make_room(self._path.queue_us)

    def _on_overflow(self, at: int) -> None:
        """Who heeds queues overflows none, but while it doubles: when it happens again and again, others do it."""
        if self._window < self.doubling_until:
            return
        self._overflows = [*self._overflows[1 - OVERFLOWS :], at]
        if len(self._overflows) == OVERFLOWS and at - self._overflows[0] < TEST_EVERY_US and not self._competes:
            self._enter_competition(at)

    def _enter_competition(self, at: int) -> None:
        self._competes = True
        self._yielded = 0
        self._test_at = at + TEST_EVERY_US

    def _make_room(self, queue_us: int) -> None:
        """Shrink to what the path holds without a queue, and a little more, so that the queue empties."""
        base = self._path.base_us or 1
        factor = min(QUEUE_FACTOR, max(LOSS_FACTOR, base / (base + queue_us)))
        self._shrink_to(min(self._window * factor, self._window - QUEUE_STEP_PACKETS * self._packet))

    def _shrink_to(self, window: float) -> None:
        self._window = max(window, float(LEAST_PACKETS * self._packet))
        self.doubling_until = self._window
