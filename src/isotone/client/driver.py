"""The shell of one session: carries out what a `ClientSession` returns, on an asyncio loop.

Streams are asyncio transports, timers those of the loop, time is the loop's. `handle` is never called while actions are
carried out: what they cause waits its turn.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Protocol

from isotone.client.streams import Loop, Stream, Told
from isotone.core import boundary as b4
from isotone.core.contract import (
    Action,
    Address,
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
from isotone.core.errors import LocalProtocolError
from isotone.evs.sessions import notices
from isotone.evs.sessions.client_session import ClientSession, Life


class Listener(Protocol):
    """Who hears what a session says."""

    def on_indication(self, indication: b4.Indication) -> None:
        """At boundary B4."""

    def on_notice(self, notice: notices.Notice) -> None:
        """About itself."""

    def on_turn(self) -> None:
        """All of one turn was said."""

    def on_refused(self, address: Address, code: str, reason: str) -> None:
        """The certificate or TLS of one end is nothing for the other, or nobody listens there."""

    def on_impossible(self, error: BaseException) -> None:
        """No stream can ever be opened there."""

    def on_broken(self, error: Exception) -> None:
        """A bug of ours: the state can no longer be trusted."""


class Driver:
    """One session and its world."""

    def __init__(
        self, session: ClientSession, listener: Listener, loop: Loop, *, tls: ssl.SSLContext | None, server_name: str
    ) -> None:
        self.session = session
        self._listener = listener
        self._loop = loop
        self._tls = tls
        self._server_name = server_name
        self._told = Told(
            opened=self._on_opened,
            received=self._on_received,
            writable=self._on_writable,
            closed=self._on_closed,
            refused=self._on_refused,
            impossible=self._on_impossible,
            gone=self._on_gone,
        )
        self._streams: dict[int, Stream] = {}
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._waiting: deque[Event] = deque()
        self._running = False
        self._shut = False
        self._paused = False
        self._last_at = 0
        self._idle: list[asyncio.Future[None]] = []  # who waits until all streams are gone

    # --- what its owner does ---------------------------------------------------------------------------------------

    def now(self) -> int:
        """Microseconds; never less than before."""
        self._last_at = max(self._last_at, int(self._loop.time() * 1_000_000))
        return self._last_at

    @property
    def is_closing(self) -> bool:
        """Whether there are streams that are not gone yet."""
        return bool(self._streams)

    def ask(self, request: b4.Request) -> None:
        """A request, or the error that the caller made."""
        self.hand(b4.Requested(self.now(), self.session.client, request))

    def hand(self, event: Event) -> None:
        """An event for the session, at once or when its turn comes; at once, errors of the caller come back."""
        if self._shut:
            return
        if self._running:
            self._waiting.append(event)
        else:
            self._run(event)

    def pause(self, paused: bool) -> None:
        """Read nothing more from the daemon for now, or read again."""
        if paused == self._paused or self._shut:
            return
        self._paused = paused
        if not paused:
            self._pause_streams(False)
        self.hand(notices.ReadingPaused(self.now()) if paused else notices.ReadingResumed(self.now()))

    def _pause_streams(self, paused: bool) -> None:
        for stream in self._streams.values():
            stream.pause(paused)

    def shut(self) -> None:
        """Nothing happens any more; streams that are not closed yet are cut."""
        self._shut = True
        self._waiting.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for stream in list(self._streams.values()):
            stream.abort()

    async def gone(self) -> None:
        """Wait until all streams are gone."""
        while self._streams:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    # --- turns -----------------------------------------------------------------------------------------------------

    def _run(self, event: Event) -> None:
        self._running = True
        try:
            actions = self.session.handle(event)
        except LocalProtocolError:
            self._running = False
            raise
        except Exception as error:
            self._fail(error)
            return
        try:
            self._perform(actions)
            while self._waiting:
                self._take(self._waiting.popleft())
            self._listener.on_turn()
            if self._paused and self.session.is_connected:
                self._pause_streams(True)  # not before: what opens a session must be read
        except Exception as error:
            self._fail(error)
            return
        self._running = False
        if self._waiting:
            self._run(self._waiting.popleft())

    def _take(self, event: Event) -> None:
        try:
            actions = self.session.handle(event)
        except LocalProtocolError:
            if self.session.life is not Life.ENDED:
                raise
            return  # it was asked before the session ended, in the same turn
        self._perform(actions)

    def _fail(self, error: Exception) -> None:
        """The state can no longer be trusted."""
        self._running = False
        self.shut()
        self._listener.on_broken(error)

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case b4.Indicate(indication=indication):
                    self._listener.on_indication(indication)
                case WriteStream(stream=number, data=data):
                    stream = self._streams.get(number)
                    if stream is not None:
                        stream.write(data)
                case notices.Notify(notice=notice):
                    self._listener.on_notice(notice)
                case SetTimer(key=key, after_us=after_us):
                    self._set_timer(key, after_us)
                case CancelTimer(key=key):
                    self._cancel_timer(key)
                case OpenStream(stream=number, destination=destination):
                    stream = self._streams[number] = Stream(number, self._loop, self._told)
                    stream.open(destination, self._tls, self._server_name)
                case CloseStream(stream=number):
                    stream = self._streams.get(number)
                    if stream is not None:
                        stream.close()
                case _:
                    raise AssertionError(f"a session has no such action: {action}")

    # --- timers ----------------------------------------------------------------------------------------------------

    def _set_timer(self, key: TimerKey, after_us: int) -> None:
        self._cancel_timer(key)
        due = self.now() + after_us
        self._timers[key] = self._loop.call_later(after_us / 1_000_000, self._on_timer, key, due)

    def _cancel_timer(self, key: TimerKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _on_timer(self, key: TimerKey, due: int) -> None:
        """Loops round: a timer never fires before its time here."""
        del self._timers[key]
        self._last_at = max(self._last_at, due)
        self.hand(TimerFired(self.now(), key))

    # --- streams ---------------------------------------------------------------------------------------------------

    def _on_opened(self, number: int) -> None:
        self.hand(StreamOpened(self.now(), number, Address(""), False))

    def _on_received(self, number: int, data: bytes) -> None:
        self.hand(StreamReceived(self.now(), number, data))

    def _on_writable(self, number: int) -> None:
        self.hand(StreamWritable(self.now(), number))

    def _on_closed(self, number: int, reason: str) -> None:
        self.hand(StreamClosed(self.now(), number, reason))

    def _on_refused(self, number: int, code: str, reason: str) -> None:
        self._listener.on_refused(self._streams[number].address, code, reason)

    def _on_impossible(self, error: BaseException) -> None:
        self._listener.on_impossible(error)

    def _on_gone(self, number: int) -> None:
        self._streams.pop(number, None)
        if not self._streams:
            idle, self._idle = self._idle, []
            for waiter in idle:
                if not waiter.done():
                    waiter.set_result(None)
