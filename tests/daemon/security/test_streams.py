"""Streams under guard, by hand: two Guards and the bytes between them."""

from __future__ import annotations

import pytest

from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    Event,
    OpenStream,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.daemon.security import GuardSettings, Note, Outgoing, Pass, RosterChanged
from isotone.daemon.security.noise import Cipher
from isotone.daemon.security.records import MAGIC, PIECE_BYTES_MAX, REKEY_EVERY, Reader, sealed_records
from isotone.evs.links.tcp.wire import Hello, pack_hello
from tests.daemon.security.guarded import key_of, roster_of
from tests.daemon.security.wire import End

OUT, IN = 3, -1
GREETING = pack_hello(Hello("a", 7))


class Pipe:
    """One stream that ``a`` opens to ``b``; each byte goes alone if ``slowly``."""

    def __init__(self, one: End, other: End, *, slowly: bool = False) -> None:
        self.ends = {OUT: one, IN: other}
        self.closed: set[int] = set()
        self._slowly = slowly
        self.bytes: list[bytes] = []

    def open(self) -> None:
        self.give(OUT, OpenStream(OUT, Address("b")))
        self.tell(IN, StreamOpened(1, IN, Address("a:9"), True))
        self.tell(OUT, StreamOpened(1, OUT, Address("b"), False))

    def give(self, side: int, action: Action) -> None:
        self.tell(side, Outgoing(1, [action]))

    def write(self, side: int, *data: bytes) -> None:
        self.give(side, WriteStream(side, data))

    def tell(self, side: int, event: Event) -> None:
        end = self.ends[side]
        for action in end.guard.handle(event):
            match action:
                case Pass(event=passed):
                    end.passed.append(passed)
                case Note():
                    end.notes.append(action)
                case WriteStream(data=data):
                    self._carry(OUT + IN - side, b"".join(data))
                case CloseStream():
                    self.closed.add(side)

    def _carry(self, side: int, data: bytes) -> None:
        self.bytes.append(data)
        for piece in (data[place : place + 1] for place in range(len(data))) if self._slowly else [data]:
            if side not in self.closed:
                self.tell(side, StreamReceived(1, side, piece))


def ends(*, key_seed: str = "key") -> tuple[End, End]:
    return End("a", roster_of("a", "b"), key=key_of("a", key_seed)), End("b", roster_of("a", "b"))


def heard(end: End) -> bytes:
    return b"".join(bytes(event.data) for event in end.passed if isinstance(event, StreamReceived))


@pytest.mark.parametrize("slowly", [False, True])
def test_both_ends_hear_of_a_stream_when_it_is_trusted(slowly: bool) -> None:
    one, other = ends()
    pipe = Pipe(one, other, slowly=slowly)
    pipe.open()
    assert one.passed == [StreamOpened(1, OUT, Address("b"), False)]
    assert other.passed == [StreamOpened(1, IN, Address("a:9"), True)]
    pipe.write(OUT, GREETING, b"hello " * 3)
    pipe.write(IN, b"welcome")
    assert heard(other) == GREETING + b"hello " * 3 and heard(one) == b"welcome"
    assert not any(b"hello" in data or b"welcome" in data for data in pipe.bytes)
    assert not pipe.closed


