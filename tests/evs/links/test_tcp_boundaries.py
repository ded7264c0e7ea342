"""The exact limits of a link over a byte stream: time, bytes and words."""

from __future__ import annotations

import pytest

from isotone.core.contract import CancelTimer, SetTimer, StreamReceived, StreamWritable, TimerFired
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, FramesOffered, LinkRoomy, frame_of
from isotone.evs.links.tcp import TcpSettings
from isotone.evs.links.tcp.progress import Progress
from isotone.evs.links.tcp.wire import Reader, frame_header, pack_report
from tests.evs.links.test_tcp import SMALL, arrived, failure, opened, written

HEAD = FRAME_HEADER_BYTES
SETTINGS = TcpSettings(stall_us=1_000, unreported_us=3_000)
REPORT_US = SETTINGS.report_us


# --- progress ------------------------------------------------------------------------------------------------------


def test_who_takes_nothing_and_says_nothing_is_given_up_after_a_stall() -> None:
    progress = Progress(SETTINGS)
    progress.opened(50)
    assert progress.judge_at is None and not progress.waits
    progress.offered(10, 70)
    assert progress.waits and progress.judge_at == 1_070
    progress.offered(10, 90)
    assert progress.judge_at == 1_070, "from the first on"
    assert progress.verdict(1_070) == "the peer took nothing and said nothing for 1 ms"


def test_who_says_something_has_longer_but_not_for_ever() -> None:
    progress = Progress(SETTINGS)
    progress.opened(0)
    progress.offered(10, 0)
    for at in (900, 1_800):
        progress.heard(None, at)
        assert progress.judge_at == at + 1_000
    progress.heard(None, 2_700)
    assert progress.judge_at == 3_000
    assert progress.verdict(3_000) == "the peer took nothing for 3 ms"
    progress.heard(5, 2_900)
    assert progress.judge_at == 3_900, "it took some"
    progress.heard(5, 3_000)
    assert progress.judge_at == 4_000 and progress.waits
    progress.heard(10, 3_100)
    assert progress.judge_at is None


def test_a_report_of_more_than_was_offered_is_the_peers_fault() -> None:
    progress = Progress(SETTINGS)
    progress.offered(10, 0)
    progress.heard(10, 1)
    progress.heard(10, 1)
    with pytest.raises(RemoteProtocolError):
        progress.heard(11, 1)


def test_reports_survive_the_32_bits_they_travel_in() -> None:
    progress = Progress(SETTINGS)
    progress.offered((1 << 32) + 10, 0)
    progress.heard((1 << 32) - 1, 1)
    progress.heard(5, 2)
    assert progress.waits
    progress.heard(10, 3)
    assert not progress.waits


def test_time_asleep_does_not_count() -> None:
    progress = Progress(SETTINGS)
    progress.opened(0)
    progress.offered(10, 0)
    progress.slept(500)
    assert progress.judge_at == 1_000 + 500 + REPORT_US


def test_what_came_is_reported_at_once_and_then_not_too_often() -> None:
    progress = Progress(SETTINGS)
    assert progress.report_at(0) is None
    assert (progress.report_at(5) or 0) <= 0
    progress.reported(5, 40)
    assert progress.report_at(5) is None and progress.report_at(6) == 40 + REPORT_US


# --- the reader ----------------------------------------------------------------------------------------------------


def test_frames_and_reports_cut_anywhere() -> None:
    frames = [frame_of(3, b""), frame_of(4, b"abcde")]
    data = b"".join(frame_header(each) + bytes(each.body()) for each in frames)
    data = data[:HEAD] + pack_report(77) + data[HEAD:]
    for first in range(len(data) + 1):
        for second in (first, min(first + 1, len(data)), min(first + HEAD, len(data))):
            reader, found = Reader(5), list[Frame]()
            for chunk in (data[:first], data[first:second], data[second:]):
                reader.read(memoryview(chunk), found)
            assert [(each.kind, bytes(each.body())) for each in found] == [(3, b""), (4, b"abcde")]
            assert (reader.report, reader.held_bytes, reader.received) == (77, 0, 2 * HEAD + 5)


def test_bytes_of_a_frame_that_is_cut_count_once_its_header_is_there() -> None:
    reader, found = Reader(100), list[Frame]()
    data = frame_header(frame_of(1, bytes(50))) + bytes(50)
    for size, received in ((HEAD - 1, 0), (HEAD, HEAD), (HEAD + 7, HEAD + 7), (len(data), len(data))):
        reader = Reader(100)
        reader.read(memoryview(data[:size]), found)
        assert reader.received == received and reader.held_bytes == (size if size < len(data) else 0)
    reader.clear()
    assert reader.held_bytes == 0


