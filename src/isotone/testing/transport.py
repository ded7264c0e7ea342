"""Transports over simulated streams: what an asyncio protocol knows from TCP, with the world in the place of a kernel.

Bytes are taken when the world's send buffer has room; until then they are counted, and above the high-water mark the
protocol is asked to pause. A protocol that pauses reading fills its window, and the daemon feels it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any

from isotone.core.contract import (
    Action,
    Address,
    Event,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
)
from isotone.sim.process import Lane
from isotone.sim.streams import Streams
from isotone.testing.errors import NotSimulated

HIGH_WATER = 64 * 1024


class Portal:
    """The automaton of a place where programs run: hands what streams do to their transports."""

    def __init__(self) -> None:
        self.transports: dict[int, StreamTransport] = {}
        self.opened = 0

    def handle(self, event: Event) -> list[Action]:
        """Nothing is to be done in the world: programs answer when the loop gets to them."""
        if not isinstance(event, StreamOpened | StreamReceived | StreamWritable | StreamClosed):
            return []
        transport = self.transports.get(event.stream)
        if transport is None:
            return []  # closed meanwhile
        match event:
            case StreamOpened():
                transport.on_opened()
            case StreamReceived(data=data):
                transport.on_received(bytes(data))
            case StreamWritable():
                transport.on_writable()
            case StreamClosed(reason=reason):
                transport.on_closed(reason)
        return []


class StreamTransport(asyncio.Transport):
    """One stream of one program."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Callable[[], asyncio.BaseProtocol],
        streams: Streams,
        lane: Lane,
        peer: tuple[str, int],
    ) -> None:
        super().__init__({"peername": peer})
        portal = lane.automaton
        assert isinstance(portal, Portal)
        self.opened: asyncio.Future[asyncio.Protocol] = loop.create_future()
        self._loop = loop
        self._factory = factory
        self._streams = streams
        self._lane = lane
        self._context: Context = copy_context()
        self._portal = portal
        self._protocol: asyncio.Protocol | None = None
        self._stream = portal.opened
        self._waiting: list[bytes] = []  # written by the program, not yet given to the world
        self._waiting_bytes = 0
        self._under_way = 0  # given to the world, which has no room for all of it yet
        self._unread: list[bytes] = []  # while the program does not read
        self._reading = True
        self._closing = False
        self._gone = False  # the stream no longer exists for the world
        self._lost = False  # the protocol was told, or is about to be
        self._ended = False  # the peer closed, and the program has not read up to there
        self._writing_paused = False
        self._low, self._high = HIGH_WATER // 4, HIGH_WATER
        portal.opened += 1
        portal.transports[self._stream] = self

    def open(self, address: Address) -> None:
        """Begin to connect."""
        self._streams.open(self._lane, self._stream, address)

    # --- from the world ----------------------------------------------------------------------------------------------

    def on_opened(self) -> None:
        """The daemon answered."""
        self._soon(self._begin)

    def _begin(self) -> None:
        if self._lost or self.opened.done():  # nobody waits any more
            self.abort()
            return
        protocol = self._factory()
        if not isinstance(protocol, asyncio.Protocol):
            self.abort()
            self.opened.set_exception(NotSimulated("simulated streams take an asyncio.Protocol, not a buffered one"))
            return
        self._protocol = protocol
        protocol.connection_made(self)
        self.opened.set_result(protocol)

    def on_received(self, data: bytes) -> None:
        """Bytes came."""
        self._soon(self._take, data)

    def _take(self, data: bytes) -> None:
        if self._closing:
            return
        self._unread.append(data)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._unread and self._reading and not self._closing:
            assert self._protocol is not None
            self._protocol.data_received(self._unread.pop(0))
        if self._ended and not self._unread and not self._closing:
            self._end()

    def on_writable(self) -> None:
        """The world took all that it was given."""
        self._under_way = 0
        if self._waiting:
            self._give()
        self._soon(self._resume_writing)
        if self._closing and not self._under_way:
            self._let_go()

    def on_closed(self, reason: str) -> None:
        """The stream is gone."""
        self._forget()
        if not self.opened.done() and self._protocol is None:
            self._soon(self._fail, _error(reason))
        elif reason.startswith("closed"):
            self._ended = True
            self._soon(self._hand_out)
        else:
            self._lose(_error(reason))

    def _fail(self, error: OSError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)

    def _end(self) -> None:
        assert self._protocol is not None
        self._ended = False
        self._protocol.eof_received()
        self._closing = True
        self._lose(None)

    def kill(self) -> None:
        """The program's process is dead; what is left of it in this loop finds the stream gone."""
        self._forget()
        error = ConnectionAbortedError("the program was killed")
        if self._protocol is None:
            self._soon(self._fail, error)
        self._lose(error)

    # --- reading -----------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        """Whether the protocol takes what comes."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """What comes stays in the window."""
        if self.is_reading():
            self._reading = False
            self._streams.hold(self._lane, self._stream)

    def resume_reading(self) -> None:
        """Take what waited, and read on."""
        if not self._reading and not self._closing:
            self._reading = True
            self._streams.release(self._lane, self._stream)
            self._soon(self._hand_out)

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes to send."""
        if not data or self._closing or self._gone:
            return
        self._waiting.append(bytes(data))
        self._waiting_bytes += len(data)
        if not self._under_way:
            self._give()
        if self.get_write_buffer_size() > self._high and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """As one write."""
        self.write(b"".join(list_of_data))

    def _give(self) -> None:
        data, self._waiting = self._waiting, []
        self._under_way, self._waiting_bytes = self._waiting_bytes, 0
        self._streams.write(self._lane, self._stream, data)

    def _resume_writing(self) -> None:
        if self._writing_paused and self.get_write_buffer_size() <= self._low and not self._lost:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Bytes that the world has not taken yet."""
        return self._waiting_bytes + self._under_way

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The low-water and the high-water mark."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the protocol is asked to pause, and to resume."""
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low, self._high = low, high

    def can_write_eof(self) -> bool:
        """No half-closed streams."""
        return False

    # --- the end ---------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Whether it is closed or on its way."""
        return self._closing

    def close(self) -> None:
        """Close when all that was written is taken."""
        if self._closing:
            return
        self._closing = True
        if self._gone:
            self._lose(None)
        elif not self._under_way:
            self._let_go()

    def _let_go(self) -> None:
        self._streams.close(self._lane, self._stream)
        self._forget()
        self._lose(None)

    def abort(self) -> None:
        """Break off at once; the daemon hears a reset."""
        self._closing = True
        if not self._gone:
            self._streams.abort(self._lane, self._stream)
            self._forget()
        self._lose(None)

    def break_off(self) -> None:
        """The stream breaks, as by a reset on the way: both ends hear it."""
        if not self._gone:
            self._streams.abort(self._lane, self._stream)
            self.on_closed("reset by peer")

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another one from now on."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def _forget(self) -> None:
        self._gone = True
        self._portal.transports.pop(self._stream, None)
        self._waiting, self._waiting_bytes, self._under_way = [], 0, 0

    def _lose(self, error: OSError | None) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self._soon(self._tell_lost, error)

    def _tell_lost(self, error: OSError | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def _soon(self, call: Callable[..., object], *arguments: Any) -> None:
        self._loop.call_soon(call, *arguments, context=self._context)


def _error(reason: str) -> OSError:
    if "refused" in reason:
        return ConnectionRefusedError(reason)
    if "timed out" in reason:
        return TimeoutError(reason)
    return ConnectionResetError(reason)
