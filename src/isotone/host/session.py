"""Boundary B4 over a byte stream to a daemon of another process: one `ClientSession` for each session asked for.

A session ends with its stream: a process that was killed is then gone from its groups at once, and nobody there waits
for it until the time to resume is over. A session that ends is `Disconnected`; whether and when to connect again is the
automaton's business, but for a pause before it: one that comes to no view again and again is opened no more than about
once in a second. Why there is none, `absence` tells.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from isotone.client.driver import Driver
from isotone.client.streams import CERTIFICATE
from isotone.core.addresses import full_addresses
from isotone.core.boundary import (
    Ask,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Indication,
    Refused,
    Request,
    Send,
    View,
)
from isotone.core.choice import Choice
from isotone.core.contract import Action, Address
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
PAUSE_S = 0.1
PAUSE_MAX_S = 1.0
REASONS_MAX = 8
"""So many different reasons are logged while there is no session."""


class _Sought(ClientSession):
    """Says of every attempt why it came to nothing, and not of the last alone."""

    on_failed: Callable[[str], object]

    def _fail(self, reason: str, at: int, out: list[Action], *, hopeless: bool = False) -> None:
        super()._fail(reason, at, out, hopeless=hopeless)
        self.on_failed(self._connection.attempts.last_reason)


class _Session:
    """One session, from the question to its end."""

    def __init__(self, service: SessionService, provisional: ClientId, driver_of: Callable[[_Session], Driver]) -> None:
        self.client = provisional  # the real one once it is open
        self.queue: deque[Request] = deque()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pause: asyncio.TimerHandle | None = None  # before it begins
        self._service = service
        self.driver = driver_of(self)

    def begin(self) -> None:
        """Look for a daemon."""
        self.pause = None
        self.driver.ask(Connect())

    def on_indication(self, indication: Indication) -> None:
        """Something came at boundary B4."""
        if type(indication) is Connected:
            self._service.rename(self, self.driver.session.client)
        elif type(indication) is Disconnected:
            self._service.forget(self)
        self._service.look(self, indication)
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

    def on_refused(self, address: Address, code: str, reason: str) -> None:
        """Another address may do, or the daemon comes later; if none does, the session ends with its reason."""
        if code == CERTIFICATE:
            self._service.note(self, f"the daemon at {address} and this process do not accept each other: {reason}")

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
        self.absence = ""  # why there is no session, if there is none
        self.addresses = full_addresses(addresses)
        self._credential, self._tls, self._server_name = credential, tls, server_name
        self._settings = settings or ClientSettings(resume_within_us=0)
        self._sessions: dict[ClientId, _Session] = {}
        self._closing: list[_Session] = []  # whose streams may not be gone yet
        self._port: Port | None = None
        self._choice = Choice(os.urandom(SEED_BYTES).hex())
        self._opened = 0
        self._pause_s = 0.0  # before the next session
        self._logged: set[str] = set()  # reasons, since the last view

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
        if session.pause is not None and isinstance(action.request, Disconnect):
            self._call_off(session)
            return
        if type(action.request) is Send:
            self.waiting_bytes += len(action.request.bundle.payload)
        session.queue.append(action.request)
        self.carry(session)

    def part(self, reason: str) -> tuple[ClientId, ...]:
        """End all sessions, ahead of what waits."""
        sessions = list(self._sessions.values())
        for session in sessions:
            self._call_off(session)
            self.forget(session)
            if session.driver.session.life not in (Life.NEW, Life.ENDED):
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
        pause_s, self._pause_s = self._pause_s, min(max(2 * self._pause_s, PAUSE_S), PAUSE_MAX_S)
        if pause_s:
            session.pause = self._loop.call_later(pause_s, session.begin)
        else:
            session.begin()

    def _call_off(self, session: _Session) -> None:
        """It has not begun, and will not."""
        if session.pause is not None:
            session.pause.cancel()
            session.pause = None
            session.ended.set_result(None)
            self.forget(session)

    def _driver_of(self, session: _Session) -> Driver:
        self._opened += 1
        automaton = _Sought(
            session.client.name,
            self.addresses,
            choice=self._choice.derive(f"session {self._opened}"),
            credential=self._credential,
            settings=self._settings,
        )
        automaton.on_failed = partial(self.note, session)
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

    def look(self, session: _Session, indication: Indication) -> None:
        """Whether there is a session, or why not."""
        match indication:
            case Connected():
                self.absence = ""
            case View():
                self._pause_s = 0.0
                self._logged.clear()
            case Refused(reason=reason):
                self.note(session, f"refused: {reason}")
            case Disconnected(reason=reason) if not self.absence:
                self.note(session, reason)

    def note(self, session: _Session, reason: str) -> None:
        """Why there is none; each reason is logged once."""
        if self._port is None:
            return
        self.absence = reason
        if reason not in self._logged and len(self._logged) < REASONS_MAX:
            self._logged.add(reason)
            log.warning("%s has no session with a daemon: %s", session.client.name, reason)

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
        for session in list(self._sessions.values()):
            self._call_off(session)
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
