"""A client of the log's port keeps its time itself: a server that is stopped, or gone, says nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from isotone.core.errors import LocalProtocolError, MachineError
from isotone.host import log_port
from isotone.host import log_wire as wire
from isotone.host.answers import Maybe, NotYet, Refused
from isotone.host.deadline import NO_DEADLINE, Deadline
from isotone.host.host import ROOM_BYTES
from isotone.host.log_client import AGAIN_MAX_S, Pauses, RemoteLog
from isotone.host.log_port import LogPort
from isotone.host.log_stream import RECORD_BYTES_MAX, TURN_BYTES_MAX, Stream
from isotone.host.pulse import GIVE_UP_AT
from tests.host.replicas import replicas, run
from tests.passing_time import pass_time

SOON_S = 0.01
LONG_S = 3600.0
CONNECT_S = 50.0


class Silent(asyncio.Protocol):
    """A server whose process is stopped: its kernel takes what comes, and nobody answers any more."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._words:
            transport.write(wire.framed(wire.Welcome(wire.VERSION, "stopped")))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)


@asynccontextmanager
async def stopped(words: int = 1) -> AsyncIterator[tuple[str, list[Silent]]]:
    """Its address, and who came; it says so many words before."""
    came: list[Silent] = []

    def one() -> Silent:
        came.append(Silent(words))
        return came[-1]

    server = await asyncio.get_running_loop().create_server(one, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    server.close()


def client(*addresses: str) -> RemoteLog:
    log = RemoteLog(addresses)
    log.connect_within_s, log.grace_s = 3600.0, SOON_S
    return log


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda log: log.append(b"x", within_s=SOON_S), Maybe),
        (lambda log: log.wait_for(7, within_s=SOON_S), NotYet),
        (lambda log: log.reconfigure(remove="a", within_s=SOON_S), Maybe),
    ],
    ids=["append", "wait_for", "reconfigure"],
)
def test_a_deadline_is_kept_at_a_server_that_is_stopped(
    tmp_path: Path, call: Callable[[RemoteLog], AsyncIterator[None]], answer: type[Exception]
) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group, stopped() as (address, came):
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            async with client(address, port.address) as log:
                assert log.server == "stopped"
                with pytest.raises(answer, match="did not answer in time"):
                    await call(log)
                await came[0].lost  # who says nothing is left
                assert await log.append(b"elsewhere") == 1 and log.server == "a"
            await port.stop()

    run(main)


async def _first_of_the_log(log: RemoteLog) -> None:
    async with aclosing(log.follow(1)) as entries:
        assert (await anext(entries)).record == b"first"


async def _end_of_the_log(log: RemoteLog) -> None:
    assert await log.end() == 1


async def _another_record(log: RemoteLog) -> None:
    with pytest.raises(Maybe, match="did not answer in time"):
        await log.append(b"nobody knows")
    assert await log.append(b"elsewhere") == 2


