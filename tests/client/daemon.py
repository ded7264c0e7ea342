"""A daemon for the tests of the client: real streams on loopback, the real sessions, a small group service."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from isotone.core import boundary as b4
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    SetTimer,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.core.ids import ClientId, DaemonId
from isotone.evs.sessions.admission import Admit, admit_all
from isotone.evs.sessions.handing import Permit, permit_all
from isotone.evs.sessions.notices import RoomChanged
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ServerSettings
from tests.evs.sessions.pair import FakeGroups
from tests.ports import free_port

WITHIN_S = 20.0
SECRET = b"a secret of the daemon"
Result = TypeVar("Result")


class Peer(asyncio.Protocol):
    """A stream that a client opened."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.number = daemon.next_stream()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)
        self.full = False
        self.daemon.peers[self.number] = self
        self.daemon.hand(StreamOpened(self.daemon.now(), self.number, Address("client"), True))

    def data_received(self, data: bytes) -> None:
        self.daemon.hand(StreamReceived(self.daemon.now(), self.number, data))

    def write(self, action: WriteStream) -> None:
        self.transport.writelines(action.data)
        if not self.full:
            asyncio.get_running_loop().call_soon(self._writable)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self._writable()

    def _writable(self) -> None:
        if self.number in self.daemon.peers and not self.full:
            self.daemon.hand(StreamWritable(self.daemon.now(), self.number))

    def connection_lost(self, error: Exception | None) -> None:
        if self.daemon.peers.pop(self.number, None) is not None:
            self.daemon.hand(StreamClosed(self.daemon.now(), self.number, str(error or "closed")))


class Daemon:
    """One daemon; `restart` is its next incarnation at the same place."""

    def __init__(
        self,
        *,
        settings: ServerSettings | None = None,
        admit: Admit = admit_all,
        permit: Permit = permit_all,
        tls: ssl.SSLContext | None = None,
        unix: str = "",
    ) -> None:
        self.settings = settings or ServerSettings()
        self.incarnation = 0
        self.peers: dict[int, Peer] = {}
        self.held: deque[b4.Indicate] | None = None  # what the group service says, while it is held back
        self.holds: Callable[[b4.Indication], bool] = lambda indication: isinstance(indication, b4.Message)
        self.asked: list[tuple[ClientId, b4.Request]] = []
        self.accepting = True
        self._admit, self._permit, self._tls, self._unix = admit, permit, tls, unix
        self._streams = 0
        self._events: deque[Event] = deque()
        self._running = False
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None
        self._port = free_port()  # also while it does not listen
        self.begin()

    def begin(self) -> None:
        self.incarnation += 1
        me = DaemonId("d", self.incarnation)
        self.groups = FakeGroups(me)
        self.sessions = ServerSessions(
            me, secret=SECRET, settings=self.settings, admit=self._admit, permit=self._permit
        )

    # --- the world -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Daemon:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hand(Stopping(self.now()))
        await self.deafen()
        for peer in list(self.peers.values()):
            peer.transport.abort()
        for timer in self._timers.values():
            timer.cancel()
        await self.until(lambda: not self.peers)

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self._unix:
            self._server = await loop.create_unix_server(lambda: Peer(self), self._unix, ssl=self._tls)
        else:
            self._server = await loop.create_server(lambda: Peer(self), "127.0.0.1", self._port, ssl=self._tls)

    async def deafen(self) -> None:
        """Nobody listens any more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def address(self) -> str:
        return f"unix:{self._unix}" if self._unix else f"127.0.0.1:{self._port}"

    def now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000_000)

    def next_stream(self) -> int:
        self._streams -= 1
        return self._streams

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to become true, here or at a client: in every turn of the loop it is looked at."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await asyncio.sleep(0)

    # --- what tests do ---------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break all streams, without a word."""
        for peer in list(self.peers.values()):
            peer.transport.abort()

    def restart(self) -> None:
        """Crash, and start again at once: nobody is told, nothing is kept."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._events.clear()
        peers, self.peers = self.peers, {}
        self.begin()
        for peer in peers.values():
            peer.transport.abort()

    def say(self, indication: b4.Indication, *names: str) -> None:
        """Tell clients something out of the ordinary."""
        clients = tuple(each for each in self.groups.open if each.name in names)
        self.hand(b4.Indicated(self.now(), clients, indication))

    def room(self, room: int) -> None:
        self.hand(RoomChanged(self.now(), room))

    def release(self) -> None:
        held, self.held = self.held or deque(), None
        for each in held:
            self.hand(b4.Indicated(self.now(), each.receivers, each.indication))

    def sent(self, name: str) -> list[bytes]:
        return self.groups.bodies(name)

    # --- turns -----------------------------------------------------------------------------------------------------

    def hand(self, event: Event) -> None:
        self._events.append(event)
        if self._running:
            return
        self._running = True
        while self._events:
            for action in self.sessions.handle(self._events.popleft()):
                self._perform(action)
        self._running = False

    def _perform(self, action: Action) -> None:
        match action:
            case WriteStream(stream=number):
                if number in self.peers:
                    self.peers[number].write(action)
            case CloseStream(stream=number):
                if number in self.peers:
                    self.peers.pop(number).transport.close()
            case SetTimer(key=key, after_us=after_us):
                self._cancel(key)
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(after_us / 1_000_000, self._fire, key)
            case CancelTimer(key=key):
                self._cancel(key)
            case b4.Ask(client=client, request=request):
                self.asked.append((client, request))
                for indicate in self.groups.take(client, request):
                    assert isinstance(indicate, b4.Indicate)
                    if self.held is not None and self.holds(indicate.indication):
                        self.held.append(indicate)
                    else:
                        self._events.append(b4.Indicated(self.now(), indicate.receivers, indicate.indication))
            case _:
                raise AssertionError(action)

    def _cancel(self, key: TimerKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, key: TimerKey) -> None:
        del self._timers[key]
        self.hand(TimerFired(self.now(), key))


async def within(awaitable: Awaitable[Result], seconds: float = WITHIN_S) -> Result:
    """A test that hangs fails."""
    async with asyncio.timeout(seconds):
        return await awaitable


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a loop of its own."""

    async def bounded() -> None:
        await within(main(), 3 * WITHIN_S)

    asyncio.run(bounded())
