"""Streams between two shells, on both loops: order, bounds, closing without loss, and what nobody answers."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from isotone.core.addresses import split_address
from isotone.core.contract import Address, Event, StreamClosed, StreamOpened, StreamReceived, StreamWritable
from isotone.core.errors import LocalProtocolError, MachineError
from isotone.daemon import stream as stream_module
from isotone.daemon import streams as streams_module
from isotone.daemon.addresses import AddressBook, family_of
from isotone.daemon.streams import RECEIVE_BYTES, Streams, bind_tcp, bind_unix

DEADLINE_S = 20.0
DOOR = "door"


class End:
    """One process' streams, and all that it heard."""

    def __init__(self, *, streams_max: int = 100) -> None:
        self.heard: list[Event] = []
        self._news = asyncio.Event()
        self._time = 0
        loop = asyncio.get_running_loop()
        book = AddressBook(loop, family_of("127.0.0.1"))
        self.streams = Streams(loop, book, tell=self._tell, now=self._now, streams_max=streams_max)
        sock, self.address = bind_tcp("127.0.0.1", 0)
        self.streams.listen(sock, self.address, DOOR)

    def _now(self) -> int:
        self._time += 1
        return self._time

    def _tell(self, event: Event) -> None:
        self.heard.append(event)
        self._news.set()

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.heard if isinstance(event, kind)]

    def data(self, number: int) -> bytes:
        return b"".join(
            event.data for event in self.heard if isinstance(event, StreamReceived) and event.stream == number
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Coroutine[object, object, None]], None]:
    def run(main: Coroutine[object, object, None]) -> None:
        if request.param == "asyncio":
            asyncio.run(main)
            return
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)

    return run


Play = Callable[[Coroutine[object, object, None]], None]


async def opened() -> tuple[End, End]:
    here, there = End(), End()
    here.streams.open(0, there.address)
    await here.until(lambda: bool(here.of(StreamOpened)))
    await there.until(lambda: bool(there.of(StreamOpened)))
    assert here.heard == [StreamOpened(1, 0, there.address, accepted=False)]
    (accepted,) = there.of(StreamOpened)
    assert isinstance(accepted, StreamOpened) and accepted.accepted and accepted.stream == -1
    assert there.streams.by_number[-1].door == DOOR
    return here, there


def test_much_arrives_in_order_and_is_answered_when_it_is_taken(play: Play) -> None:
    async def main() -> None:
        here, there = await opened()
        parts = [bytes([place % 251]) * (place * 37 % 4_000) for place in range(3_000)]
        here.streams.write(0, parts)
        assert here.streams.waiting_bytes > 0 and not here.of(StreamWritable)
        whole = b"".join(parts)
        await there.until(lambda: len(there.data(-1)) == len(whole))
        await here.until(lambda: bool(here.of(StreamWritable)))
        assert there.data(-1) == whole and len(here.of(StreamWritable)) == 1
        here.streams.write(0, [b"small", memoryview(b"er")])
        assert len(here.of(StreamWritable)) == 2
        for end in (here, there):
            end.streams.close()

    play(main())


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_what_a_peer_sent_before_it_ended_without_reading_is_heard(play: Play, kind: str, tmp_path: Path) -> None:
    """It resets the stream, and the next write fails before its bytes are read."""

    async def main() -> None:
        there = End()
        if kind == "tcp":
            peer = socket.create_connection(split_address(there.address))
        else:
            there.streams.listen(*bind_unix(tmp_path / "socket"), DOOR)
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(str(tmp_path / "socket"))
        await there.until(lambda: bool(there.of(StreamOpened)))
        stream = there.streams.by_number[-1]
        assert isinstance(stream, stream_module.Stream)
        stream.pause_reading()
        sent = bytes(range(250)) * 100
        peer.sendall(sent)
        async with asyncio.timeout(DEADLINE_S):
            while waiting_bytes(stream._socket) < len(sent):
                await asyncio.sleep(0)
            there.streams.write(-1, [b"unread"])
            assert peer.recv(6, socket.MSG_PEEK) == b"unread"
            peer.close()
            while not stream._broken:
                there.streams.write(-1, [b"to nobody"])
                await asyncio.sleep(0)
        taken = len(there.of(StreamWritable))
        there.streams.gather(-1, [b"nobody waits for this"])
        assert len(there.of(StreamWritable)) == taken + 1 and not there.streams.waiting_bytes
        stream.resume_reading()
        await there.until(lambda: bool(there.of(StreamClosed)))
        assert there.data(-1) == sent and not there.streams.by_number
        there.streams.close()

    play(main())