@pytest.mark.parametrize("call", [_first_of_the_log, _end_of_the_log, _another_record])
def test_a_server_that_is_stopped_is_left_also_without_a_deadline(
    tmp_path: Path, call: Callable[[RemoteLog], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group, stopped() as (address, came):
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            await group.logs["a"].append(b"first")
            log = RemoteLog((address, port.address))
            log.connect_within_s, log.look_every_s = LONG_S, SOON_S
            async with log:
                log.look_every_s = LONG_S  # at the server that answers
                await call(log)
                await came[0].lost
                assert log.server == "a" and len(came) == 1
            await port.stop()

    run(main)


def test_a_server_that_has_nothing_to_say_yet_is_asked_and_not_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            log = RemoteLog(port.address)
            log.look_every_s = LONG_S
            async with log:
                waiting = asyncio.create_task(log.wait_for(1))
                stream = log._stream
                assert stream is not None
                while not stream._answers:
                    await asyncio.sleep(0)
                for _ in range(GIVE_UP_AT - 1):
                    stream._pulse._look()
                while stream._pulse._looks:  # until it answers
                    await asyncio.sleep(0)
                assert stream.is_open and not waiting.done()
                await log.append(b"x")
                await waiting
                assert log._stream is stream
            await port.stop()

    run(main)


def test_a_server_that_reads_no_more_says_that_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client could not ask it."""
    monkeypatch.setattr(log_port, "OPEN_APPENDS_MAX", 0)

    async def main() -> None:
        async with replicas(tmp_path) as group:
            port = LogPort(group.logs["a"], alive_every_s=SOON_S)
            await port.start("127.0.0.1", 0)
            await group.stop("b", "c")
            log = RemoteLog(port.address)
            log.look_every_s = LONG_S
            async with log:
                appending = asyncio.create_task(log.append(b"in a minority", within_s=LONG_S))
                stream = log._stream
                assert stream is not None
                while not stream._answers:
                    await asyncio.sleep(0)
                for _ in range(2):
                    for _ in range(GIVE_UP_AT - 1):
                        stream._pulse._look()
                    while stream._pulse._looks:
                        await asyncio.sleep(0)
                (connection,) = port.connections
                assert connection._alive is not None and not appending.done()
                appending.cancel()
                await asyncio.wait([appending])
            await port.stop()

    run(main)


def test_whoever_else_waits_there_hears_it_and_one_that_answers_is_not_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with stopped() as (address, _), client(address) as log:
            waiting = asyncio.create_task(log.append(b"without a deadline"))
            with pytest.raises(Maybe):
                await log.append(b"with one", within_s=SOON_S)
            with pytest.raises(Maybe, match="did not answer in time"):
                await waiting
        async with replicas(tmp_path) as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            await group.stop("b", "c")
            server = group.logs["a"]
            await server.until(lambda: "No quorum" in server.why_no_primary())
            async with RemoteLog(port.address) as log:
                stream = log._stream
                log.grace_s = 3600.0
                with pytest.raises(Maybe, match="No quorum"):
                    await log.append(b"in a minority", within_s=SOON_S)
                assert log._stream is stream
            await port.stop()

    run(main)


def test_one_that_takes_no_more_but_speaks_is_not_left_and_the_record_was_not_sent() -> None:
    async def main() -> None:
        async with stopped() as (address, _), client(address) as log:
            stream = log._stream
            assert stream is not None
            stream.pause_writing()
            log.grace_s = 3600.0  # so long ago it said its last word
            with pytest.raises(MachineError, match="the record was not sent"):
                await log.append(b"x", within_s=SOON_S)
            assert log._stream is stream
            log.grace_s = 0.0
            with pytest.raises(MachineError, match="the record was not sent"):
                await log.append(b"x", within_s=SOON_S)
            assert not stream.is_open

    run(main)


def test_connecting_counts_and_every_address_has_its_share(tmp_path: Path) -> None:
    """The first accepts the connection and says nothing."""

    async def main() -> None:
        async with replicas(tmp_path, "a") as group, stopped(0) as (address, came):
            log = client(address)
            with pytest.raises(MachineError, match="no server of the log answers"):
                await log.append(b"not sent", within_s=SOON_S)
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            log, before = client(address, port.address), len(came)
            log.connect_within_s = CONNECT_S
            connecting = asyncio.ensure_future(log.append(b"x"))
            while len(came) == before:
                await asyncio.sleep(0)
            pass_time(CONNECT_S / 2)
            assert await connecting == 1 and log.server == "a"
            assert group.records("a") == [b"x"]
            await log.close()
            await port.stop()

    run(main)


def test_the_kernel_looks_for_a_machine_that_is_gone() -> None:
    async def main() -> None:
        async with stopped() as (address, _), client(address) as log:
            assert log._stream is not None
            sock = log._stream._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert 0 < sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
            assert 0 < sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 60_000

    run(main)


def test_waiting_for_room_at_the_server_counts_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            log.host.service.waiting_bytes += ROOM_BYTES
            with pytest.raises(Refused, match="no room"):
                await log.append(b"x", within_s=SOON_S)
            log.host.service.waiting_bytes -= ROOM_BYTES
            assert await log.append(b"y", within_s=3600.0) == 1

    run(main)


class Written(asyncio.Transport):
    """Keeps the frames that go out."""

    def __init__(self) -> None:
        super().__init__({"socket": socket.socket()})
        self.frames: list[wire.ClientFrame] = []
        self._stream: wire.Frames[wire.ClientFrame] = wire.Frames(wire.CLIENT_FRAMES)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.frames += self._stream.feed(bytes(data))


def test_appends_of_one_turn_fit_into_frames_that_the_server_takes() -> None:
    """40 MiB in one turn: above the limit of a frame, and each of them is numbered where its frame says."""

    async def main() -> None:
        stream, written = Stream(), Written()
        stream.connection_made(written)
        record = bytes(1024 * 1024)
        appends = [asyncio.ensure_future(stream.append(record, NO_DEADLINE)) for _ in range(40)]
        large = asyncio.ensure_future(stream.append(bytes(2 * TURN_BYTES_MAX), NO_DEADLINE))
        while len(written.frames) < 11:
            await asyncio.sleep(0)
        told = [(each.request, len(each.records)) for each in written.frames if isinstance(each, wire.AppendMany)]
        assert told == [*((1 + 4 * number, 4) for number in range(10)), (41, 1)]
        with pytest.raises(Refused, match="a record of 33554432 bytes"):
            await stream.append(bytes(wire.FRAME_BYTES_MAX), NO_DEADLINE)
        largest = asyncio.ensure_future(stream.append(bytes(RECORD_BYTES_MAX), NO_DEADLINE))
        while len(written.frames) < 12:
            await asyncio.sleep(0)
        for each in (*appends, large, largest):
            each.cancel()
        written.get_extra_info("socket").close()

    run(main)


@pytest.mark.parametrize("way", ["ask", "follow"])
def test_who_breaks_a_rule_hears_so_once_and_does_not_ask_again(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as log:
                asked = log._ask(lambda request: wire.ReadRange(request, -1, 1))
                followed = log._followed(lambda request: wire.Follow(request, -5, 1))
                with pytest.raises(LocalProtocolError, match="the server ended the connection: not a frame: Expected"):
                    await (asked if way == "ask" else anext(followed))
                asked.close()
                assert caplog.text.count("a client is dropped") == 1
                assert await log.append(b"x") == 1
            await port.stop()

    run(main)


@pytest.mark.parametrize("way", ["ask", "follow"])
def test_a_server_that_hangs_up_is_asked_again_after_a_pause_that_grows(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection, and ends it at the first question."""
    pauses: list[float] = []

    async def wait(self: Pauses, deadline: Deadline = NO_DEADLINE) -> None:
        pauses.append(self.next_s)
        self.next_s = min(2 * self.next_s, AGAIN_MAX_S)
        if len(pauses) == 7:
            raise LocalProtocolError("enough")

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.framed(wire.Welcome(wire.VERSION, "a")))
        hello = wire.framed(wire.Hello(wire.VERSION, "client"))
        await reader.readexactly(len(hello) + 1)
        writer.close()

    async def main() -> None:
        monkeypatch.setattr(Pauses, "wait", wait)
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        log = RemoteLog(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(LocalProtocolError, match="enough"):
            await (log.end() if way == "ask" else anext(log.follow(1)))
        assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        server.close()

    run(main)
