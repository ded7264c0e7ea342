"""Boundary B4 over a byte stream to a daemon of another process: one `ClientSession` for each session asked for.

A session ends with its stream: a process that was killed is then gone from its groups at once, and nobody there waits
for it until the time to resume is over. A session that ends is `Disconnected`; whether and when to connect again is the
automaton's business.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from isotone.client.addresses import normalised
from isotone.client.driver import Driver
from isotone.core.boundary import Ask, Connect, Connected, Disconnect, Disconnected, Indication, Refused, Request, Send
from isotone.core.choice import Choice
from isotone.core.contract import Address
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import NO_DAEMON, ClientId, DaemonId
from isotone.evs.sessions import notices
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.settings import ClientSettings
from isotone.host.service import Port, kind_of
from isotone.trace.events import Entry

log = logging.getLogger("isotone.host")

CLOSE_SECONDS = 5.0
SEED_BYTES = 32


class _Session:
    """One session, from the question to its end."""

    def __init__(self, service: SessionService, provisional: ClientId, driver_of: Callable[[_Session], Driver]) -> None:
        self.client = provisional  # the real one once it is open
        self.queue: deque[Request] = deque()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._service = service
        self.driver = driver_of(self)

    def on_indication(self, indication: Indication) -> None:
        """Something came at boundary B4."""
        if type(indication) is Connected:
            self._service.rename(self, self.driver.session.client)
        elif type(indication) is Disconnected:
            self._service.forget(self)
        self._service.tell(self.client, indication)

    def on_notice(self, notice: notices.Notice) -> None:
        """About the session itself."""
        if isinstance(notice, notices.Ended):
            self._service.forget(self)
            if not self.ended.done():
                self.ended.set_result(None)

    def on_turn(self) -> None:
        """There may be room now."""
        if self.queue:
            asyncio.get_running_loop().call_soon(self._service.carry, self)

    def on_refused(self, address: Address, reason: str) -> None:
        """Another address may do; if none does, the session ends with its reason."""
        log.warning("the daemon at %s and this process do not accept each other: %s", address, reason)

    def on_impossible(self, error: BaseException) -> None:
        """This loop opens no such streams."""
        self._service.on_broken(error)

    def on_broken(self, error: Exception) -> None:
        """A bug of ours."""
        self._service.on_broken(error)


class SessionService:
    """Clients of daemons at some addresses; the first that answers serves."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        credential: bytes = b"",
        tls: ssl.SSLContext | None = None,
        server_name: str = "",
        settings: ClientSettings | None = None,
    ) -> None:
        self.waiting_bytes = 0
        self.addresses = normalised(addresses)
        self._credential, self._tls, self._server_name = credential, tls, server_name
        self._settings = settings or ClientSettings(resume_within_us=0)
        self._sessions: dict[ClientId, _Session] = {}
        self._closing: list[_Session] = []  # whose streams may not be gone yet
        self._port: Port | None = None
        self._choice = Choice(os.urandom(SEED_BYTES).hex())
        self._opened = 0

    @property
    def daemon(self) -> DaemonId:
        """Nobody knows before a session is open."""
        return NO_DAEMON

    @property
    def record(self) -> Callable[[Entry], None] | None:
        """None: the daemon records what crosses; the rest is the host's."""
        return None

    def begin(self, port: Port) -> None:
        """Nothing is opened before it is asked for."""
        self._port = port
        self._loop = asyncio.get_running_loop()

    # --- asking ----------------------------------------------------------------------------------------------------

    def ask(self, action: Ask) -> None:
        """Carry it at once, or when there is room."""
        if isinstance(action.request, Connect):
            self._connect(action.client)
            return
        session = self._sessions.get(action.client)
        if session is None:
            if not isinstance(action.request, Disconnect):  # the session ended while this was on its way, or never was
                self.tell(action.client, Refused(kind_of(action.request), "there is no such session"))
            return
        if type(action.request) is Send:
            self.waiting_bytes += len(action.request.bundle.payload)
        session.queue.append(action.request)
        self.carry(session)

    def part(self, reason: str) -> tuple[ClientId, ...]:
        """End all sessions, ahead of what waits."""
        sessions = list(self._sessions.values())
        for session in sessions:
            self.forget(session)
            if session.driver.session.life is not Life.ENDED:
                with suppress(LocalProtocolError):  # it parts already
                    session.driver.ask(Disconnect())
            self.tell(session.client, Disconnected(reason))
        return tuple(session.client for session in sessions)

    def on_turn(self) -> None:
        """All was carried already."""

    def _connect(self, provisional: ClientId) -> None:
        if provisional in self._sessions:
            self.tell(provisional, Refused("connect", "a session is opened once"))
            return
        session = _Session(self, provisional, self._driver_of)
        self._sessions[provisional] = session
        session.driver.ask(Connect())

    def _driver_of(self, session: _Session) -> Driver:
        self._opened += 1
        automaton = ClientSession(
            session.client.name,
            self.addresses,
            choice=self._choice.derive(f"session {self._opened}"),
            credential=self._credential,
            settings=self._settings,
        )
        return Driver(automaton, session, self._loop, tls=self._tls, server_name=self._server_name)

    def carry(self, session: _Session) -> None:
        """Hand over all that has room."""
        moved = False
        while session.queue and session.driver.session.life is not Life.ENDED:
            request = session.queue[0]
            if type(request) is Send:
                if session.driver.session.room <= 0:
                    break
                self.waiting_bytes -= len(request.bundle.payload)
                moved = True
            session.queue.popleft()
            try:
                session.driver.ask(request)
            except LocalProtocolError as error:
                self.tell(session.client, Refused(kind_of(request), str(error)))
        if moved and self._port is not None:
            self._port.on_moved()

    # --- hearing ---------------------------------------------------------------------------------------------------

    def tell(self, client: ClientId, indication: Indication) -> None:
        """To the automaton."""
        if self._port is not None:
            self._port.on_told((client,), indication)

    def rename(self, session: _Session, real: ClientId) -> None:
        """The daemon said who it is."""
        self._sessions.pop(session.client, None)
        session.client = real
        self._sessions[real] = session

    def forget(self, session: _Session) -> None:
        """It is over."""
        if self._sessions.get(session.client) is session:
            del self._sessions[session.client]
            self._closing = [*(each for each in self._closing if each.driver.is_closing), session]
        for request in session.queue:
            if type(request) is Send:
                self.waiting_bytes -= len(request.bundle.payload)
        session.queue.clear()

    def on_broken(self, error: BaseException) -> None:
        """The state of a session can no longer be trusted."""
        if self._port is not None:
            self._port.on_broken(f"a session failed: {error!r}", error)

    # --- the end ---------------------------------------------------------------------------------------------------

    async def close(self, *, clean: bool) -> None:
        """Part from the daemon, which takes what was sent before."""
        self._port = None
        sessions = [*self._sessions.values(), *self._closing]
        if clean:
            for session in list(self._sessions.values()):
                if session.driver.session.life is not Life.ENDED:
                    session.queue.append(Disconnect())
                    self.carry(session)
            waiting = [session.ended for session in sessions if not session.ended.done()]
            if waiting:
                await asyncio.wait(waiting, timeout=CLOSE_SECONDS)
        for session in sessions:
            session.driver.shut()
        for session in sessions:
            await session.driver.gone()
