"""Streams that come before the daemon view that they greet."""

from __future__ import annotations

from isotone.core.contract import Address, CloseStream, StreamOpened, StreamReceived
from isotone.evs.links.tcp import Hello
from isotone.evs.links.tcp.wire import pack_hello
from isotone.evs.membership.callers import CALLERS_MAX, WAITING_BYTES_MAX, Callers

HELLO = Hello("b", 77)


def opened(stream: int, at: int = 0) -> StreamOpened:
    return StreamOpened(at, stream, Address("b.1"), True)


def test_a_greeting_in_pieces() -> None:
    callers = Callers(1_000)
    callers.opened(opened(-1))
    data = pack_hello(HELLO)
    assert callers.received(StreamReceived(1, -1, data[:5])) == (None, [])
    assert callers.received(StreamReceived(2, -1, data[5:])) == (HELLO, [])
    assert callers.received(StreamReceived(3, -1, b"more")) == (HELLO, [])
    assert callers.waiting() == [(-1, HELLO)]
    first, received = callers.take(-1, 9)
    assert first == opened(-1) and bytes(received.data) == data + b"more" and -1 not in callers


def test_who_says_something_else_is_turned_away() -> None:
    callers = Callers(1_000)
    callers.opened(opened(-1))
    assert callers.received(StreamReceived(1, -1, b"GET / HTTP/1.1")) == (None, [CloseStream(-1)])
    assert -1 not in callers


def test_patience_numbers_and_bytes_have_bounds() -> None:
    callers = Callers(1_000)
    for stream in range(CALLERS_MAX):
        assert callers.opened(opened(-1 - stream)) == []
    assert callers.opened(opened(-9_000)) == [CloseStream(-9_000)]
    late = callers.opened(opened(-9_001, at=5_000))
    assert len(late) == CALLERS_MAX and -9_001 in callers and -1 not in callers
    callers.received(StreamReceived(5_001, -9_001, pack_hello(HELLO)))
    flood = StreamReceived(5_002, -9_001, bytes(WAITING_BYTES_MAX))
    assert callers.received(flood) == (None, [CloseStream(-9_001)])


def test_a_stream_that_gave_up_is_forgotten() -> None:
    callers = Callers(1_000)
    callers.opened(opened(-1))
    callers.opened(opened(-2))
    callers.closed(-1)
    assert callers.drop_all() == [CloseStream(-2)] and -1 not in callers


def test_patience_counts_from_the_call() -> None:
    callers = Callers(1_000)
    assert callers.opened(opened(-1, at=9_000_000)) == []
    assert callers.opened(opened(-2, at=9_001_000)) == [] and -1 in callers
    assert callers.opened(opened(-3, at=9_001_001)) == [CloseStream(-1)]
