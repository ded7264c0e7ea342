"""Transports over simulated streams, against an automaton that listens at the other end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from isotone.core.contract import (
    Action,
    CloseStream,
    Event,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.testing import NotSimulated, run
from isotone.testing.loop import VirtualLoop
from isotone.testing.places import Places
from tests.testing.virtual import pause

T = TypeVar("T")
MIB = 1024 * 1024


class Peer:
    """Says back what it hears; ``bye`` closes, ``flood`` begins to write without end, as long as it is taken."""

    def __init__(self) -> None:
        self.heard = b""
        self.written = 0
        self.flooding = False
        self.closed: list[str] = []

    def handle(self, event: Event) -> list[Action]:
        match event:
            case StreamOpened():
                return []
            case StreamReceived(stream=stream, data=data):
                self.heard += bytes(data)
                if data == b"bye":
                    return [WriteStream(stream, [b"farewell"]), CloseStream(stream)]
                if data == b"flood":
                    self.flooding = True
                    return self._more(stream)
                return [WriteStream(stream, [data])]
            case StreamWritable(stream=stream) if self.flooding:
                return self._more(stream)
            case StreamClosed(reason=reason):
                self.flooding = False
                self.closed.append(reason)
        return []

    def _more(self, stream: int) -> list[Action]:
        self.written += 65_536
        return [WriteStream(stream, [bytes(65_536)])]


class Ear(asyncio.Protocol):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.diary: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.diary.append("made")

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> None:
        self.diary.append("eof")

    def connection_lost(self, error: Exception | None) -> None:
        self.diary.append("lost")
        self.lost.set_result(error)

    def pause_writing(self) -> None:
        self.diary.append("pause")

    def resume_writing(self) -> None:
        self.diary.append("resume")


def play(main: Callable[[World, Peer], Awaitable[T]]) -> T:
    async def inside() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        peer = Peer()
        world = World(seed=1)

        def program(boot: Boot) -> dict[str, Peer]:
            return {"service": peer}

        world.add_process("d1", program, address="d1:4803")
        loop.enter(world, Places(world, {"d1": "lan"}))
        try:
            return await main(world, peer)
        finally:
            loop.leave()

    return run(inside)


async def opened() -> tuple[asyncio.Transport, Ear]:
    return await asyncio.get_running_loop().create_connection(Ear, "d1", 4803)


def test_bytes_go_there_and_back() -> None:
    async def main(world: World, peer: Peer) -> None:
        transport, ear = await opened()
        transport.writelines([b"hello", bytearray(b" "), memoryview(b"world")])
        await pause(0.01)
        assert ear.heard == b"hello world"
        assert transport.get_extra_info("peername") == ("d1", 4803)
        assert transport.get_protocol() is ear

    play(main)


def test_the_peer_closes() -> None:
    async def main(world: World, peer: Peer) -> None:
        transport, ear = await opened()
        transport.write(b"bye")
        assert await ear.lost is None
        assert ear.heard == b"farewell"
        assert ear.diary == ["made", "eof", "lost"]
        assert transport.is_closing()
        transport.write(b"into the void")

    play(main)


def test_closing_writes_first_what_waits_and_aborting_does_not() -> None:
    async def main(world: World, peer: Peer) -> None:
        transport, ear = await opened()
        transport.write(b"x" * 3 * MIB)
        transport.close()
        transport.write(b"too late")
        assert await ear.lost is None
        await pause(5)
        assert len(peer.heard) == 3 * MIB
        assert peer.closed == ["closed by peer"]
        transport, ear = await opened()
        transport.write(b"x" * 3 * MIB)
        transport.abort()
        assert await ear.lost is None
        await pause(5)
        assert len(peer.heard) < 4 * MIB
        assert peer.closed[1:] == ["reset by peer"]

    play(main)


def test_a_writer_is_asked_to_pause_above_its_mark() -> None:
    async def main(world: World, peer: Peer) -> None:
        transport, ear = await opened()
        transport.write(b"x" * 2 * MIB)
        assert transport.get_write_buffer_size() == 2 * MIB
        assert ear.diary == ["made", "pause"]
        await pause(5)
        assert ear.diary == ["made", "pause", "resume"]
        assert transport.get_write_buffer_size() == 0
        transport.set_write_buffer_limits(high=0)
        assert transport.get_write_buffer_limits() == (0, 0)
        transport.write(b"x")
        assert ear.diary[-1] == "pause"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ear.diary[-1] == "resume"

    play(main)


def test_a_reader_that_does_not_read_holds_its_peer() -> None:
    async def main(world: World, peer: Peer) -> None:
        transport, ear = await opened()
        transport.write(b"flood")
        transport.pause_reading()
        assert not transport.is_reading()
        await pause(20)
        held = peer.written
        assert not ear.heard and held < 2 * MIB  # the window of one end and the buffer of the other
        await pause(20)
        assert peer.written == held
        transport.resume_reading()
        await pause(0.02)
        assert len(ear.heard) > 2 * MIB and peer.written > held
        transport.close()

    play(main)


def test_what_came_before_the_end_is_read_before_it() -> None:
    async def main(world: World, peer: Peer) -> None:
        transport, ear = await opened()
        transport.pause_reading()
        transport.write(b"bye")
        await pause(1)
        assert ear.diary == ["made"]
        transport.resume_reading()
        await ear.lost
        assert ear.heard == b"farewell"

    play(main)


def test_nobody_is_there() -> None:
    async def main(world: World, peer: Peer) -> None:
        world.crash("d1")
        with pytest.raises(ConnectionRefusedError):
            await opened()
        world.restart("d1")
        await opened()
        world.cut("d1", "d1.local")
        with pytest.raises(TimeoutError):
            await opened()

    play(main)


def test_a_crash_is_heard_as_a_reset() -> None:
    async def main(world: World, peer: Peer) -> None:
        _, ear = await opened()
        world.crash("d1")
        assert isinstance(await ear.lost, ConnectionResetError)
        assert ear.diary == ["made", "lost"]

    play(main)


def test_nobody_waits_for_the_connection_any_more() -> None:
    async def main(world: World, peer: Peer) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1e-5):
                await opened()
        await pause(1)
        await opened()
        await pause(1)
        assert not peer.heard

    play(main)


def test_what_streams_cannot_do_is_refused() -> None:
    async def main(world: World, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotSimulated, match="no TLS"):
            await loop.create_connection(Ear, "d1", 4803, ssl=True)
        with pytest.raises(NotSimulated, match="buffered"):
            await loop.create_connection(asyncio.BufferedProtocol, "d1", 4803)
        transport, _ = await opened()
        assert not transport.can_write_eof()
        with pytest.raises(ValueError, match="high"):
            transport.set_write_buffer_limits(high=1, low=2)

    play(main)
