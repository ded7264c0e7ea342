"""The exact limits of a hop link: the last value at which something still holds, and the first at which it does not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from isotone.core.contract import Action, Address, CancelTimer, DatagramsReceived, SendDatagrams, SetTimer, TimerFired
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, DeclareFailed, FramesOffered, frame_of
from isotone.evs.links.hop import Hop, HopSettings
from isotone.evs.links.hop.congestion import (
    CHANCE_LOSS_FACTOR,
    INITIAL_PACKETS,
    LEAST_PACKETS,
    PACE_GAIN,
    PACE_GAIN_DOUBLING,
    TEST_EVERY_US,
    UNPACED,
    Congestion,
)
from isotone.evs.links.hop.pacing import WAIT_MAX_US, Bucket, Timing
from isotone.evs.links.hop.path import QUIET_ROUNDS, PathSigns
from isotone.evs.links.hop.queue import SendQueue
from isotone.evs.links.hop.receiver import Receiver
from isotone.evs.links.hop.regulator import Permission, Regulator
from isotone.evs.links.hop.sender import Sender
from isotone.evs.links.hop.settings import retry_us
from isotone.evs.links.hop.wire import (
    ANSWER,
    DATA,
    ECHO,
    FULL,
    HEADER,
    HEADER_BYTES,
    RANGE,
    RESENT,
    VERSION,
    expand,
    pack_ranges,
    ranges_of,
    read_ranges,
)

SETTINGS = HopSettings()
PACKET = SETTINGS.packet_bytes
BASE = 50_000
PEER = Address("peer")
LINK = 7


def timing(round_trip_us: int | None = BASE, settings: HopSettings = SETTINGS) -> Timing:
    out = Timing(settings)
    if round_trip_us is not None:
        out.take(round_trip_us, 0)
    return out


def congestion(settings: HopSettings = SETTINGS) -> Congestion:
    return Congestion(settings, timing(settings=settings))


class Rounds:
    """A congestion window that is used fully, round after round; each round has one packet and takes a base time."""

    def __init__(self, settings: HopSettings = SETTINGS) -> None:
        self.window = congestion(settings)
        self.number = 0

    @property
    def at(self) -> int:
        return self.number * BASE

    def round(self, round_trip_us: int = BASE, left_bytes: int = 0, used: float = 1.0) -> float:
        """The window in packets after it."""
        self.number += 1
        self.window.sent(int(used * self.window.window))
        self.window.sampled(round_trip_us, self.at)
        self.window.progressed(left_bytes, 0, highest_known=self.number, highest_sent=self.number, at=self.at)
        return self.packets

    def lose(self, sequence: int | None = None) -> float:
        self.window.lost(self.number + 1 if sequence is None else sequence, self.number + 1, self.at)
        return self.packets

    @property
    def packets(self) -> float:
        return round(self.window.window / PACKET, 3)


# --- the congestion window -----------------------------------------------------------------------------------------


def test_a_window_begins_with_ten_packets_or_all_that_it_may_have() -> None:
    assert congestion().window == INITIAL_PACKETS * PACKET == 14_000
    assert congestion(HopSettings(window_max=3)).window == 3 * PACKET


def test_pacing_is_twice_the_window_while_it_doubles_and_little_more_afterwards() -> None:
    flow = congestion()
    assert flow.pace == PACE_GAIN_DOUBLING * flow.window / BASE
    flow.lost(1, 1, 0)
    assert flow.window == 7_000 and flow.pace == PACE_GAIN * 7_000 / BASE
    assert Congestion(SETTINGS, timing(None)).pace == UNPACED


def test_a_window_counts_as_used_from_half_of_it() -> None:
    for flight, grown in ((6_999, 0), (7_000, 1_400)):
        flow = congestion()
        flow.sent(flight)
        flow.progressed(1_400, 0, highest_known=0, highest_sent=1, at=1)
        assert flow.window == 14_000 + grown


def test_the_first_round_ends_with_the_first_packet_and_the_next_with_what_was_sent_until_then() -> None:
    flow = congestion()
    flow.lost(0, 0, 0)
    assert flow.window == 14_000, "no packet has the number 0"
    flow.timed_out(0)
    assert flow.window == 7_000
    grown = []
    for highest_known in (0, 1, 2, 5, 6):
        flow.sent(14_000)
        flow.progressed(0, 14_000, highest_known=highest_known, highest_sent=5, at=highest_known * BASE)
        grown.append((flow.window - 7_000) / PACKET)
    assert grown == [0, 1, 1, 1, 2], "by a packet a round: the second ends with packet 6"


def test_what_is_in_flight_when_a_round_begins_counts_for_it() -> None:
    flow = congestion()
    flow.timed_out(0)
    flow.sent(7_000)
    flow.progressed(0, 4_200, highest_known=1, highest_sent=1, at=BASE)
    flow.progressed(0, 0, highest_known=2, highest_sent=2, at=2 * BASE)
    assert flow.window == 7_000 + 2 * PACKET, "half of it was in flight all the time"
    flow.progressed(0, 0, highest_known=3, highest_sent=3, at=3 * BASE)
    assert flow.window == 7_000 + 2 * PACKET, "nothing was"


def test_a_window_never_passes_its_greatest_nor_falls_below_two_packets() -> None:
    settings = HopSettings(window_max=12)
    flow = Rounds(settings)
    assert [flow.round(left_bytes=PACKET) for _ in range(4)] == [11, 12, 12, 12]
    flow.window.timed_out(4)
    assert flow.packets == 6
    assert [flow.round() for _ in range(8)] == [7, 8, 9, 10, 11, 12, 12, 12]
    for sequence in range(100, 105):
        flow.window.timed_out(sequence)
    assert flow.packets == LEAST_PACKETS


def test_silence_begins_anew_with_no_more_than_at_first() -> None:
    flow = Rounds()
    while flow.packets < 100:
        flow.round(left_bytes=10 * PACKET)
    flow.window.timed_out(flow.number)
    assert flow.packets == INITIAL_PACKETS
    flow.lose(flow.number)
    assert flow.packets == INITIAL_PACKETS, "it covers all that was sent"


def test_one_decrease_covers_what_was_sent_before_it() -> None:
    flow = congestion()
    flow.lost(3, 8, 0)
    assert flow.window == 7_000
    flow.lost(8, 9, 0)
    assert flow.window == 7_000
    flow.lost(9, 9, 0)
    assert flow.window == 3_500


def test_a_loss_by_chance_costs_a_fifth_and_nothing_if_the_window_was_not_used() -> None:
    flow = Rounds()
    flow.round()
    flow.window.sent(14_000)
    assert flow.lose() == INITIAL_PACKETS * CHANCE_LOSS_FACTOR
    idle = Rounds()
    idle.round()
    assert idle.lose() == INITIAL_PACKETS


def test_a_loss_by_chance_leaves_what_the_path_holds() -> None:
    flow = Rounds()
    flow.window.timed_out(0)
    for _ in range(2 * QUIET_ROUNDS):
        flow.round(left_bytes=17_500)
    assert flow.packets == 13
    flow.window.sent(18_200)
    assert flow.lose() == 12.5, "a fifth less would be 10.4"
    flow.window.sent(18_200)
    flow.number += 1
    assert flow.lose() == 10, "the losses are frequent: a fifth"


def test_the_window_is_all_but_closed_for_two_rounds_when_a_queue_stands_and_then_makes_room() -> None:
    """The window from round to round: a queue of a base time comes, and vanishes when the window is closed."""
    flow = Rounds()
    flow.window.timed_out(0)
    assert [flow.round() for _ in range(3)] == [6, 7, 8]
    assert flow.round(2 * BASE) == LEAST_PACKETS, "the test begins"
    assert flow.round(2 * BASE) == LEAST_PACKETS
    assert flow.round(BASE) == 4, "it was ours: half of the round trip was queue"
    assert [flow.round() for _ in range(3)] == [5, 6, 7]
    assert flow.round(BASE + BASE // 4) == 5.5, "no test so soon: by a packet and a half at least"
    assert flow.round(BASE + 4 * BASE) == 2.75, "never by more than half"
    assert flow.round(BASE + 1_000) == 3.75


def test_a_small_queue_makes_growth_careful() -> None:
    flow = Rounds()
    flow.window.timed_out(0)
    flow.round()
    flow.round(2 * BASE)
    flow.round()
    settled = flow.round()
    assert flow.round(BASE + 2_500) - settled == 0.5
    assert flow.round(BASE) - settled == 1.5


def test_a_queue_that_stays_through_the_test_is_not_ours() -> None:
    flow = Rounds()
    flow.window.timed_out(0)
    flow.round()
    before = flow.packets
    assert [flow.round(2 * BASE) for _ in range(2)] == [LEAST_PACKETS] * 2
    assert flow.round(2 * BASE) == before, "it stayed: nothing is given away"
    assert [flow.round(2 * BASE) - before for _ in range(3)] == [1, 2, 3], "and only loss counts"
    assert not flow.window.draining
    flow.number += TEST_EVERY_US // BASE - 5
    assert flow.round(2 * BASE) == before + 4, "until the next test"
    assert flow.round(2 * BASE) == LEAST_PACKETS


def test_queues_that_overflow_three_times_within_ten_seconds_are_not_ours() -> None:
    for apart, competes in ((TEST_EVERY_US // 2 - 1, True), (TEST_EVERY_US // 2, False)):
        flow = congestion()
        flow.timed_out(0)
        for number in range(3):
            flow.sampled(BASE, number * apart)
            flow.sampled(2 * BASE, number * apart)
            flow.lost(number + 1, number + 1, number * apart)
        flow.sampled(2 * BASE, 2 * apart)
        flow.progressed(0, 0, highest_known=1, highest_sent=1, at=2 * apart)
        flow.sampled(2 * BASE, 2 * apart)
        flow.progressed(0, 0, highest_known=2, highest_sent=2, at=2 * apart)
        assert flow.draining is not competes


def test_a_queue_drains_from_half_of_what_stands() -> None:
    for queue_us, draining in ((1_562, False), (1_564, True)):
        flow = Rounds()
        while flow.packets < 50:
            flow.round(left_bytes=20 * PACKET)
        flow.round(BASE + queue_us)
        assert flow.window.draining is draining


def yielding(queues_us: list[int]) -> list[float]:
    """A queue that vanished in a test and stands again: by how much the window changes from round to round."""
    flow = Rounds()
    flow.window.timed_out(0)
    flow.round()
    for round_trip_us in (2 * BASE, BASE, BASE):
        flow.round(round_trip_us)
    for _ in range(30):
        flow.round()
    windows = [flow.packets, *(flow.round(BASE + queue_us) for queue_us in queues_us)]
    return [round(after / before, 2) for before, after in pairwise(windows)]


def test_a_queue_that_is_no_smaller_after_six_rounds_of_yielding_is_not_ours() -> None:
    """It counts as smaller below four fifths of what it was when the yielding began."""
    assert yielding([10_000] * 6 + [8_000])[:6] == [0.83, 0.83, 0.83, 0.83, 0.83, 0.83]
    assert yielding([10_000] * 6 + [8_000])[6] == 1.0 and yielding([10_000] * 6 + [7_999])[6] < 1
    interrupted = yielding([10_000] * 5 + [0] + [10_000] * 7)[5:]
    assert interrupted[0] > 1 and max(interrupted[1:7]) < 1 and interrupted[7] == 1, "it is counted anew"


# --- what the path says --------------------------------------------------------------------------------------------


def test_a_path_is_quiet_again_after_four_rounds_without_a_loss() -> None:
    signs = PathSigns()
    held = []
    for number in range(2 * QUIET_ROUNDS):
        signs.sampled(BASE, number * BASE)
        signs.delivered(10_000)
        signs.end_round((number + 1) * BASE)
        held.append(signs.held_bytes)
        if number == QUIET_ROUNDS - 1:
            signs.lost()
    assert held == [0, 0, 0, 10_000, 0, 0, 0, 10_000]


def test_the_rate_is_the_best_of_late() -> None:
    signs = PathSigns()
    held = []
    for number, delivered in enumerate([5_000, 5_000, 5_000, 10_000, 2_000, 2_000]):
        signs.sampled(BASE, number * BASE)
        signs.delivered(delivered)
        signs.end_round(number * BASE)
        held.append(round(signs.held_bytes))
    assert held == [0, 0, 0, 10_000, 8_000, 6_500], "at once up, by a quarter down; the first round had no beginning"
    signs.end_round(5 * BASE)
    assert signs.held_bytes == 6_500, "a round without time says nothing"


def test_noise_is_a_sixteenth_or_a_millisecond() -> None:
    signs = PathSigns()
    assert (signs.base_us, signs.noise_us, signs.queue_us) == (0, 1_000, 0)
    signs.sampled(32_000, 0)
    assert signs.noise_us == 2_000
    signs.end_round(1)
    signs.sampled(34_000, 1)
    signs.sampled(35_000, 1)
    signs.end_round(2)
    assert signs.queue_us == 2_000 and not signs.queue_stands(1.0, 0.0)
    assert signs.queue_stands(0.99, 0.0) and signs.queue_stands(1.0, 4_000.0) is False
    assert not signs.queue_stands(1.0, 4_002.0)


def test_a_queue_is_at_hand_only_above_seven_tenths_of_the_longest_of_late() -> None:
    for slowest, overflowed in ((10_000 + 7_000, False), (10_000 + 7_001, True)):
        signs = PathSigns()
        signs.sampled(10_000, 0)
        signs.sampled(20_000, 0)
        signs.end_round(1)
        signs.sampled(slowest, 1)
        signs.end_round(2)
        assert signs.judge_loss(0.0) is overflowed
        assert signs.judge_loss(slowest / 1.5) is False, "less than a packet and a half is none"


def test_the_slowest_of_this_round_and_the_last_count() -> None:
    signs = PathSigns()
    signs.sampled(10_000, 0)
    signs.end_round(1)
    signs.sampled(20_000, 1)
    assert signs.judge_loss(0.0), "it waits now"
    signs.end_round(2)
    signs.sampled(10_000, 2)
    assert signs.judge_loss(0.0), "it waited just now"
    signs.end_round(3)
    signs.sampled(10_000, 3)
    assert not signs.judge_loss(0.0)


def test_one_loss_by_chance_does_not_turn_all_others_into_chance_and_two_do() -> None:
    for chances, overflowed in ((1, True), (2, False)):
        signs = PathSigns()
        signs.sampled(10_000, 0)
        signs.end_round(1)
        for _ in range(chances):
            assert not signs.judge_loss(0.0)
        signs.sampled(20_000, 1)
        assert signs.judge_loss(0.0) is overflowed


# --- the sender ----------------------------------------------------------------------------------------------------


def sender_with(packets: int, settings: HopSettings = SETTINGS, at: int = 0) -> Sender:
    out = Sender(settings, timing(settings=settings))
    for _ in range(packets):
        out.send([bytes(10)], 10, at)
    return out


def test_what_the_peer_knows_of_has_left_the_network_once() -> None:
    box = sender_with(4)
    assert box.acknowledged(0, 1) == 10
    assert box.acknowledged(0, 3) == 20
    assert (box.flight_bytes, box.stored_bytes) == (10, 40)
    assert box.acknowledged(0, 1) == 0, "late"
    assert box.acknowledged(2, 4) == 10
    assert (box.flight_bytes, box.stored_bytes, box.acknowledged_up_to) == (0, 20, 2)
    assert box.acknowledged(4, 4) == 0 and box.stored_bytes == 0


def test_a_copy_is_in_flight_again_and_is_dropped_when_it_is_not_needed() -> None:
    box = sender_with(3)
    box.acknowledged(0, 3)
    assert box.requested([(1, 3)], BASE) == 3
    assert (box.flight_bytes, box.has_copies) == (0, True)
    assert box.send_copy(BASE)[0] == 1
    assert (box.flight_bytes, box.packets_resent) == (10, 1)
    assert box.acknowledged(2, 3) == 10 and box.has_copies, "the copy of 2 is not needed any more, that of 3 is"
    assert box.send_copy(BASE)[0] == 3 and not box.has_copies


def test_a_packet_in_flight_that_is_asked_for_has_left_it() -> None:
    box = sender_with(2)
    assert box.requested([(2, 1)], BASE) == 2
    assert box.flight_bytes == 10
    assert box.send_copy(BASE)[1].copies == 1 and box.flight_bytes == 20


def test_a_request_counts_from_a_round_trip_after_the_last_copy() -> None:
    box = sender_with(1)
    assert box.requested([(1, 1)], BASE - 1) == 0 and not box.has_copies
    assert box.requested([(1, 1)], BASE) == 1
    assert box.requested([(1, 1)], BASE) == 0, "a copy waits already"


def test_the_window_of_outstanding_packets() -> None:
    settings = HopSettings(window_max=2)
    box = sender_with(1, settings)
    assert box.window_open and box.outstanding
    box.send([b"x"], 1, 0)
    assert not box.window_open
    box.acknowledged(1, 1)
    assert box.window_open and box.outstanding
    box.acknowledged(2, 2)
    assert not box.outstanding


def test_only_what_was_acknowledged_or_sent_may_be_named() -> None:
    box = sender_with(3)
    box.acknowledged(1, 3)
    assert box.requested([(1, 3)], BASE) == 3, "what was acknowledged meanwhile is skipped"
    assert [box.send_copy(BASE)[0], box.send_copy(BASE)[0]] == [2, 3]
    with pytest.raises(RemoteProtocolError):
        box.requested([(3, 2)], 2 * BASE)
    assert box.requested([], 0) == 0


def test_a_packet_is_given_up_after_so_many_copies_and_not_before_its_time() -> None:
    settings = HopSettings(attempts_min=3, fail_after_us=1_000_000)
    for step, fails_at in ((400_000, 4), (200_000, 5), (199_999, 6)):
        box = sender_with(1, settings, at=7_000_000)
        asked = 0
        while box.failure is None:
            asked += 1
            box.requested([(1, 1)], 7_000_000 + asked * step)
            if box.failure is None:
                box.send_copy(7_000_000 + asked * step)
        assert asked == fails_at
        assert box.failure.endswith(f"after {asked - 1} copies")


def test_a_sender_of_a_failed_link_holds_nothing() -> None:
    box = sender_with(3)
    box.acknowledged(0, 2)
    box.requested([(1, 1)], BASE)
    box.clear()
    assert (box.stored_bytes, box.flight_bytes, box.outstanding, box.has_copies) == (0, 0, False, False)
    assert box.acknowledged(3, 3) == 0


# --- the receiver --------------------------------------------------------------------------------------------------


def receiver(settings: HopSettings = SETTINGS, round_trip_us: int = 80_000) -> Receiver:
    return Receiver(settings, timing(round_trip_us, settings))


def take(box: Receiver, *sequences: int, at: int = 0, resent: bool = False) -> None:
    for sequence in sequences:
        assert box.is_new(sequence)
        box.take(sequence, at, resent=resent)


def test_the_first_packet_is_the_first() -> None:
    box = receiver()
    assert not box.is_new(0)
    assert (box.next_expected, box.all_received_up_to, box.next_due_at) == (1, 0, None)
    box.announced(0, 0)
    assert box.missing == [] and box.next_due_at is None


def test_a_request_is_due_after_an_eighth_of_a_round_trip_and_again_after_a_timeout_and_a_quarter() -> None:
    box = receiver()
    take(box, 1, 3, at=1_000)
    assert box.next_due_at == 11_000
    take(box, 5, at=2_000)
    assert box.next_due_at == 11_000, "the first"
    assert box.requests_due(10_999, 9) == [] and box.requests_due(11_000, 9) == [2]
    assert box.next_due_at == 12_000
    timeout = timing(80_000).timeout_us
    assert box.requests_due(12_000, 9) == [4]
    assert box.next_due_at == 11_000 + retry_us(timeout)
    again = 11_000 + retry_us(timeout)
    assert box.requests_due(again, 9) == [2]
    pause = min(retry_us(timeout) + timeout // 4, SETTINGS.retry_max_us(timeout))
    assert box.requests_due(again + 1_000, 9) == [4] and box.next_due_at == again + pause, "more patiently each time"


def test_only_so_many_are_asked_for_at_once() -> None:
    box = receiver()
    take(box, 5)
    due = box.next_due_at or 0
    assert [box.requests_due(due, 3), box.requests_due(due, 3), box.requests_due(due, 3)] == [[1, 2, 3], [4], []]


def test_a_packet_is_given_up_after_more_requests_than_the_least_and_not_before_its_time() -> None:
    settings = HopSettings(attempts_min=2, fail_after_us=3_000_000)
    box = receiver(settings)
    take(box, 2, at=7)
    for number in range(3):
        assert box.failure(10**9) is None, "too few requests"
        assert box.requests_due(7 + (number + 1) * 900_000, 9) == [1]
    assert box.failure(7 + 2_999_999) is None
    assert box.failure(7 + 3_000_000) == "packet 1 not received after 3 requests"
    box.clear()
    assert box.failure(10**9) is None and box.next_due_at is None and box.missing == []


def test_lateness_teaches_patience_and_loss_a_little_less() -> None:
    box = receiver()
    assert box.reorder_us == 10_000
    take(box, 2, at=0)
    take(box, 1, at=20_000)
    assert box.reorder_us == 30_000
    take(box, 4, at=100_000)
    take(box, 3, at=110_000)
    assert box.reorder_us == 30_000, "less late than before"
    take(box, 6, at=200_000)
    take(box, 5, at=300_000, resent=True)
    assert box.reorder_us == 30_000 * 15 // 16
    take(box, 8, at=400_000)
    take(box, 7, at=90_000_000)
    assert box.reorder_us == timing(80_000).timeout_us, "never longer than an answer takes"


def test_the_window_of_the_peer_ends_where_it_says() -> None:
    box = receiver(HopSettings(window_max=10))
    take(box, 1)
    box.announced(11, 0)
    assert box.missing == list(range(2, 12))
    with pytest.raises(RemoteProtocolError):
        box.announced(12, 0)


def test_the_pause_between_requests_grows_by_a_quarter_of_the_timeout() -> None:
    box = receiver(round_trip_us=8_000)
    timeout = timing(8_000).timeout_us
    take(box, 2)
    at, pauses = box.next_due_at or 0, []
    for _ in range(3):
        assert box.requests_due(at, 9) == [1]
        pauses.append((box.next_due_at or 0) - at)
        at = box.next_due_at or 0
    assert pauses == [retry_us(timeout) + timeout * number // 4 for number in range(3)]


def test_packets_are_counted_for_the_acknowledgement() -> None:
    box = receiver()
    take(box, 1, 3, 2)
    assert box.packets_since_acknowledged == 3


# --- time and buckets ----------------------------------------------------------------------------------------------


def test_durations_follow_the_round_trip() -> None:
    fresh = timing(None)
    assert not fresh.measured and fresh.minimum_us == 0 and fresh.smoothed_us == SETTINGS.round_trip_initial_us
    known = timing(80_000)
    assert known.measured and (known.minimum_us, known.smoothed_us) == (80_000, 80_000)
    assert (known.acknowledge_us, known.settle_us) == (10_000, 10_000)
    assert timing(800).settle_us == SETTINGS.reorder_min_us and timing(800).acknowledge_us == 100
    assert timing(10, HopSettings(timeout_min_us=5_000)).timeout_us == 5_000
    assert timing(100_000_000).timeout_us == SETTINGS.timeout_max_us
    assert timing(0).smoothed_us == 1


def test_a_bucket_fills_from_when_it_was_looked_at_last() -> None:
    bucket = Bucket(rate=0.01, depth=100.0)
    bucket.take(100)
    bucket.refill(5_000)
    assert bucket.level == 100, "at first it is full"
    bucket.take(50)
    bucket.refill(5_000)
    assert bucket.level == 50
    bucket.refill(6_000)
    assert bucket.level == 60
    bucket.refill(5_000)
    assert bucket.level == 60, "time does not go back"
    assert bucket.wait_us(60) == 0 and bucket.wait_us(60.001) == 1 and bucket.wait_us(61) == 100
    assert bucket.wait_us(1_000) == 4_000, "no more than it can hold"
    bucket.take(10**9)
    assert bucket.wait_us(0) == WAIT_MAX_US


# --- the regulator and the queue -----------------------------------------------------------------------------------


def test_bulk_waits_for_the_window_and_a_small_frame_may_be_one_packet_ahead() -> None:
    window = 14_000
    regulator = Regulator(SETTINGS, timing())
    regulator.refill(0, idle=True)
    assert regulator.fresh(window - PACKET, urgent=False) is Permission.ANYTHING
    assert regulator.fresh(window - PACKET + 1, urgent=False) is Permission.WAIT_FOR_WINDOW
    assert regulator.fresh(window - PACKET + 1, urgent=True) is Permission.WHOLE_FRAMES
    assert regulator.fresh(window, urgent=True) is Permission.WHOLE_FRAMES
    assert regulator.fresh(window + 1, urgent=True) is Permission.WAIT_FOR_WINDOW


def test_the_pace_lets_a_packet_through_and_after_idleness_four() -> None:
    regulator = Regulator(SETTINGS, timing())
    regulator.refill(0, idle=True)
    regulator.spend(4 * PACKET, 0)
    assert regulator.fresh(0, urgent=True) is Permission.WHOLE_FRAMES, "a small frame waits only for debts"
    left = []
    for idle in (True, False):
        regulator.refill(10 * BASE * (2 - idle), idle=idle)
        count = 0
        while regulator.fresh(0, urgent=False) is Permission.ANYTHING:
            regulator.spend(PACKET, 0)
            count += 1
        left.append(count)
        assert regulator.wait_us == 2_500, "a packet at twice the window in a round trip"
    assert left == [4, 1]
    assert regulator.copy() is Permission.ANYTHING, "a copy waits only for debts"
    regulator.spend(PACKET, 0)
    assert regulator.copy() is Permission.WAIT_FOR_PACE and regulator.wait_us == 2_500


def test_the_leaky_bucket_holds_copies_too() -> None:
    settings = HopSettings(rate_bytes_per_second=1_000_000, burst_bytes=3_000)
    regulator = Regulator(settings, timing(settings=settings))
    regulator.refill(0, idle=True)
    assert regulator.copy() is Permission.ANYTHING
    regulator.spend(1_600, 0)
    assert regulator.copy() is Permission.ANYTHING
    regulator.spend(1, 0)
    regulator.refill(0, idle=True)
    assert regulator.copy() is Permission.WAIT_FOR_PACE and regulator.wait_us == 1


def test_room_is_what_large_and_small_frames_leave() -> None:
    settings = HopSettings(frame_bytes_max=1_800)
    for small, large, room in ((500, 0, 2_300), (500, 1_500, 1_808), (0, 992, 1_808)):
        queue = SendQueue(settings, congestion(settings))
        if small:
            queue.offer([frame_of(1, bytes(small - FRAME_HEADER_BYTES))])
        if large:
            queue.offer([frame_of(1, bytes(large))])
        assert queue.room == room
    full = SendQueue(SETTINGS, congestion())
    full.offer([frame_of(1, bytes(2 * PACKET - FRAME_HEADER_BYTES - 1))])
    largest = SETTINGS.frame_bytes_max + FRAME_HEADER_BYTES
    assert full.packer.large_bytes == 2 * PACKET - 1 and full.room == largest
    full.packer.clear()
    full.offer([frame_of(1, bytes(2 * PACKET - FRAME_HEADER_BYTES))])
    assert full.room == SETTINGS.body_bytes - FRAME_HEADER_BYTES


def test_a_queue_that_was_never_full_tells_of_no_room() -> None:
    queue = SendQueue(SETTINGS, congestion())
    queue.offer([frame_of(1, bytes(1_500))])
    assert queue.returned_room() == 0
    queue.packer.clear()
    assert queue.returned_room() == 0


def test_a_queue_has_room_for_the_largest_frame_until_it_is_full() -> None:
    queue = SendQueue(SETTINGS, congestion())
    capacity = 2 * PACKET
    largest = SETTINGS.frame_bytes_max + FRAME_HEADER_BYTES
    assert queue.room == largest
    queue.offer([frame_of(1, bytes(capacity // 4 - FRAME_HEADER_BYTES)) for _ in range(3)])
    queue.offer([frame_of(1, bytes(capacity // 4 - 2 * FRAME_HEADER_BYTES - 1))])
    assert queue.packer.queued_bytes == capacity - FRAME_HEADER_BYTES - 1 and queue.room == largest
    queue.offer([frame_of(1, b"x")])
    assert queue.packer.queued_bytes == capacity and queue.room == 0
    bulky = SendQueue(SETTINGS, congestion())
    bulky.offer([frame_of(1, bytes(60_000))])
    assert bulky.room == SETTINGS.body_bytes - FRAME_HEADER_BYTES, "a small one may pass bulk"


def test_room_is_told_of_when_half_is_empty() -> None:
    queue = SendQueue(SETTINGS, congestion())
    size = PACKET // 2 - FRAME_HEADER_BYTES
    for _ in range(4):  # one fits into a packet, two do not
        queue.offer([frame_of(1, bytes(size))])
    assert queue.returned_room() == 0
    told = []
    while queue.packer:
        queue.packer.next_body()
        told.append((queue.packer.queued_bytes, queue.returned_room()))
    assert told == [
        (3 * PACKET // 2, 0),
        (PACKET, SETTINGS.frame_bytes_max + FRAME_HEADER_BYTES),
        (PACKET // 2, 0),
        (0, 0),
    ]


# --- the wire ------------------------------------------------------------------------------------------------------


def test_numbers_are_the_nearest_that_end_so() -> None:
    half = 1 << 31
    assert (expand(half - 1, 0), expand(0, half), expand(0, half + 1)) == (half - 1, 0, 1 << 32)
    assert expand(5, (1 << 32) + 3) == (1 << 32) + 5
    assert expand((1 << 32) - 1, 1 << 32) == (1 << 32) - 1


def test_a_table_of_missing_packets_ascends_and_has_no_empty_entry() -> None:
    def read(*ranges: tuple[int, int]) -> list[tuple[int, int]]:
        packet = memoryview(bytes(HEADER_BYTES) + pack_ranges(ranges))
        return read_ranges(packet, len(ranges), 100)

    for good in ([], [(5, 1)], [(5, 2), (7, 1)], [(90, 30)]):
        assert read(*good) == good
    for bad in ([(5, 0)], [(5, 3), (7, 1)], [(7, 1), (5, 1)], [(5, 1), (9, 0)]):
        with pytest.raises(RemoteProtocolError):
            read(*bad)


def test_ranges_have_no_more_than_their_count_can_say() -> None:
    assert ranges_of(range(5, 5 + 65_535)) == [(5, 65_535)]
    assert ranges_of(range(5, 6 + 65_535)) == [(5, 65_535), (5 + 65_535, 1)]


# --- the link ------------------------------------------------------------------------------------------------------


class One:
    """One end in the hands of the test, which plays the peer."""

    def __init__(self, settings: HopSettings | None = None) -> None:
        self.link = Hop(peer="b", address=PEER, link=LINK, settings=settings)

    def offer(self, at: int, *sizes: int) -> list[Action]:
        return self.link.handle(FramesOffered(at, [frame_of(1, bytes(size)) for size in sizes]))

    def fire(self, at: int) -> list[Action]:
        return self.link.handle(TimerFired(at, self.link.timer))

    def hear(  # the header, field by field
        self,
        at: int,
        *,
        flags: int = 0,
        count: int = 0,
        sequence: int = 0,
        up_to: int = 0,
        highest: int = 0,
        stamp: int = 0,
        echo: int = 0,
        body: bytes = b"",
        link: int = LINK,
        version: int = VERSION,
    ) -> list[Action]:
        packet = HEADER.pack(version, flags, count, link, sequence, up_to, highest, stamp, echo) + body
        return self.link.handle(DatagramsReceived(at, PEER, packet, len(packet)))


def packets(actions: list[Action]) -> list[bytes]:
    return [b"".join(data) for action in actions if isinstance(action, SendDatagrams) for data in action.datagrams]


def fields(packet: bytes) -> dict[str, int]:
    names = ("version", "flags", "count", "link", "sequence", "up_to", "highest", "stamp", "echo")
    return dict(zip(names, HEADER.unpack_from(packet)))


def timer_after(actions: list[Action]) -> list[int]:
    return [action.after_us for action in actions if isinstance(action, SetTimer)]


def lone_frame(size: int) -> bytes:
    """The body of a packet with one frame, as another end would send it."""
    (packet,) = packets(One().offer(0, size))
    return packet[HEADER_BYTES:]


def test_a_packet_of_a_new_link_says_so_field_by_field() -> None:
    one = One()
    actions = one.offer(123, 10)
    (packet,) = packets(actions)
    zeros = {"count": 0, "up_to": 0, "highest": 0, "echo": 0}
    assert fields(packet) == {"version": VERSION, "flags": DATA, "link": LINK, "sequence": 1, "stamp": 123} | zeros
    overdue = one.link.timing.timeout_us + one.link.timing.acknowledge_us
    assert timer_after(actions) == [overdue], "for the announcement"
    assert one.link.counters.packets_sent == 1 and one.link.counters.bytes_sent == len(packet)
    assert one.link.waiting_bytes == 0 and one.link.counters.buffered_bytes == len(packet) - HEADER_BYTES


def test_announcements_are_repeated_more_and_more_patiently_until_the_link_fails() -> None:
    settings = HopSettings(attempts_min=3, fail_after_us=9_000_000)
    one = One(settings)
    at = timer_after(one.offer(0, 10))[0]
    after = one.link.timing.timeout_us + one.link.timing.acknowledge_us
    slowest = settings.retry_max_us(one.link.timing.timeout_us)
    assert at == after
    for number in range(1, 5):
        assert packets(one.fire(at - 1)) == []
        actions = one.fire(at)
        (announcement,) = packets(actions)
        assert fields(announcement)["flags"] == ANSWER and fields(announcement)["sequence"] == 1
        pause = min(after * (2 + number) // 2, slowest)
        assert timer_after(actions) == [pause]
        at += pause
    assert one.link.failed is None
    late = settings.give_up_us(one.link.timing.timeout_us)
    failing = one.fire(max(at, late))
    assert failing == [CancelTimer(one.link.timer), DeclareFailed(one.link.failed or "")]
    assert one.link.failed == f"no acknowledgement for {max(at, late) // 1000} ms and 4 announcements"


def test_a_link_fails_after_one_announcement_more_than_the_least_and_not_before_its_time() -> None:
    one = One(HopSettings(attempts_min=3))
    one.offer(0, 10)
    announced = 0
    at = 0
    while not one.link.failed:
        at += 3_600_000_000  # this process sleeps for hours
        announced += len(packets(one.fire(at)))
    assert announced == 4
    start = 7_000_000_000
    prompt = One(HopSettings(attempts_min=1, fail_after_us=50_000_000))
    at = start + timer_after(prompt.offer(start, 10))[0]
    while True:
        actions = prompt.fire(at)
        if prompt.link.failed:
            break
        at += timer_after(actions)[0]
    slowest = prompt.link.settings.retry_max_us(prompt.link.timing.timeout_us)
    assert 50_000_000 <= at - start <= 50_000_000 + slowest


def test_two_announcements_in_a_row_shrink_the_window_and_one_does_not() -> None:
    one = One()
    at = timer_after(one.offer(0, 10))[0]
    windows = []
    for _ in range(3):
        at += timer_after(one.fire(at))[0]
        windows.append(one.link.congestion.window)
    assert windows == [14_000, 7_000, 7_000]


def test_an_answer_ends_the_silence_even_if_it_acknowledges_nothing() -> None:
    one = One()
    at = timer_after(one.offer(0, 10))[0]
    at += timer_after(one.fire(at))[0]
    one.hear(at - 1, up_to=0, highest=1)
    overdue = one.link.timing.timeout_us + one.link.timing.acknowledge_us
    assert one.fire(at) == [SetTimer(one.link.timer, overdue - 1)], "it is asked again only then"
    assert packets(one.fire(at + overdue - 2)) == [] and len(packets(one.fire(at + overdue - 1))) == 1


def test_an_answer_that_says_nothing_new_is_a_sign_of_life_when_one_was_asked_for() -> None:
    one = One()
    one.offer(0, 10)
    actions = one.hear(100, up_to=0, highest=1)
    assert timer_after(actions) == [], "an earlier timer is armed"
    overdue = one.link.timing.timeout_us + one.link.timing.acknowledge_us
    at = 100 + overdue
    for _ in range(4):
        assert packets(one.fire(at - 1)) == []
        assert [fields(each)["flags"] & ANSWER for each in packets(one.fire(at))] == [ANSWER]
        assert packets(one.hear(at + 7, up_to=0, highest=1)) == []
        at += 7 + overdue
    assert one.link.congestion.window == 14_000, "one announcement each time, never two in a row"
    one.hear(at - 2, up_to=0, highest=1)
    assert len(packets(one.fire(at))) == 1, "unasked, it is none"


def test_a_packet_that_never_comes_fails_the_link() -> None:
    one = One(HopSettings(attempts_min=2, fail_after_us=1_000_000))
    one.hear(5, flags=DATA, sequence=2, body=lone_frame(1))
    asked = 0
    while not one.link.failed:
        due = one.link.receiver.next_due_at or 0
        assert not packets(one.fire(due - 1))
        asked += len(packets(one.fire(due)))
    assert one.link.failed == f"packet 1 not received after {asked} requests" and asked >= 3


def test_the_pace_spreads_what_is_offered_and_carries_acknowledgements() -> None:
    one = One()
    one.offer(0, 10)
    one.hear(80_000, flags=ECHO, echo=0, up_to=1, highest=1)
    at = 200_000
    actions = one.offer(at, 20_000)
    assert len(packets(actions)) == 4 and one.link.waiting_bytes > 13_000
    (pause,) = timer_after(actions)
    assert pause in (4_000, 4_001), "a packet of 1,400 bytes at twice the window of 14,000 in 80 ms"
    assert packets(one.fire(at + pause - 2)) == []
    actions = one.hear(at + pause - 2, flags=DATA, sequence=1, up_to=1, highest=1, body=lone_frame(1))
    assert packets(actions) == [], "data will carry the acknowledgement"
    (packet,) = packets(one.fire(at + pause))
    assert fields(packet)["flags"] & DATA and (fields(packet)["sequence"], fields(packet)["up_to"]) == (6, 1)
    counters = one.link.counters
    assert counters.bytes_sent == 5 * PACKET + HEADER_BYTES + len(lone_frame(10)) and counters.packets_sent == 6


def test_parts_of_a_frame_that_is_not_complete_count_as_held() -> None:
    one = One()
    large = packets(One().offer(0, 3_000))
    one.link.handle(DatagramsReceived(0, PEER, large[0], PACKET))
    assert PACKET // 2 < one.link.counters.buffered_bytes < PACKET
    one.link.handle(DatagramsReceived(0, PEER, b"".join(large[1:]), PACKET))
    assert one.link.counters.buffered_bytes == 0


def test_the_echo_is_of_the_newest_packet_of_its_kind() -> None:
    one = One()
    one.hear(0, flags=DATA, sequence=1, body=lone_frame(1))
    one.hear(1, flags=DATA, sequence=2, stamp=50, body=lone_frame(1))
    one.hear(2, flags=DATA, sequence=3, stamp=60, body=lone_frame(1))
    (packet,) = packets(one.offer(4, 10))
    assert fields(packet)["echo"] == 60 + 2


def test_packets_are_counted_and_those_that_are_none_of_ours_apart() -> None:
    one = One()
    body = lone_frame(10)
    one.hear(0, flags=DATA, sequence=1, body=body)
    one.hear(1, flags=DATA, sequence=1, body=body)
    one.hear(2, flags=DATA, sequence=2, body=body, link=LINK + 1)
    one.hear(3, flags=DATA, sequence=2, body=body, version=VERSION + 1)
    one.hear(4, flags=DATA, sequence=2, body=body, count=1)
    one.hear(5, sequence=2, count=1)
    one.hear(6, sequence=1, body=b"x")
    one.link.handle(DatagramsReceived(7, PEER, b"", 1))
    one.link.handle(DatagramsReceived(8, PEER, bytes(HEADER_BYTES - 1), 100))
    counters = one.link.counters
    assert (counters.packets_received, counters.duplicates, one.link.strangers, counters.malformed) == (9, 1, 1, 6)
    assert counters.bytes_received == 5 * (HEADER_BYTES + len(body)) + HEADER_BYTES + (HEADER_BYTES + 1) + (
        HEADER_BYTES - 1
    )


def test_a_flag_that_no_version_has_is_refused() -> None:
    one = One()
    one.hear(0, flags=0x80 | DATA, sequence=1, body=lone_frame(1))
    assert one.link.counters.malformed == 1


def test_a_round_trip_is_measured_by_the_echo_of_a_stamp() -> None:
    one = One()
    one.offer(1_000, 10)
    one.hear(9_000, flags=ECHO, echo=1_000, up_to=1, highest=1)
    assert one.link.counters.round_trip_us == 8_000
    one.hear(10_000, flags=ECHO, echo=10_001, up_to=1, highest=1)
    assert one.link.counters.round_trip_us == 8_000, "from the future"


def test_the_echo_has_the_time_that_it_waited_here_and_prefers_full_packets() -> None:
    one = One()
    full = lone_frame(1_050 - HEADER_BYTES - len(lone_frame(0)))
    assert HEADER_BYTES + len(full) == 1_050 == PACKET * 3 // 4
    one.hear(0, flags=DATA, sequence=1, stamp=500, body=lone_frame(1))
    actions = one.hear(1_000, flags=DATA, sequence=2, stamp=600, body=full)
    assert packets(actions) == []
    one.hear(1_500, flags=DATA, sequence=3, stamp=700, body=lone_frame(1))
    (packet,) = packets(one.offer(2_000, 10))
    told = fields(packet)
    assert told["flags"] == DATA | ECHO | FULL and told["echo"] == 600 + 1_000
    assert (told["up_to"], told["highest"]) == (3, 3)
    (packet,) = packets(one.offer(2_001, 10))
    assert fields(packet)["flags"] == DATA and fields(packet)["echo"] == 0, "once"


def test_a_packet_short_of_three_quarters_is_not_full() -> None:
    one = One()
    one.hear(0, flags=DATA, sequence=1, body=lone_frame(1))
    one.hear(1, flags=DATA, sequence=2, body=lone_frame(1_049 - HEADER_BYTES - len(lone_frame(0))))
    (packet,) = packets(one.offer(2, 10))
    assert fields(packet)["flags"] == DATA | ECHO


def test_requests_name_what_is_missing_and_copies_say_what_they_are() -> None:
    one, body = One(), lone_frame(1)
    one.hear(0, flags=DATA, sequence=1, body=body)
    actions = one.hear(1_000, flags=DATA, sequence=5, body=body)
    assert timer_after(actions) == [one.link.timing.acknowledge_us - 1_000]
    due = one.link.receiver.next_due_at or 0
    assert due == 1_000 + one.link.receiver.reorder_us
    (request,) = packets(one.fire(due))
    told = fields(request)
    assert (told["flags"] & ~ECHO, told["count"], told["up_to"], told["highest"]) == (0, 1, 1, 5)
    assert request[HEADER_BYTES:] == RANGE.pack(2, 3) and one.link.counters.requests_sent == 3
    assert one.link.counters.bytes_sent == 2 * HEADER_BYTES + RANGE.size, "an acknowledgement, a request"
    assert one.link.counters.round_trip_us == 0, "not measured"
    peer = One()
    peer.offer(0, 1)
    peer.offer(1, 1)
    (copy,) = packets(peer.hear(200_000, count=1, body=RANGE.pack(2, 1), highest=2))
    assert fields(copy)["flags"] == DATA | RESENT | ECHO and fields(copy)["sequence"] == 2
    assert peer.link.counters.packets_resent == 1 and peer.link.congestion.window == 7_000
