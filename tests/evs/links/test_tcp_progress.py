"""When a link over a byte stream gives up, and when it does not: judged by what the peer took, byte by byte."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import pairwise

import pytest

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    Started,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    WriteStream,
)
from isotone.evs.links.contract import DeclareFailed, FramesArrived, FramesOffered, LinkRoomy, frame_of
from isotone.evs.links.tcp import Hello, TcpLink, TcpSettings, pack_hello
from isotone.evs.links.tcp.wire import pack_report
from tests.evs.links.pair import World

PEER = Address("peer")
SECOND = 1_000_000
SMALL = TcpSettings(
    queue_bytes_max=10_000,
    write_bytes_max=4_000,
    frame_bytes_max=3_000,
    open_us=10 * SECOND,
    stall_us=10 * SECOND,
    unreported_us=60 * SECOND,
)
FRAME = frame_of(1, bytes(992))  # 1,000 bytes with its header


def opened(settings: TcpSettings = SMALL) -> TcpLink:
    link = TcpLink(me="a", peer="b", address=PEER, link=5, stream=1, settings=settings)
    link.handle(Started(0))
    link.handle(StreamOpened(0, 1, PEER, False))
    link.handle(StreamWritable(0, 1))
    return link


def failure(actions: Iterable[Action]) -> str | None:
    return next((action.reason for action in actions if isinstance(action, DeclareFailed)), None)


def test_a_stalled_stream_fails_in_bounded_time_and_memory() -> None:
    link = opened()
    actions: list[Action] = []
    while link.room:
        actions += link.handle(FramesOffered(3, [FRAME]))
    assert link.counters.buffered_bytes <= link.memory_max
    assert sum(isinstance(action, WriteStream) for action in actions) == 1
    assert [action for action in actions if isinstance(action, SetTimer)] == [SetTimer(link.timer, SMALL.stall_us)]
    reason = failure(link.handle(TimerFired(3 + SMALL.stall_us, link.timer)))
    assert reason == "the peer took nothing and said nothing for 10000 ms"


def test_a_peer_that_stalls_while_the_systems_below_take_everything_fails_the_link_too() -> None:
    link = opened()
    for at in range(0, 9 * SECOND, SECOND):
        assert failure(link.handle(FramesOffered(at, [FRAME]))) is None
        assert failure(link.handle(StreamWritable(at, 1))) is None
    assert failure(link.handle(TimerFired(SMALL.stall_us - 1, link.timer))) is None
    assert failure(link.handle(TimerFired(SMALL.stall_us, link.timer))) is not None


def test_one_byte_in_each_stall_time_is_progress() -> None:
    link = opened()
    link.handle(FramesOffered(0, [FRAME]))
    for taken in range(1, 100):
        at = taken * (SMALL.stall_us - 1)
        assert failure(link.handle(StreamReceived(at, 1, pack_report(taken)))) is None
        link.handle(TimerFired(at, link.timer))
    assert link.failed is None


def test_a_peer_that_talks_but_takes_nothing_fails_the_link_later() -> None:
    link = opened()
    link.handle(FramesOffered(0, [FRAME]))
    foreign = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    reasons = []
    for at in range(SECOND, SMALL.fail_bound_us + 1, SECOND):
        link.handle(StreamReceived(at, 1, foreign))
        link.handle(StreamWritable(at, 1))
        reasons.append(failure(link.handle(TimerFired(at, link.timer))))
    told = [reason for reason in reasons if reason]
    assert told == ["the peer took nothing for 60000 ms"]
    assert reasons.index(told[0]) + 1 == SMALL.unreported_us // SECOND


def test_time_in_which_this_process_slept_does_not_count() -> None:
    link = opened()
    link.handle(FramesOffered(0, [FRAME]))
    woke_at = 3 * SMALL.stall_us
    actions = link.handle(TimerFired(woke_at, link.timer))
    assert failure(actions) is None and SetTimer(link.timer, SMALL.report_us) in actions
    assert failure(link.handle(TimerFired(woke_at + SMALL.report_us, link.timer))) is not None


def test_frames_that_waited_for_the_stream_are_judged_from_its_opening() -> None:
    link = TcpLink(me="a", peer="b", address=PEER, link=5, stream=1, settings=SMALL)
    link.handle(Started(0))
    link.handle(FramesOffered(0, [FRAME]))
    actions = link.handle(StreamOpened(9 * SECOND, 1, PEER, False))
    assert failure(actions) is None
    assert failure(link.handle(TimerFired(10 * SECOND, link.timer))) is None
    assert failure(link.handle(TimerFired(19 * SECOND, link.timer))) is not None


def test_reports_come_at_once_when_idle_and_seldom_when_busy() -> None:
    link = TcpLink(me="b", peer="a", address=PEER, link=5, stream=9, settings=SMALL)
    link.handle(StreamOpened(1, 8, PEER, True))
    link.handle(StreamReceived(2, 8, pack_hello(Hello("a", 5))))
    reports = []
    frame = b"\x01\x00\x00\x00\x00\x00\x00\x02xy"
    for at in range(SECOND, 21 * SECOND, 50_000):
        for event in (StreamReceived(at, 8, frame), TimerFired(at, link.timer)):
            for action in link.handle(event):
                if isinstance(action, WriteStream):
                    reports.append((at, b"".join(action.data)))
                    link.handle(StreamWritable(at, 8))
    assert reports[0] == (SECOND, pack_report(10))
    assert all(later[0] - sooner[0] >= SMALL.report_us for sooner, later in pairwise(reports))
    assert 28 <= len(reports) <= 32


def test_reports_are_not_reported_and_an_idle_link_is_silent() -> None:
    link = opened()
    link.handle(FramesOffered(0, [FRAME]))
    link.handle(StreamWritable(1, 1))
    cut = pack_report(1000)
    assert link.handle(StreamReceived(2, 1, cut[:3])) == []
    assert link.handle(StreamReceived(3, 1, cut[3:])) == [CancelTimer(link.timer)]


@pytest.mark.parametrize("report", [pack_report(1001), pack_report(-1), b"\x01\x01\0\0\0\0\0\0", b"\0\2\0\0\0\0\0\0"])
def test_a_report_that_cannot_be_fails_the_link(report: bytes) -> None:
    link = opened()
    link.handle(FramesOffered(0, [FRAME]))
    assert failure(link.handle(StreamReceived(1, 1, report))) is not None and link.counters.malformed == 1


# --- two ends over a slow stream -----------------------------------------------------------------------------------


class Pipe:
    """One direction: a system buffer of some bytes, then a rate; a step every tenth of a second."""

    def __init__(self, *, rate: int, buffer_bytes: int) -> None:
        self.rate, self.buffer_bytes = rate, buffer_bytes
        self.waiting = bytearray()
        self.blocked = False


class Streams:
    """Both ends, in virtual time."""

    def __init__(self, settings: TcpSettings, *, rate: int, buffer_bytes: int = 256 * 1024) -> None:
        self.world = World()
        self.links = [
            TcpLink(me=me, peer=peer, address=PEER, link=5, stream=1, settings=settings)
            for me, peer in (("a", "b"), ("b", "a"))
        ]
        self.pipes = [Pipe(rate=rate, buffer_bytes=buffer_bytes) for _ in self.links]
        self.arrived = [0, 0]
        self.failed_at: list[int | None] = [None, None]
        self.memory_peak = [0, 0]
        self.wants: deque[int] = deque()  # ends that offer without end
        self.stalled = False
        self._timers: list[int] = [0, 0]
        for number in (0, 1):
            self.give(number, Started(0))
            self.give(number, StreamOpened(0, 1, PEER, bool(number)))
        self.world.at(0, self._step)

    def give(self, number: int, event: Event) -> None:
        link = self.links[number]
        for action in link.handle(event):
            match action:
                case WriteStream(data=data):
                    self.pipes[number].waiting += b"".join(data)
                    self.pipes[number].blocked = True
                case SetTimer(after_us=after_us):
                    self._timers[number] += 1
                    self.world.at(self.world.now + after_us, partial(self._fire, number, self._timers[number]))
                case CancelTimer():
                    self._timers[number] += 1
                case FramesArrived(frames):
                    self.arrived[number] += sum(frame.size for frame in frames)
                case DeclareFailed():
                    self.failed_at[number] = self.world.now
                case _:
                    assert isinstance(action, LinkRoomy | OpenStream | CloseStream)
        self.memory_peak[number] = max(self.memory_peak[number], link.counters.buffered_bytes)

    def _fire(self, number: int, mark: int) -> None:
        if self._timers[number] == mark:
            self.give(number, TimerFired(self.world.now, self.links[number].timer))

    def _step(self) -> None:
        for number, pipe in enumerate(self.pipes):
            moved = bytes(pipe.waiting[: pipe.rate // 10])
            if moved and not self.stalled:
                del pipe.waiting[: len(moved)]
                self.give(1 - number, StreamReceived(self.world.now, 1, moved))
            if pipe.blocked and len(pipe.waiting) <= pipe.buffer_bytes:
                pipe.blocked = False
                self.give(number, StreamWritable(self.world.now, 1))
            if number in self.wants:
                self._offer(number)
        self.world.at(self.world.now + SECOND // 10, self._step)

    def _offer(self, number: int) -> None:
        frame = frame_of(1, bytes(self.links[number].settings.frame_bytes_max))
        while self.links[number].room:
            self.give(number, FramesOffered(self.world.now, [frame]))


@pytest.mark.parametrize(("rate", "both"), [(27_500, True), (27_500, False), (2_000, False), (400, False)])
def test_a_slow_but_live_stream_never_fails_and_memory_stays_bounded(rate: int, both: bool) -> None:
    """220 kbit/s in both directions through full system buffers; far less in one, where a frame takes minutes."""
    streams = Streams(TcpSettings(), rate=rate)
    streams.wants.extend((0, 1) if both else (0,))
    streams.world.run(600 * SECOND)
    assert streams.failed_at == [None, None]
    assert streams.arrived[1] > 0.85 * rate * 600 - 80_000
    assert all(peak <= link.memory_max for peak, link in zip(streams.memory_peak, streams.links))


@pytest.mark.parametrize("rate", [27_500, 10_000_000])
def test_a_receiver_that_stalls_for_ever_fails_the_link_in_bounded_time_and_memory(rate: int) -> None:
    streams = Streams(TcpSettings(), rate=rate)
    streams.wants.append(0)
    streams.world.run(30 * SECOND)
    assert streams.failed_at == [None, None] and streams.arrived[1]
    streams.stalled = True
    streams.world.run(30 * SECOND + TcpSettings().stall_us + TcpSettings().report_us)
    assert streams.failed_at[0] is not None
    link = streams.links[0]
    assert streams.memory_peak[0] <= link.memory_max
    assert link.counters.buffered_bytes == link.room == 0
