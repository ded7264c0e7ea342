"""The rules of the hop protocol, one by one. Reference: [Spread 4.3, Figures 4.1 and 4.2]."""

from __future__ import annotations

import pytest

from isotone.core.contract import Action, Address, DatagramsReceived, SendDatagrams, SetTimer, TimerFired
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import DeclareFailed, FramesArrived, FramesOffered, Link, LinkRoomy, frame_of
from isotone.evs.links.hop import Hop, HopSettings
from isotone.evs.links.hop.pacing import Bucket, Timing
from isotone.evs.links.hop.receiver import Receiver
from isotone.evs.links.hop.sender import Sender
from isotone.evs.links.hop.wire import ANSWER, DATA, HEADER, HEADER_BYTES, RESENT, expand, ranges_of

SETTINGS = HopSettings(window_max=100)
PEER = Address("peer")


def receiver(settings: HopSettings = SETTINGS) -> Receiver:
    return Receiver(settings, Timing(settings))


def sender(settings: HopSettings = SETTINGS) -> Sender:
    return Sender(settings, Timing(settings))


def come(box: Receiver, *sequences: int, at: int = 0, resent: bool = False) -> list[bool]:
    news = []
    for sequence in sequences:
        news.append(box.is_new(sequence))
        if news[-1]:
            box.take(sequence, at, resent=resent)
    return news


def hop() -> Hop:
    return Hop(peer="b", address=PEER, link=7)


def sent(actions: list[Action]) -> list[bytes]:
    return [b"".join(data) for action in actions if isinstance(action, SendDatagrams) for data in action.datagrams]


def received(link: Hop, at: int, *packets: bytes) -> list[Action]:
    out: list[Action] = []
    for packet in packets:
        out += link.handle(DatagramsReceived(at, PEER, packet, len(packet)))
    return out


def flags(packet: bytes) -> int:
    return int(HEADER.unpack_from(packet)[1])


# --- Figure 4.2: the receiver --------------------------------------------------------------------------------------


def test_in_order_packets_move_the_line() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 16 to 21, line 18 corrected: the line stood right below the packet."""
    box = receiver()
    assert come(box, 1, 2, 3) == [True, True, True]
    assert (box.all_received_up_to, box.next_expected, box.missing) == (3, 4, [])


def test_a_packet_beyond_the_next_makes_exactly_the_ones_between_missing() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 9 to 15, line 10 corrected: next_expected to sequence − 1."""
    box = receiver()
    come(box, 1, 5)
    assert (box.all_received_up_to, box.next_expected, box.missing) == (1, 6, [2, 3, 4])
    come(box, 6)
    assert (box.all_received_up_to, box.missing) == (1, [2, 3, 4])


def test_the_line_rises_to_below_the_smallest_missing() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 22 to 27; with nothing missing: next_expected − 1."""
    box = receiver()
    come(box, 1, 3, 5)
    come(box, 4)
    assert box.all_received_up_to == 1
    come(box, 2)
    assert (box.all_received_up_to, box.missing) == (5, [])


def test_duplicates_are_recognised_by_the_missing_list() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 22, 23 and 28."""
    box = receiver()
    assert come(box, 1, 4, 1, 4, 2, 2, 3, 3) == [True, True, False, False, True, False, True, False]


def test_an_announcement_makes_everything_up_to_it_missing() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 29 to 35, line 32 corrected."""
    box = receiver()
    come(box, 1)
    box.announced(3, 0)
    assert (box.missing, box.next_expected) == ([2, 3], 4)
    box.announced(3, 0)
    box.announced(1, 0)
    assert box.missing == [2, 3]


def test_requests_wait_for_reordered_packets_and_are_repeated() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 13 and 36 to 42; lazy selective retransmits."""
    box = receiver()
    come(box, 1, 3, at=1000)
    due = box.next_due_at
    assert due == 1000 + box.reorder_us
    assert box.requests_due(due - 1, 100) == []
    assert box.requests_due(due, 100) == [2]
    assert box.requests_due(due, 100) == []
    again = box.next_due_at
    assert again is not None and again >= due + Timing(SETTINGS).timeout_us
    assert box.requests_due(again, 100) == [2]
    come(box, 2, at=again, resent=True)
    assert box.requests_due(again + 10**7, 100) == [] and box.next_due_at is None


def test_the_delay_adapts_to_reordering_and_back() -> None:
    """Reference: [Spread 4.3], "it should be possible to set the delay based on the amount of reordering"."""
    box = receiver()
    before = box.reorder_us
    come(box, 1, 3, at=0)
    come(box, 2, at=before * 2)
    assert box.reorder_us == before * 3
    high = box.reorder_us
    for sequence in range(5, 99, 2):
        come(box, sequence, at=10**6)
        come(box, sequence - 1, at=2 * 10**6, resent=True)
    assert before <= box.reorder_us < high


