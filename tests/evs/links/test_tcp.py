"""The link over a byte stream. Reference: [Spread 4.2]."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    OpenStream,
    SetTimer,
    Started,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    WriteStream,
)
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import (
    DeclareFailed,
    Frame,
    FramesArrived,
    FramesOffered,
    Link,
    LinkRoomy,
    frame_of,
)
from isotone.evs.links.tcp import Hello, TcpLink, TcpSettings, pack_hello, read_hello
from isotone.evs.links.tcp.wire import pack_report
from tests.evs.links.pair import bodies_of, numbered

PEER = Address("peer")
SMALL = TcpSettings(queue_bytes_max=10_000, write_bytes_max=4_000, frame_bytes_max=3_000)


def opener(settings: TcpSettings | None = None) -> TcpLink:
    return TcpLink(me="a", peer="b", address=PEER, link=5, stream=1, settings=settings)


def acceptor(settings: TcpSettings | None = None) -> TcpLink:
    return TcpLink(me="b", peer="a", address=PEER, link=5, stream=99, settings=settings)


def opened(settings: TcpSettings | None = None) -> tuple[TcpLink, bytes]:
    link = opener(settings)
    link.handle(Started(0))
    greeting = written(link.handle(StreamOpened(1, 1, PEER, False)))
    link.handle(StreamWritable(2, 1))
    return link, greeting


def accepted(settings: TcpSettings | None = None) -> TcpLink:
    link = acceptor(settings)
    link.handle(Started(0))
    link.handle(StreamOpened(1, 8, PEER, True))
    link.handle(StreamReceived(2, 8, pack_hello(Hello("a", 5))))
    return link


def written(actions: Iterable[Action]) -> bytes:
    return b"".join(part for action in actions if isinstance(action, WriteStream) for part in action.data)


def arrived(actions: Iterable[Action]) -> list[Frame]:
    return [frame for action in actions if isinstance(action, FramesArrived) for frame in action.frames]


def failure(actions: Iterable[Action]) -> str | None:
    return next((action.reason for action in actions if isinstance(action, DeclareFailed)), None)


def test_both_ends_are_links() -> None:
    links: list[Link] = [opener(), acceptor()]
    assert all(link.room <= link.memory_max for link in links)


def test_the_smaller_name_opens_and_greets() -> None:
    link = opener()
    assert link.handle(Started(0)) == [OpenStream(1, PEER), SetTimer(link.timer, 2_000_000)]
    actions = link.handle(StreamOpened(1, 1, PEER, False))
    assert written(actions) == pack_hello(Hello("a", 5))
    other = acceptor()
    assert other.handle(Started(0)) == [SetTimer(other.timer, 2_000_000)]


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_frames_cross_whatever_the_cuts(seed: int, cut: int) -> None:
    choice = Choice(seed)
    frames = numbered(choice.between(1, 20), [0, 1, 7, 8, 9, 300, 2900], choice)
    sender, stream = opened(SMALL)
    receiver = acceptor(SMALL)
    receiver.handle(StreamOpened(1, 8, PEER, True))
    waiting = list(frames)
    while waiting or sender.counters.buffered_bytes:
        if waiting and sender.room >= waiting[0].size:
            stream += written(sender.handle(FramesOffered(3, [waiting.pop(0)])))
        if not waiting or not sender.room:
            stream += written(sender.handle(StreamWritable(4, 1)))
    got: list[Frame] = []
    at = 0
    while at < len(stream):
        step = choice.between(1, cut)
        got += arrived(receiver.handle(StreamReceived(5, 8, stream[at : at + step])))
        assert receiver.counters.buffered_bytes <= receiver.memory_max
        at += step
    assert [bytes(frame.body()) for frame in got] == [bytes(frame.body()) for frame in frames]  # FIFO, as TCP is
    assert bodies_of(got) == bodies_of(frames)
    receiver.handle(StreamWritable(6, 8))  # its report was taken
    assert receiver.counters.buffered_bytes == receiver.counters.malformed == 0


def test_frames_that_came_whole_are_not_copied() -> None:
    receiver = accepted()
    sender, _ = opened()
    data = written(sender.handle(FramesOffered(3, [frame_of(1, b"one"), frame_of(2, b"two")])))
    frames = arrived(receiver.handle(StreamReceived(4, 8, data)))
    assert [bytes(frame.body()) for frame in frames] == [b"one", b"two"]
    assert all(frame.body().obj is data for frame in frames)


def test_one_write_at_a_time_and_the_next_takes_all_that_came() -> None:
    link, _ = opened()
    assert written(link.handle(FramesOffered(3, [frame_of(1, b"a")])))
    assert not written(link.handle(FramesOffered(3, [frame_of(1, b"b")])))
    assert not written(link.handle(FramesOffered(3, [frame_of(1, b"c")])))
    assert written(link.handle(StreamWritable(4, 1))).count(b"\x00\x00\x00\x01") == 2
    assert link.handle(StreamWritable(5, 1)) == []
    assert link.handle(StreamReceived(6, 1, pack_report(27))) == [CancelTimer(link.timer)]  # the peer has everything


def test_frames_offered_before_the_stream_is_there_wait_for_it() -> None:
    link = opener()
    link.handle(Started(0))
    assert link.handle(FramesOffered(0, [frame_of(1, b"early")])) == []
    link.handle(StreamOpened(1, 1, PEER, False))
    assert b"early" in written(link.handle(StreamWritable(2, 1)))


def test_a_closed_stream_fails_the_link_and_drops_what_was_cut() -> None:
    """Reference: [Spread 4.2], partial messages are discarded when a connection is closed."""
    receiver = accepted()
    sender, _ = opened()
    data = written(sender.handle(FramesOffered(3, [frame_of(1, b"whole"), frame_of(1, b"cut short")])))
    assert len(arrived(receiver.handle(StreamReceived(4, 8, data[:-3])))) == 1
    assert receiver.handle(StreamClosed(5, 8, "reset")) == [
        CancelTimer(receiver.timer),
        DeclareFailed("stream closed: reset"),
    ]
    assert receiver.handle(StreamReceived(6, 8, data[-3:])) == [] and receiver.room == 0
    assert receiver.counters.buffered_bytes == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes.fromhex("010000007fffffff"), "a frame of 2147483647 bytes: the limit is 3000"),
        (bytes.fromhex("0100000000000bb9"), "a frame of 3001 bytes: the limit is 3000"),
        (bytes.fromhex("0100000100000001"), "bits that version 1 does not have"),
    ],
)
@pytest.mark.parametrize("cut", [1, 3, 8])
def test_a_malformed_length_fails_the_link(data: bytes, reason: str, cut: int) -> None:
    link = accepted(SMALL)
    good = bytes.fromhex("0100000000000001") + b"x"
    actions = link.handle(StreamReceived(3, 8, good + data[:cut]))
    frames = arrived(actions)
    if cut < 8:
        actions = link.handle(StreamReceived(4, 8, data[cut:]))
    assert len(frames) == 1
    assert reason in (failure(actions) or "")
    assert CloseStream(8) in actions and link.counters.malformed == 1


def test_room_returns_when_the_stream_takes_more() -> None:
    link, _ = opened(SMALL)
    while link.room:
        link.handle(FramesOffered(3, [frame_of(1, bytes(1000))]))
    roomy: list[Action] = []
    for at in range(20):
        roomy += [action for action in link.handle(StreamWritable(at, 1)) if isinstance(action, LinkRoomy)]
    assert len(roomy) == 1


def test_a_stream_that_never_comes_fails_the_link() -> None:
    for link in (opener(), acceptor()):
        link.handle(Started(0))
        assert "no stream within 2000 ms" in (failure(link.handle(TimerFired(2_000_000, link.timer))) or "")
    link = acceptor()
    link.handle(Started(0))
    link.handle(StreamOpened(1, 8, PEER, True))
    assert "the greeting is not complete" in (failure(link.handle(TimerFired(2_000_000, link.timer))) or "")


def test_another_peers_greeting_fails_the_link() -> None:
    for hello in (Hello("c", 5), Hello("a", 6)):
        link = acceptor()
        link.handle(StreamOpened(1, 8, PEER, True))
        reason = failure(link.handle(StreamReceived(2, 8, pack_hello(hello))))
        assert reason == f"the peer sent the greeting of {hello.name} for link {hello.link}"


def test_a_second_stream_is_closed() -> None:
    link = accepted()
    assert link.handle(StreamOpened(3, 9, PEER, True)) == [CloseStream(9)]
    assert link.failed is None


def test_greetings_are_read_in_pieces() -> None:
    whole = pack_hello(Hello("somebody", 7))
    assert all(read_hello(whole[:cut]) is None for cut in range(len(whole)))
    assert read_hello(whole + b"more") == (Hello("somebody", 7), len(whole))
    with pytest.raises(RemoteProtocolError, match="version 2"):
        read_hello(b"ISOT\x02\x00\x00\x00\x00\x00")
    with pytest.raises(RemoteProtocolError, match="does not begin"):
        read_hello(b"HT")


def test_random_streams_fail_the_link_or_are_frames() -> None:
    choice = Choice("tcp")
    for seed in range(2000):
        link = accepted(SMALL) if seed % 2 else acceptor(SMALL)
        if not seed % 2:
            link.handle(StreamOpened(1, 8, PEER, True))
        for _ in range(5):
            data = bytes(choice.below(256) if choice.chance(0.3) else 0 for _ in range(choice.below(40)))
            link.handle(StreamReceived(3, 8, data))
            assert link.counters.buffered_bytes <= link.memory_max
        assert (link.failed is not None) == (link.counters.malformed == 1)