def test_a_frame_over_the_limit_and_headers_of_no_version_are_refused() -> None:
    for size in (5, 6):
        reader, found = Reader(5), list[Frame]()
        data = memoryview(frame_header(frame_of(1, bytes(size))) + bytes(size))
        if size == 5:
            reader.read(data, found)
        else:
            with pytest.raises(RemoteProtocolError):
                reader.read(data, found)
    good = pack_report(1)
    for place in range(4):
        bad = bytearray(good)
        bad[place] ^= 0x80
        with pytest.raises(RemoteProtocolError):
            Reader(5).read(memoryview(bytes(bad)), [])


# --- the link ------------------------------------------------------------------------------------------------------


def test_a_write_takes_what_waits_until_it_is_full() -> None:
    link, _ = opened(SMALL)
    size = 1_000 - HEAD
    link.handle(FramesOffered(3, [frame_of(1, b"first")]))
    for _ in range(6):
        link.handle(FramesOffered(3, [frame_of(1, bytes(size))]))
    assert link.waiting_bytes == 6_000 and link.counters.buffered_bytes == 6_000 + 5 + HEAD
    assert len(written(link.handle(StreamWritable(4, 1)))) == 4_000 and link.waiting_bytes == 2_000
    assert len(written(link.handle(StreamWritable(5, 1)))) == 2_000
    assert link.counters.packets_sent == 4 and link.counters.bytes_sent == 6_000 + 5 + HEAD + len(opened()[1])


def test_room_is_the_largest_frame_or_nothing_and_is_told_of_when_half_is_empty() -> None:
    link, _ = opened(SMALL)
    largest = SMALL.frame_bytes_max + HEAD
    link.handle(FramesOffered(3, [frame_of(1, b"")]))
    size = 1_000 - HEAD
    rooms = []
    for _ in range(10):
        rooms.append(link.room)
        link.handle(FramesOffered(3, [frame_of(1, bytes(size))]))
    assert rooms == [max(10_000 - 1_000 * number, largest) for number in range(10)] and link.room == 0
    told = []
    for at in (4, 5, 6):
        actions = link.handle(StreamWritable(at, 1))
        told.append([each.room for each in actions if isinstance(each, LinkRoomy)])
    assert told == [[], [8_000], []], "when 2,000 of 10,000 are left"


def test_a_report_leaves_alone_when_nothing_else_does_and_is_no_reason_to_wait() -> None:
    link, _ = opened()
    frame, start, report_us = frame_of(7, b"hello"), 100_000_000, link.settings.report_us
    actions = link.handle(StreamReceived(start, 1, frame_header(frame) + b"hello"))
    assert len(arrived(actions)) == 1 and written(actions) == pack_report(HEAD + 5)
    link.handle(StreamWritable(start + 1, 1))
    actions = link.handle(StreamReceived(start + 50, 1, frame_header(frame) + b"hello"))
    assert written(actions) == b""
    assert [each.after_us for each in actions if isinstance(each, SetTimer)] == [report_us - 50]
    assert written(link.handle(TimerFired(start + report_us - 1, link.timer))) == b""
    assert written(link.handle(TimerFired(start + report_us, link.timer))) == pack_report(2 * (HEAD + 5))
    actions = link.handle(StreamWritable(start + report_us + 1, 1))
    assert not any(isinstance(each, SetTimer) for each in actions)


def test_a_peer_that_takes_nothing_fails_the_link_when_its_time_is_over() -> None:
    settings = TcpSettings(stall_us=1_000_000, unreported_us=5_000_000)
    link, _ = opened(settings)
    actions = link.handle(FramesOffered(10, [frame_of(1, b"x")]))
    assert [each.after_us for each in actions if isinstance(each, SetTimer)] == [1_000_000]
    assert failure(link.handle(TimerFired(1_000_009, link.timer))) is None
    assert failure(link.handle(TimerFired(1_000_010, link.timer))) == (
        "the peer took nothing and said nothing for 1000 ms"
    )
    done, _ = opened(settings)
    done.handle(FramesOffered(10, [frame_of(1, b"x")]))
    actions = done.handle(StreamReceived(20, 1, pack_report(HEAD + 1)))
    assert CancelTimer(done.timer) in actions and failure(actions) is None