def waiting_bytes(sock: socket.socket) -> int:
    """Received, and not read yet."""
    return int.from_bytes(fcntl.ioctl(sock, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_listener_has_room_for_what_is_sent_before_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = socket.socket()
    monkeypatch.setattr(streams_module.os, "geteuid", lambda: 1)
    monkeypatch.setattr(streams_module, "RECEIVE_LIMIT", tmp_path / "limit")
    (tmp_path / "limit").write_text("212992\n", encoding="ascii")
    small, _ = bind_tcp("127.0.0.1", 0)
    size = small.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert size == plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), "it grows by itself"
    (tmp_path / "limit").write_text(f"{RECEIVE_BYTES}\n", encoding="ascii")
    large, _ = bind_tcp("127.0.0.1", 0)
    assert large.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > size
    for sock in (plain, small, large):
        sock.close()


def test_closing_loses_nothing_and_both_hear_it(play: Play) -> None:
    async def main() -> None:
        here, there = await opened()
        there.streams.write(-1, [b"unread" * 10_000])
        here.streams.write(0, [b"x" * 3_000_000, b"last words"])
        here.streams.close_stream(0)
        here.streams.write(0, [b"too late"])
        await there.until(lambda: bool(there.of(StreamClosed)))
        assert len(there.data(-1)) == 3_000_010 and there.data(-1).endswith(b"last words")
        await here.until(lambda: bool(here.of(StreamClosed)))
        assert [event.reason for event in there.heard if isinstance(event, StreamClosed)] == ["closed by peer"]
        assert not here.streams.by_number and not there.streams.by_number
        for end in (here, there):
            end.streams.close()

    play(main())


def test_a_peer_that_does_not_close_is_left(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "LINGER_SECONDS", 0.01)
    monkeypatch.setattr(stream_module, "FLUSH_SECONDS", 0.01)

    async def leave(body: bytes) -> None:
        here, there = await opened()
        there.streams.by_number[-1].pause_reading()
        here.streams.write(0, [body])
        here.streams.close_stream(0)
        await here.until(lambda: bool(here.of(StreamClosed)))
        for end in (here, there):
            end.streams.close()

    async def main() -> None:
        await leave(b"read")
        await leave(b"never read" * 5_000_000)

    play(main())


def test_nobody_there_is_told(play: Play) -> None:
    async def main() -> None:
        here, there = End(), End()
        there.streams.close()
        here.streams.open(0, there.address)
        here.streams.open(1, Address("no such thing"))
        await here.until(lambda: len(here.of(StreamClosed)) == 2)
        reasons = {event.stream: event.reason for event in here.heard if isinstance(event, StreamClosed)}
        assert "refused" in reasons[0] and "no such address" in reasons[1]
        here.streams.open(2, there.address)
        here.streams.close_stream(2)
        await here.until(lambda: len(here.of(StreamClosed)) == 3)
        here.streams.write(0, [b"to nobody"])
        here.streams.close()

    play(main())


def test_a_reset_is_heard(play: Play) -> None:
    async def main() -> None:
        here, there = await opened()
        here.streams.write(0, [b"x" * 100_000])
        there.streams.close()
        await here.until(lambda: bool(here.of(StreamClosed)))
        here.streams.close()

    play(main())


def test_who_stands_still_goes_on_where_he_was(play: Play) -> None:
    async def main() -> None:
        here, there = await opened()
        here.streams.by_number[0].pause()
        here.streams.write(0, [b"held"])
        there.streams.write(-1, [b"not read"])
        assert not here.of(StreamWritable)
        here.streams.by_number[0].resume()
        await there.until(lambda: there.data(-1) == b"held")
        await here.until(lambda: here.data(0) == b"not read")
        assert len(here.of(StreamWritable)) == 1
        here.streams.by_number[0].pause_reading()
        there.streams.write(-1, [b", later"])
        here.streams.write(0, [b" and more"])
        await there.until(lambda: there.data(-1) == b"held and more")
        here.streams.by_number[0].resume_reading()
        await here.until(lambda: here.data(0) == b"not read, later")
        for end in (here, there):
            end.streams.close()

    play(main())


def test_small_writes_are_gathered_and_count_as_taken(play: Play) -> None:
    async def main() -> None:
        here, there = await opened()
        here.streams.gather(0, [b"an answer, "])
        here.streams.gather(0, [b"what it led to"])
        assert len(here.of(StreamWritable)) == 2 and here.streams.waiting_bytes > 0 and here.streams.gathering == 1
        here.streams.flush()
        assert here.streams.waiting_bytes == 0 == here.streams.gathering
        await there.until(lambda: there.data(-1) == b"an answer, what it led to")
        assert len(there.of(StreamReceived)) == 1, "in one call"
        here.streams.gather(0, [b"x" * (stream_module.GATHERED_BYTES_MAX + 1)])
        assert here.streams.waiting_bytes == 0, "much does not wait"
        here.streams.gather(0, [b"last words"])
        here.streams.close_stream(0)
        here.streams.flush()
        await there.until(lambda: there.data(-1).endswith(b"xlast words"))
        for end in (here, there):
            end.streams.close()

    play(main())


def test_who_reads_nothing_is_told_of_once(play: Play) -> None:
    async def main() -> None:
        here, there = await opened()
        there.streams.by_number[-1].pause_reading()
        here.streams.gather(0, [b"first"])
        while here.streams.by_number[0].gather([b"x" * 1_000_000]):
            pass
        told = len(here.of(StreamWritable))
        here.streams.flush()
        assert told == 1 and here.streams.waiting_bytes > 0
        there.streams.by_number[-1].resume_reading()
        await here.until(lambda: len(here.of(StreamWritable)) == 2)
        assert here.streams.waiting_bytes == 0
        for end in (here, there):
            end.streams.close()

    play(main())


def test_numbers_and_bounds() -> None:
    async def main() -> None:
        here, there = await opened()
        for number in (0, -5):
            with pytest.raises(LocalProtocolError, match="in use, or not for automata"):
                here.streams.open(number, there.address)
        there.streams.by_number[-1].pause_reading()
        with pytest.raises(LocalProtocolError, match="without waiting"):
            here.streams.write(0, [bytes(80 * 1024 * 1024)])
        for end in (here, there):
            end.streams.close()

    asyncio.run(main())


def test_a_socket_that_a_dead_process_left_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    first, address = bind_unix(path)
    assert address == f"unix:{path}"
    with pytest.raises(MachineError, match="Address already in use"):
        bind_unix(path)
    first.close()
    second, _ = bind_unix(path)
    second.close()


@pytest.mark.parametrize("size", [1, stream_module.READ_BYTES * stream_module.READS_MAX])
def test_a_stream_that_is_reset_behind_its_last_bytes_ends(play: Callable[..., None], size: int) -> None:
    async def main() -> None:
        server = End()
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(bytes(size))
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await server.until(lambda: bool(server.of(StreamClosed)))
        server.streams.close()

    play(main())
