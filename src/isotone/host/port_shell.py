"""Streams and timers around one end of a log's port, on an asyncio loop.

`handle` is never called while actions are carried out: what they cause waits its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from isotone.client.streams import Stream, Told
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.host.liveness import notice_loss

log = logging.getLogger("isotone.replica")

US = 1_000_000


class PortStream(Stream):
    """One connection; the kernel looks whether the other machine is there."""

    closed_there = "the stream broke"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        sock = transport.get_extra_info("socket")
        if sock is not None:
            notice_loss(sock)
        if not self.address:  # it was opened from elsewhere
            peer = transport.get_extra_info("peername")
            self.address = Address(f"{peer[0]}:{peer[1]}" if peer else "")
        super().connection_made(transport)


class PortShell:
    """On the running loop. ``perform`` carries out what is neither of streams nor of timers."""

    def __init__(self, automaton: Automaton, perform: Callable[[Action], None]) -> None:
        self.streams: dict[int, PortStream] = {}
        self._automaton, self._perform_other = automaton, perform
        self._loop = asyncio.get_running_loop()
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._waiting: deque[Event] = deque()
        self._is_running = False
        self._last_at = 0
        self._accepted = 0
        self._idle: asyncio.Future[None] | None = None  # who waits until all streams are gone
        self._told = Told(
            opened=self._on_opened,
            received=lambda number, data: self.hand(StreamReceived(self.now(), number, data)),
            writable=lambda number: self.hand(StreamWritable(self.now(), number)),
            closed=lambda number, reason: self.hand(StreamClosed(self.now(), number, reason)),
            refused=lambda number, code, reason: None,
            impossible=self._on_impossible,
            gone=self._on_gone,
        )

    def now(self) -> int:
        """Microseconds; never less than before."""
        self._last_at = max(self._last_at, int(self._loop.time() * US))
        return self._last_at

    def hand(self, event: Event) -> None:
        """An event, at once or when its turn comes."""
        self._waiting.append(event)
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._waiting:
                for action in self._automaton.handle(self._waiting.popleft()):
                    self._perform(action)
        finally:
            self._is_running = False

    def accept(self) -> PortStream:
        """For a listener: somebody called."""
        self._accepted -= 1
        stream = self.streams[self._accepted] = PortStream(self._accepted, self._loop, self._told)
        return stream

    def shut(self) -> None:
        """No timer any more; streams close when what was written left."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def gone(self) -> None:
        """Until all streams are."""
        while self.streams:
            self._idle = self._idle or self._loop.create_future()
            await asyncio.shield(self._idle)

    def _perform(self, action: Action) -> None:
        match action:
            case WriteStream(stream=number, data=data):
                if (stream := self.streams.get(number)) is not None:
                    stream.write(data)
            case SetTimer(key=key, after_us=after_us):
                self._cancel(key)
                due = self.now() + after_us
                self._timers[key] = self._loop.call_later(after_us / US, self._on_timer, key, due)
            case CancelTimer(key=key):
                self._cancel(key)
            case OpenStream(stream=number, destination=destination):
                stream = self.streams[number] = PortStream(number, self._loop, self._told)
                stream.open(destination, None, "")
            case CloseStream(stream=number):
                if (stream := self.streams.get(number)) is not None:
                    stream.close()
            case _:
                self._perform_other(action)

    def _cancel(self, key: TimerKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _on_timer(self, key: TimerKey, due: int) -> None:
        """Loops round: a timer never fires before its time here."""
        del self._timers[key]
        self._last_at = max(self._last_at, due)
        self.hand(TimerFired(self.now(), key))

    def _on_opened(self, number: int) -> None:
        self.hand(StreamOpened(self.now(), number, self.streams[number].address, number < 0))

    def _on_impossible(self, error: BaseException) -> None:
        log.error("no stream can be opened: %s", error)

    def _on_gone(self, number: int) -> None:
        self.streams.pop(number, None)
        if not self.streams and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