def test_a_packet_that_cannot_be_recovered_fails_the_link_by_time_and_count() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 39, 40; instead of a fixed MaxNACKS."""
    box = receiver()
    come(box, 1, 3)
    at = 0
    while box.failure(at) is None:
        at = box.next_due_at or 0
        box.requests_due(at, 100)
    assert SETTINGS.give_up_us(Timing(SETTINGS).timeout_us) <= at
    assert at <= SETTINGS.fail_bound_us(Timing(SETTINGS).timeout_us)
    patient = receiver()
    come(patient, 1, 3)
    patient.requests_due(patient.next_due_at or 0, 100)
    assert patient.failure(3600 * 10**6) is None  # this process slept: it asked only once


def test_packets_beyond_the_window_are_the_peers_fault() -> None:
    box = receiver()
    with pytest.raises(RemoteProtocolError):
        box.is_new(101)
    with pytest.raises(RemoteProtocolError):
        box.announced(101, 0)
    assert box.is_new(100)


# --- Figure 4.1: the sender ----------------------------------------------------------------------------------------


def test_packets_are_kept_until_they_are_acknowledged() -> None:
    """Reference: [Spread 4.3, Figure 4.1] lines 13 to 21."""
    box = sender()
    assert [box.send([b"x" * 10], 10, 0) for _ in range(3)] == [1, 2, 3]
    assert (box.stored_bytes, box.flight_bytes) == (30, 30)
    assert box.acknowledged(2, 2) == 20
    assert (box.stored_bytes, box.flight_bytes, box.outstanding) == (10, 10, True)
    assert box.acknowledged(1, 2) == 0  # late and harmless
    box.acknowledged(3, 3)
    assert (box.stored_bytes, box.flight_bytes, box.outstanding) == (0, 0, False)


def test_requested_packets_are_sent_again_even_when_the_window_is_full() -> None:
    """Reference: [Spread 4.3, Figure 4.1] lines 2 to 5, and "even when the limit … has been reached"."""
    box = sender(HopSettings(window_max=3))
    for _ in range(3):
        box.send([b"x"], 1, 0)
    assert not box.window_open
    box.acknowledged(0, 3)
    assert box.requested([(1, 1), (3, 1)], 10**6) == 3
    assert [box.send_copy(10**6)[0], box.send_copy(10**6)[0]] == [1, 3]
    assert not box.has_copies and box.packets_resent == 2


def test_a_request_from_before_the_last_copy_arrived_is_ignored() -> None:
    settings = HopSettings()
    timing = Timing(settings)
    timing.take(50_000, 0)
    box = Sender(settings, timing)
    box.send([b"x"], 1, 0)
    box.acknowledged(0, 1)
    assert box.requested([(1, 1)], 60_000) == 1
    box.send_copy(60_000)
    assert box.requested([(1, 1)], 100_000) == 0
    assert box.requested([(1, 1)], 110_000) == 1


def test_a_packet_that_is_resent_too_often_fails_the_link_by_time_and_count() -> None:
    """Reference: [Spread 4.3, Figure 4.1] lines 6, 7: the asymmetric case; instead of a fixed MaxNACKS."""
    box = sender()
    box.send([b"x"], 1, 0)
    box.acknowledged(0, 1)
    at = copies = 0
    while box.failure is None:
        at += 100_000
        box.requested([(1, 1)], at)
        box.send_copy(at)
        copies += 1
    assert at >= SETTINGS.fail_after_us and copies > SETTINGS.attempts_min
    quick = sender()
    quick.send([b"x"], 1, 0)
    quick.acknowledged(0, 1)
    for at in range(1, 200):
        quick.requested([(1, 1)], at)
        quick.send_copy(at)
    assert quick.failure is None  # often, but within moments: heavy loss is no failure


def test_acknowledgements_and_requests_for_the_future_are_the_peers_fault() -> None:
    box = sender()
    box.send([b"x"], 1, 0)
    for up_to, highest in ((2, 2), (1, 2), (1, 0)):
        with pytest.raises(RemoteProtocolError):
            box.acknowledged(up_to, highest)
    with pytest.raises(RemoteProtocolError):
        box.requested([(1, 2)], 0)


# --- the link ------------------------------------------------------------------------------------------------------


def test_a_hop_is_a_link() -> None:
    link: Link = hop()
    assert 64 * 1024 < link.room < link.memory_max


def test_an_idle_link_sends_at_once_and_is_acknowledged_at_once() -> None:
    """DESIGN 3: acknowledge at once when idle."""
    left, right = hop(), hop()
    (packet,) = sent(left.handle(FramesOffered(1000, [frame_of(1, b"hello")])))
    actions = received(right, 5000, packet)
    assert [frame.body() for action in actions if isinstance(action, FramesArrived) for frame in action.frames] == [
        b"hello"
    ]
    (answer,) = sent(actions)
    assert len(answer) == HEADER_BYTES
    assert received(left, 9000, answer) == []  # nothing outstanding: nothing to arm, nothing to send
    assert left.counters.round_trip_us == 8000
    assert left.handle(TimerFired(10**6, left.timer)) == []  # the timer of before finds nothing to do


def test_frames_go_up_although_earlier_packets_are_missing() -> None:
    """Reference: [Spread 4.3], non-blocking."""
    left, right = hop(), hop()
    packets = [sent(left.handle(FramesOffered(at, [frame_of(1, bytes([at]))])))[0] for at in range(4)]
    got = [
        bytes(frame.body())
        for action in received(right, 100, packets[3], packets[1], packets[3])
        if isinstance(action, FramesArrived)
        for frame in action.frames
    ]
    assert got == [b"\x03", b"\x01"]
    assert right.receiver.missing == [1, 3] and right.counters.duplicates == 1


def test_many_segments_in_one_buffer_are_one_event_and_one_batch() -> None:
    left, right = hop(), hop()
    packets = sent(left.handle(FramesOffered(0, [frame_of(1, bytes(5000)), frame_of(2, b"last")])))
    sizes = {len(packet) for packet in packets[:-1]}
    assert sizes == {1400} and len(packets[-1]) <= 1400
    actions = right.handle(DatagramsReceived(100, PEER, b"".join(packets), 1400))
    batches = [action for action in actions if isinstance(action, FramesArrived)]
    assert len(batches) == 1 and sorted(frame.size for frame in batches[0].frames) == [4, 5000]
    assert len(sent(actions)) == 1


def test_acknowledgements_by_count_and_by_time() -> None:
    """Reference: [Spread 4.3, Figure 4.2] lines 4 to 8, "periodically or after some number … whichever is sooner"."""
    left, right = hop(), hop()
    received(left, 100_000, *sent(received(right, 50_000, *sent(left.handle(FramesOffered(0, [frame_of(1, b"x")]))))))
    packets = [sent(left.handle(FramesOffered(150_000 + n, [frame_of(1, bytes([n]))])))[0] for n in range(30)]
    assert len(sent(received(right, 200_000, packets[0]))) == 1  # it was idle
    actions = received(right, 200_001, *packets[1:16])
    assert sent(actions) == []  # an acknowledgement left just before
    timers = [action for action in actions if isinstance(action, SetTimer)]
    assert len(timers) == 1 and timers[0].after_us <= right.timing.acknowledge_us
    assert len(sent(received(right, 200_001, packets[16]))) == 1  # by count
    assert sent(received(right, 200_002, packets[17])) == []
    assert len(sent(right.handle(TimerFired(200_001 + right.timing.acknowledge_us, right.timer)))) == 1  # by time


def test_an_acknowledgement_rides_on_data() -> None:
    """DESIGN 3: piggyback when busy."""
    left, right = hop(), hop()
    received(right, 1000, *sent(left.handle(FramesOffered(0, [frame_of(1, b"x")]))))
    assert sent(received(right, 1100, *sent(left.handle(FramesOffered(50, [frame_of(1, b"y")]))))) == []
    (packet,) = sent(right.handle(FramesOffered(1200, [frame_of(1, b"z")])))
    assert flags(packet) & DATA
    received(left, 2000, packet)
    assert not left.sender.outstanding


def test_an_overdue_acknowledgement_is_asked_for_and_the_loss_repaired() -> None:
    """Reference: [Spread 4.3, Figure 4.1] lines 8 to 12: loss of the last packet."""
    left, right = hop(), hop()
    (lost,) = left.handle(FramesOffered(0, [frame_of(1, b"x")]))[:1]
    assert isinstance(lost, SendDatagrams)
    at = left.timing.timeout_us + left.timing.acknowledge_us
    (announcement,) = sent(left.handle(TimerFired(at, left.timer)))
    assert flags(announcement) & ANSWER and len(announcement) == HEADER_BYTES
    answers = received(right, at + 1000, announcement)
    assert len(sent(answers)) == 1 and right.receiver.missing == [1]
    received(left, at + 2000, *sent(answers))
    (request,) = sent(right.handle(TimerFired(at + 1000 + right.receiver.reorder_us, right.timer)))
    (copy,) = sent(received(left, at + 200_000, request))
    assert flags(copy) & RESENT
    assert any(isinstance(action, FramesArrived) for action in received(right, at + 201_000, copy))


def test_packets_of_another_link_are_not_ours() -> None:
    left, right = hop(), Hop(peer="a", address=PEER, link=8)
    assert received(right, 1, *sent(left.handle(FramesOffered(0, [frame_of(1, b"x")])))) == []
    assert (right.strangers, right.counters.malformed) == (1, 0)


def test_offering_without_room_is_our_bug() -> None:
    link = hop()
    while link.room > 2000:
        link.handle(FramesOffered(0, [frame_of(1, bytes(60_000))]))
    assert 0 < link.room < 1400  # bulk fills the queue; a fresh message still finds room
    with pytest.raises(AssertionError, match="room"):
        link.handle(FramesOffered(0, [frame_of(1, bytes(60_000))]))
    while link.room:
        link.handle(FramesOffered(0, [frame_of(1, bytes(1000))]))


def test_room_is_told_when_it_returns() -> None:
    left, right = hop(), hop()
    at = 0
    packets = []
    while left.room > 2000:
        packets += sent(left.handle(FramesOffered(at, [frame_of(1, bytes(60_000))])))
    roomy = 0
    for _ in range(1000):
        at += 5000
        answers = sent(received(right, at, *packets)) + sent(right.handle(TimerFired(at, right.timer)))
        actions = received(left, at, *answers) + left.handle(TimerFired(at, left.timer))
        packets = sent(actions)
        roomy += sum(isinstance(action, LinkRoomy) for action in actions)
    assert roomy == 1 and left.counters.buffered_bytes == 0


def test_after_failing_a_link_is_silent() -> None:
    link = hop()
    link.handle(FramesOffered(0, [frame_of(1, b"x")]))
    at = 0
    actions: list[Action] = []
    while not link.failed:
        at += 100_000
        actions = link.handle(TimerFired(at, link.timer))
    assert isinstance(actions[-1], DeclareFailed) and not sent(actions)
    assert link.handle(TimerFired(at, link.timer)) == [] and link.room == 0
    assert link.counters.buffered_bytes == 0


def test_a_failing_link_after_a_long_pause_of_this_process_asks_first() -> None:
    link = hop()
    link.handle(FramesOffered(0, [frame_of(1, b"x")]))
    link.handle(TimerFired(3600 * 10**6, link.timer))
    assert link.failed is None


# --- wire and buckets ----------------------------------------------------------------------------------------------


def test_sequence_numbers_survive_the_32_bits_they_travel_in() -> None:
    for near in (0, 1, 2**32 - 5, 2**32, 2**40 + 17):
        for number in range(max(0, near - 5000), near + 5000, 7):
            assert expand(number & 0xFFFFFFFF, near) == number


def test_a_link_works_across_the_wrap() -> None:
    left, right = hop(), hop()
    for end in (left, right):
        end.receiver.next_expected = 2**32 - 2
        end.receiver.all_received_up_to = 2**32 - 3
        end.sender.highest_sent = end.sender.acknowledged_up_to = end.sender._highest_known = 2**32 - 3
    got = 0
    for at in range(0, 10_000_000, 500_000):
        actions = received(right, at + 1000, *sent(left.handle(FramesOffered(at, [frame_of(1, b"x")]))))
        got += sum(isinstance(action, FramesArrived) for action in actions)
        received(left, at + 2000, *sent(actions))
    assert got == 20 and not left.sender.outstanding and left.sender.highest_sent == 2**32 + 17


def test_ranges() -> None:
    assert ranges_of([]) == []
    assert ranges_of([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 1), (9, 2)]
    assert ranges_of(range(1, 70_001)) == [(1, 65_535), (65_536, 4_465)]


def test_a_bucket_allows_its_burst_and_then_its_rate() -> None:
    """Reference: [Spread 4.3], a leaky bucket with a maximum burst and an average rate."""
    bucket = Bucket(rate=0.5, depth=1000)
    bucket.refill(0)
    assert bucket.wait_us(1000) == 0
    bucket.take(1000)
    assert bucket.wait_us(100) == 200
    bucket.refill(200)
    assert bucket.wait_us(100) == 0
    bucket.take(300)
    assert bucket.level == -200 and bucket.wait_us(0) == 400
    bucket.refill(10**9)
    assert bucket.level == 1000