def test_large_writes_are_cut_into_records_and_joined_again() -> None:
    one, other = ends()
    pipe = Pipe(one, other)
    pipe.open()
    other.passed.clear()
    body = GREETING + bytes(range(256)) * 1000
    pipe.write(OUT, body)
    assert heard(other) == body and len(other.passed) == 1
    assert len(pipe.bytes[-1]) == len(body) + 18 * -(-len(body) // PIECE_BYTES_MAX)


def test_writable_is_told_for_the_daemons_own_writes_only() -> None:
    one, other = ends()
    pipe = Pipe(one, other)
    pipe.open()
    one.passed.clear()
    pipe.tell(OUT, StreamWritable(1, OUT))
    assert not one.passed
    pipe.write(OUT, GREETING)
    pipe.tell(OUT, StreamWritable(1, OUT))
    assert one.passed == [StreamWritable(1, OUT)]


def test_the_end_of_a_stream_is_passed_on() -> None:
    one, other = ends()
    pipe = Pipe(one, other)
    pipe.open()
    closed = StreamClosed(1, IN, "closed by peer")
    pipe.tell(IN, closed)
    assert other.passed[-1] == closed
    refused = StreamClosed(1, OUT, "connection refused")
    fresh = Pipe(*ends())
    fresh.give(OUT, OpenStream(OUT, Address("b")))
    fresh.tell(OUT, refused)
    assert fresh.ends[OUT].passed == [refused], "also if it never opened"


def test_clients_pass_untouched() -> None:
    other = ends()[1]
    pipe = Pipe(ends()[0], other)
    pipe.tell(IN, StreamOpened(1, IN, Address("client:1"), True))
    pipe.tell(IN, StreamReceived(1, IN, b"IS"))
    assert not other.passed
    pipe.tell(IN, StreamReceived(1, IN, b"OC and more"))
    assert other.passed == [
        StreamOpened(1, IN, Address("client:1"), True),
        StreamReceived(1, IN, b"ISOC and more"),
    ]
    pipe.tell(IN, StreamReceived(1, IN, b"!"))
    pipe.tell(IN, StreamWritable(1, IN))
    assert other.passed[-1] == StreamWritable(1, IN) and heard(other) == b"ISOC and more!"
    pipe.write(IN, b"answer")
    assert pipe.bytes == [b"answer"]


def refusal(end: End, pipe: Pipe, side: int) -> list[str]:
    assert side in pipe.closed
    assert len(end.notes) == 1
    return list(end.refused)


def test_a_link_in_clear_is_refused() -> None:
    other = ends()[1]
    pipe = Pipe(ends()[0], other)
    pipe.tell(IN, StreamOpened(1, IN, Address("a:9"), True))
    pipe.tell(IN, StreamReceived(1, IN, GREETING))
    assert refusal(other, pipe, IN) == ["not sealed"] and not other.passed


def test_a_wrong_key_is_refused_before_the_daemon_hears_of_it() -> None:
    one, other = ends(key_seed="another")
    pipe = Pipe(one, other)
    pipe.open()
    assert refusal(other, pipe, IN) == ["wrong key"] and not other.passed


def test_a_wrong_answerer_is_refused() -> None:
    one, other = End("a", roster_of("a", "b")), End("b", roster_of("a", "b"), key=key_of("b", "another"))
    pipe = Pipe(one, other)
    pipe.open()
    assert refusal(one, pipe, OUT) == ["wrong key"]
    assert one.passed == [StreamClosed(1, OUT, "wrong key")], "the link that opened it has to know"


def test_a_greeting_in_another_name_is_refused() -> None:
    one, other = ends()
    pipe = Pipe(one, other)
    pipe.open()
    pipe.write(OUT, pack_hello(Hello("c", 7)))
    assert refusal(other, pipe, IN) == ["name of another"]
    assert not heard(other) and isinstance(other.passed[-1], StreamClosed)


def test_a_changed_record_ends_the_stream() -> None:
    one, other = ends()
    pipe = Pipe(one, other)
    pipe.open()
    other.passed.clear()
    pipe.ends[IN] = End("nobody", roster_of("a", "b"))
    pipe.write(OUT, GREETING)
    pipe.ends[IN] = other
    pipe.tell(IN, StreamReceived(1, IN, pipe.bytes[-1][:-1] + b"?"))
    assert refusal(other, pipe, IN) == ["not authentic"]
    assert other.passed == [StreamClosed(1, IN, "not authentic")]
    pipe.tell(IN, StreamReceived(1, IN, pipe.bytes[-1]))
    pipe.tell(IN, StreamClosed(1, IN, "closed"))
    assert len(other.passed) == 1, "nothing more of it"


def test_a_replayed_handshake_leads_nowhere() -> None:
    one, other = ends()
    first = Pipe(one, other)
    first.open()
    from_one = [data for data in first.bytes if data.startswith(MAGIC) or len(data) > 100]
    other.passed.clear()
    pipe = Pipe(one, other)
    pipe.tell(IN, StreamOpened(1, IN, Address("eve:1"), True))
    for data in (from_one[0], from_one[-1]):
        pipe.tell(IN, StreamReceived(1, IN, data))
    assert refusal(other, pipe, IN) == ["not authentic"] and not other.passed


def test_a_revoked_daemon_loses_its_streams() -> None:
    one, other = ends()
    pipe = Pipe(one, other)
    pipe.open()
    pipe.tell(IN, RosterChanged(1, roster_of("b")))
    assert refusal(other, pipe, IN) == ["unknown daemon"]
    assert other.passed[-1] == StreamClosed(1, IN, "unknown daemon")


def test_streams_that_say_nothing_are_few_and_short_lived() -> None:
    settings = GuardSettings(streams_max=4, stream_us=1_000)
    end = End("b", roster_of("a", "b"), settings=settings)
    closed = []
    for number in range(10):
        actions = end.guard.handle(StreamOpened(number, -1 - number, Address("eve:1"), True))
        closed += [action.stream for action in actions if isinstance(action, CloseStream)]
    assert closed == [-1, -2, -3, -4, -5, -6]
    actions = end.guard.handle(StreamOpened(5_000, -100, Address("eve:1"), True))
    assert [action.stream for action in actions if isinstance(action, CloseStream)] == [-7, -8, -9, -10]
    assert end.refused == {"handshake not finished": 10}


def test_records_go_on_with_other_keys_after_a_while() -> None:
    send, receive, reader = Cipher(b"k" * 32), Cipher(b"k" * 32), Reader()
    reader.cipher = receive
    send.counter = receive.counter = REKEY_EVERY - 2
    for number in range(5):
        reader.add(b"".join(sealed_records(send, [bytes([number])])))
    assert reader.opened() == bytes(range(5))
    assert send._key == receive._key != b"k" * 32
