"""The exact limits of what waits in front of links, and of the words that gateways exchange."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from isotone.core.contract import (
    Address,
    CancelTimer,
    CloseStream,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
)
from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, FramesOffered, frame_of
from isotone.evs.links.hop import Hop, HopSettings
from isotone.evs.links.ring import Ring, RingSettings
from isotone.evs.links.tcp import Hello, TcpLink, TcpSettings, pack_hello
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.pruning import DIRECTED_BULK_FRAME, SITES_MAX, Cleared, encode_masked
from isotone.evs.ordering.stamper import BULK_FRAME, PLACE, UNIT_FRAME, UNLIMITED
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.ordering.updates import Update
from isotone.evs.transport.bulk_pace import DECREASE, MEASURE_US, BulkPace
from isotone.evs.transport.callers import CALLERS_MAX, Callers, Streams
from isotone.evs.transport.held_bulk import Held, HeldBulk, decode_held, encode_held
from isotone.evs.transport.incoming import Arrival, Incoming, sort_frames
from isotone.evs.transport.injection import Injection
from isotone.evs.transport.patience import PATIENCE_TIMER, Patience
from isotone.evs.transport.pressure import LinkRoom, decode_pressure, encode_pressure
from isotone.evs.transport.settings import RESENT_BYTES_MAX
from isotone.evs.transport.trunk import METADATA_COMPANY, PACKET_BYTES, STREAM_QUANTUM_BYTES, WINDOW_PARTS, Trunk

HEAD = FRAME_HEADER_BYTES


class FakeLink:
    """A link with so much room and such a window, which notes what it is offered, batch by batch."""

    def __init__(self, room: int, window: int = 0) -> None:
        self.room, self.waiting_bytes = room, 0
        self.congestion = SimpleNamespace(window=window)
        self.offered: list[list[Frame]] = []

    def handle(self, event: FramesOffered) -> list[object]:
        self.offered.append(list(event.frames))
        self.room -= sum(frame.size + HEAD for frame in event.frames)
        return []

    @property
    def sizes(self) -> list[list[int]]:
        return [[frame.size for frame in batch] for batch in self.offered]


def trunk_over(link: FakeLink, hold_us: int = 1_000) -> Trunk:
    return Trunk(name="a~b", site=1, link=cast(Hop, link), caller=Hello("b", 7), metadata_hold_us=hold_us)


def metadata(sequence: int, site: int = 0) -> Unit:
    return Unit(UnitKind.PRUNED, Service.AGREED, site, 0, sequence, 10 * sequence, 0)


# --- the ring's queue ----------------------------------------------------------------------------------------------


def test_a_ring_is_offered_what_it_has_room_for_to_the_byte() -> None:
    for room, offered in ((2 * (10 + HEAD), [[10, 10]]), (2 * (10 + HEAD) - 1, [[10]]), (10 + HEAD - 1, [])):
        ring = FakeLink(room)
        injection = Injection(cast(Ring, ring))
        injection.queue([frame_of(1, bytes(10)) for _ in range(3)])
        injection.pump(5)
        assert ring.sizes == offered
        assert injection.waiting_bytes == 30 - 10 * sum(map(len, offered))


def test_pressure_is_a_matter_of_any_room_at_all() -> None:
    injection = Injection(cast(Ring, FakeLink(0)))
    injection.press(LinkRoom(0, 1, 1))
    assert injection.waiting_bytes == 0, "there was room before"
    injection.press(LinkRoom(0, 1, 0))
    assert injection.waiting_bytes > 0 and injection.link_room.room > 0 == injection.link_room.bulk_room


def test_words_of_the_wrong_length_are_refused() -> None:
    pressure, held = encode_pressure(3, LinkRoom(5 | PLACE, 7, 0)).body(), encode_held(Held(1, 3, is_held=True)).body()
    assert decode_pressure(pressure) == (3, LinkRoom(5 | PLACE, UNLIMITED, 0))
    assert decode_held(held, sites=2) == Held(1, 3, is_held=True)
    for bad in (bytes(pressure) + b"x", bytes(pressure)[:-1]):
        with pytest.raises(RemoteProtocolError):
            decode_pressure(memoryview(bad))
    for bad, sites in ((bytes(held) + b"x", 2), (bytes(held)[:-1], 2), (bytes(held), 1)):
        with pytest.raises(RemoteProtocolError):
            decode_held(memoryview(bad), sites=sites)


# --- patience ------------------------------------------------------------------------------------------------------


def test_lines_that_stand_still_end_patience_however_often_one_looks() -> None:
    lines = SimpleNamespace(agreed=2, stable=1, slowest=lambda: [1])
    patience = Patience(cast(Lines, lines), 1_000)
    assert patience.since == (None, None)
    assert patience.look(5_000, top=2) == [SetTimer(PATIENCE_TIMER, 1_000)]
    assert patience.since == (5_000, 5_000)
    assert patience.look(5_900, top=2) == []
    assert patience.since == (5_000, 5_000) and patience.fired(5_999) is None
    assert patience.fired(6_000) == "no line moved for 1 ms, sites [1] hold them back"
    lines.agreed = 3
    patience.look(6_100, top=3)
    assert patience.since == (6_100, 5_000)
    lines.stable = 2
    patience.look(6_200, top=3)
    assert patience.since == (6_100, 6_200)
    assert patience.rearm(6_300) == [SetTimer(PATIENCE_TIMER, 900)]
    lines.stable = 3
    assert patience.look(6_400, top=3) == [CancelTimer(PATIENCE_TIMER)]
    assert patience.look(6_500, top=3) == []
    assert patience.look(9_000, top=4) == [SetTimer(PATIENCE_TIMER, 1_000)]
    assert patience.since == (9_000, 9_000) and patience.fired(9_999) is None, "the whole time again"


# --- trunks --------------------------------------------------------------------------------------------------------


def test_a_quantum_is_a_sixteenth_of_the_window_and_at_least_a_packet() -> None:
    for window, quantum, bulk in (
        (0, PACKET_BYTES, 1),
        (WINDOW_PARTS * PACKET_BYTES, PACKET_BYTES, PACKET_BYTES),
        (WINDOW_PARTS * 2_000, 2_000, 2_000),
        (WINDOW_PARTS, PACKET_BYTES, 1),
        (2 * WINDOW_PARTS, PACKET_BYTES, 2),
    ):
        trunk = trunk_over(FakeLink(0, window))
        assert (trunk.quantum, trunk.bulk_quantum) == (quantum, bulk)
    stream = TcpLink(me="a", peer="b", address=Address("b.1"), link=7, stream=1)
    over_stream = Trunk(name="a~b", site=1, link=stream, caller=Hello("b", 7), metadata_hold_us=1)
    assert over_stream.quantum == over_stream.bulk_quantum == STREAM_QUANTUM_BYTES
    assert over_stream.answers(Hello("b", 7)) and not over_stream.answers(Hello("b", 8))
    assert not trunk_over(FakeLink(0)).answers(Hello("b", 7))


def test_sources_take_turns_and_what_does_not_fit_lets_others_pass() -> None:
    link = FakeLink(room=3 * (100 + HEAD))
    trunk = trunk_over(link)
    for size in (100, 100):
        trunk.queue(0, frame_of(UNIT_FRAME, bytes(size)))
    trunk.queue(1, frame_of(UNIT_FRAME, bytes(500)))
    trunk.queue(2, frame_of(UNIT_FRAME, bytes(100)))
    assert not trunk.is_open(0) and trunk.is_open(3) and trunk.waiting_bytes == 800
    trunk.pump(0)
    assert link.sizes == [[100, 100, 100]] and trunk.waiting_bytes == 500
    assert trunk.is_open(0) and not trunk.is_open(1)
    link.room = 500 + HEAD - 1
    trunk.pump(0)
    assert len(link.sizes) == 1
    link.room = 500 + HEAD
    trunk.pump(0)
    assert link.sizes[1:] == [[500]] and trunk.waiting_bytes == 0


def test_a_batch_ends_when_its_quantum_is_spent() -> None:
    link = FakeLink(room=1 << 20)
    trunk = trunk_over(link)
    half = PACKET_BYTES // 2 - HEAD
    for _ in range(5):
        trunk.queue(0, frame_of(UNIT_FRAME, bytes(half)))
    trunk.pump(0)
    assert link.sizes == [[half, half], [half, half], [half]]


def test_bulk_stands_behind_everything_and_waits_until_the_link_is_empty() -> None:
    link = FakeLink(room=1 << 20, window=WINDOW_PARTS * 10_000)
    trunk = trunk_over(link)
    assert trunk.is_open_for_bulk(0)
    trunk.queue(0, frame_of(BULK_FRAME, bytes(300)))
    trunk.queue(1, frame_of(DIRECTED_BULK_FRAME, bytes(400)))
    trunk.queue(0, frame_of(UNIT_FRAME, bytes(100)))
    assert (trunk.bulk_bytes(0), trunk.bulk_bytes(1), trunk.bulk_bytes(2)) == (300, 400, 0)
    assert not trunk.is_open_for_bulk(0) and not trunk.is_open_for_bulk(2), "a unit waits"
    link.waiting_bytes = 1
    trunk.pump(0)
    assert link.sizes == [[100]], "the link itself has something waiting"
    assert not trunk.is_open_for_bulk(2)
    link.waiting_bytes = 0
    assert trunk.is_open_for_bulk(2) and not trunk.is_open_for_bulk(0)
    trunk.pump(0)
    assert link.sizes == [[100], [300, 400]] and trunk.waiting_bytes == 0
    assert (trunk.bulk_bytes(0), trunk.bulk_bytes(1)) == (0, 0)


def test_who_sent_bulk_last_lets_others_go_first() -> None:
    link = FakeLink(room=300 + HEAD, window=WINDOW_PARTS)
    trunk = trunk_over(link)
    trunk.queue(0, frame_of(BULK_FRAME, bytes(300)))
    trunk.pump(0)
    trunk.queue(1, frame_of(BULK_FRAME, bytes(300)))
    assert not trunk.is_open_for_bulk(0) and trunk.is_open_for_bulk(2)


def test_updates_leave_first_and_only_the_newest_of_a_kind_and_source() -> None:
    link = FakeLink(room=3 * (20 + HEAD) - 1)
    trunk = trunk_over(link)
    trunk.queue(0, frame_of(UNIT_FRAME, bytes(1)))
    for size in (5, 20):
        trunk.queue_update(0, frame_of(2, bytes(size)))
    trunk.queue_update(1, frame_of(2, bytes(20)))
    trunk.queue_update(0, frame_of(8, bytes(20)))
    trunk.pump(0)
    assert link.sizes == [[20, 20]], "the third does not fit, and units wait behind it"
    link.room = 1 << 20
    trunk.pump(0)
    assert link.sizes[1:] == [[20, 1]]


def test_unreliable_units_leave_now_or_never() -> None:
    link = FakeLink(room=50 + HEAD)
    trunk = trunk_over(link)
    trunk.queue_unreliable(0, frame_of(UNIT_FRAME, bytes(51)))
    assert (trunk.waiting_bytes, trunk.dropped) == (0, 1)
    trunk.queue_unreliable(0, frame_of(UNIT_FRAME, bytes(50)))
    assert (trunk.waiting_bytes, trunk.dropped) == (50, 1)
    trunk.queue_unreliable(0, frame_of(UNIT_FRAME, bytes(1)))
    assert (trunk.waiting_bytes, trunk.dropped) == (50, 2), "what waits counts"


def test_metadata_waits_for_its_time_from_when_it_was_first_looked_at() -> None:
    link = FakeLink(room=1 << 20)
    trunk = trunk_over(link, hold_us=1_000)
    assert trunk.metadata_wait_us(0) is None
    trunk.queue_metadata(metadata(1), passing=False)
    trunk.pump(100)
    assert trunk.metadata_wait_us(100) == 1_000 and trunk.metadata_wait_us(5_000) == 0
    trunk.queue_metadata(metadata(2), passing=False)
    trunk.pump(1_099)
    assert link.offered == [] and trunk.metadata_wait_us(1_099) == 1
    trunk.pump(1_100)
    assert len(link.offered) == 1 and trunk.metadata_wait_us(1_100) is None


def test_metadata_leaves_with_units_or_with_an_update_when_it_waited_for_most_of_its_time() -> None:
    for waited, leaves in ((749, 1), (750, 2)):
        link = FakeLink(room=1 << 20)
        trunk = trunk_over(link, hold_us=1_000)
        trunk.queue_metadata(metadata(1), passing=False)
        trunk.pump(0)
        trunk.queue_update(0, frame_of(2, bytes(20)))
        trunk.pump(waited)
        assert sum(map(len, link.offered)) == leaves
    link = FakeLink(room=1 << 20)
    trunk = trunk_over(link)
    trunk.queue_metadata(metadata(1), passing=False)
    trunk.queue(1, frame_of(UNIT_FRAME, bytes(9)))
    trunk.pump(0)
    assert sum(map(len, link.offered)) == 2


def test_metadata_leaves_when_it_is_many_or_passes_by() -> None:
    for count, passing, leaves in (
        (METADATA_COMPANY - 1, False, False),
        (METADATA_COMPANY, False, True),
        (1, True, True),
    ):
        link = FakeLink(room=1 << 20)
        trunk = trunk_over(link)
        for sequence in range(1, count + 1):
            trunk.queue_metadata(metadata(sequence), passing=passing and sequence == 1)
        trunk.pump(0)
        assert bool(link.offered) is leaves


def test_a_clearance_waits_for_the_metadata_that_it_speaks_of() -> None:
    link = FakeLink(room=1 << 20)
    trunk = trunk_over(link)
    trunk.queue_metadata(metadata(1), passing=False)
    trunk.queue_cleared(0, frame_of(6, bytes(30)))
    trunk.queue_cleared(1, frame_of(6, bytes(40)))
    trunk.pump(0)
    assert link.sizes == [[40]], "nothing of site 1 waits"
    trunk.pump(1_000)
    assert link.sizes[1][0] == 30 and len(link.sizes[1]) == 2


# --- bulk ----------------------------------------------------------------------------------------------------------


def test_a_word_about_bulk_counts_only_if_it_is_newer() -> None:
    beyond = HeldBulk()
    assert beyond.heard(1, Held(0, 5, is_held=True)) and beyond.is_held(0) and not beyond.is_held(1)
    assert not beyond.heard(1, Held(0, 5, is_held=False)) and beyond.is_held(0)
    assert beyond.heard(2, Held(0, 1, is_held=False)) and beyond.is_held(0), "another neighbour"
    assert beyond.heard(1, Held(0, 6, is_held=False)) and not beyond.is_held(0)
    assert not beyond.said(0)
    assert beyond.change(0, is_held=True) == Held(0, 1, is_held=True) and beyond.said(0)
    assert beyond.change(0, is_held=False) == Held(0, 2, is_held=False) and not beyond.said(0)


def test_the_pace_of_bulk_falls_below_what_was_achieved_and_each_fragment_waits_for_it() -> None:
    pace = BulkPace()
    pace.spent(50_000, 100)
    assert pace.wait_us(100) == 0
    pace.held(10_100)
    assert pace.rate == pytest.approx(DECREASE * 50_000 / 10_100)
    pace.held(10_100)
    assert pace.rate == pytest.approx(DECREASE**2 * 50_000 / 10_100), "from the pace, once there is one"
    rate = pace.rate or 0
    pace.spent(1_000, 10_100)
    took = int(1_000 / rate)
    assert pace.wait_us(10_100) == took and pace.wait_us(10_100 + took) == 0
    pace.spent(1_000, 10_100)
    assert pace.wait_us(10_100) == 2 * took, "behind the one before"


def test_what_was_achieved_is_measured_over_half_a_second() -> None:
    for until, expected in (
        (MEASURE_US - 1, 2_000 / (MEASURE_US - 1)),
        (MEASURE_US, 2_000 / MEASURE_US),
        (2 * MEASURE_US - 1, 2_000 / (2 * MEASURE_US - 1)),
    ):
        pace = BulkPace()
        pace.spent(2_000, 0)
        pace.held(until)
        assert pace.rate == pytest.approx(DECREASE * expected)
    pace = BulkPace()
    pace.spent(2_000, 0)
    pace.spent(700, 2 * MEASURE_US)
    pace.held(2 * MEASURE_US + 100)
    assert pace.rate == pytest.approx(DECREASE * 700 / 100), "a pause says nothing"


def test_the_pace_creeps_up_by_a_tenth_in_a_second() -> None:
    pace = BulkPace(rate=1.0)
    pace.spent(0, 100_000)
    assert pace.rate == pytest.approx(1.01)
    pace.spent(0, 100_000)
    assert pace.rate == pytest.approx(1.01)
    pace.spent(0, 10_000_000)
    assert pace.rate == pytest.approx(1.01 * 1.05), "no more than half a second counts"


# --- what comes ----------------------------------------------------------------------------------------------------


def test_frames_of_unknown_kinds_are_counted_and_content_for_others_passes_by() -> None:
    incoming = sort_frames([frame_of(99, b""), frame_of(UNIT_FRAME, b"short")], sites=2, daemons=2)
    assert incoming.malformed == 2 and incoming.units == []
    unit = Unit(UnitKind.BUNDLE, Service.AGREED, 1, 0, 1, 5, 0, b"x")
    incoming = Incoming(units=[Arrival(unit, frame_of(1, b""))], updates=[Update(2, 1, 1, 1)], cleared=[Cleared(0, 1)])
    assert incoming.sources() == {0, 1, 2}


# --- streams -------------------------------------------------------------------------------------------------------


def test_so_many_callers_may_wait() -> None:
    callers = Callers()
    for number in range(CALLERS_MAX):
        assert callers.opened(StreamOpened(0, -1 - number, Address("x"), True)) == []
    assert callers.opened(StreamOpened(0, -99, Address("x"), True)) == [CloseStream(-99)] and -99 not in callers
    assert callers.closed(StreamClosed(0, -1, "gone")) and not callers.closed(StreamClosed(0, -1, "gone"))
    assert callers.opened(StreamOpened(0, -99, Address("x"), True)) == [] and -99 in callers


def test_streams_are_routed_by_number_or_by_greeting() -> None:
    link = TcpLink(me="a", peer="b", address=Address("b.1"), link=7, stream=5)
    trunk = Trunk(name="a~b", site=1, link=link, caller=Hello("b", 7), metadata_hold_us=1)
    other = trunk_over(FakeLink(0))
    streams = Streams([trunk, other], first=5)
    for number, found in ((4, None), (5, trunk), (6, other), (7, None)):
        assert streams.route(StreamWritable(0, number))[0] is found
    opened = StreamOpened(0, -1, Address("b.1"), True)
    assert streams.route(opened) == (None, [], [])
    hello = pack_hello(Hello("b", 7))
    assert streams.route(StreamReceived(1, -1, hello[:3])) == (None, [], [])
    assert streams.route(StreamReceived(2, -1, hello[3:])) == (trunk, [opened, StreamReceived(2, -1, hello)], [])
    assert streams.route(StreamReceived(3, -1, b"more"))[0] is trunk
    streams.route(StreamOpened(0, -2, Address("b.1"), True))
    stranger = pack_hello(Hello("b", 8))
    assert streams.route(StreamReceived(2, -2, stranger)) == (None, [], [CloseStream(-2)])
    streams.route(StreamOpened(0, -3, Address("b.1"), True))
    assert streams.route(StreamClosed(1, -3, "gone")) == (None, [], [])
    assert streams.route(StreamReceived(2, -3, hello)) == (None, [], [])


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [TcpSettings(), HopSettings(), RingSettings()])
def test_the_largest_unit_fits_into_a_frame_of_every_link(settings: TcpSettings | HopSettings | RingSettings) -> None:
    """Also with the longest names; one of the membership that carries a unit of an earlier daemon view is larger."""
    body, past = bytes(RESENT_BYTES_MAX), (0,) * SITES_MAX
    largest = Unit(UnitKind.MEMBERSHIP, Service.RELIABLE, 0, 0, 1, 1, 0, body, past)
    assert encode_masked(DIRECTED_BULK_FRAME, 1, largest).size <= settings.frame_bytes_max
