"""One session after another: when one cannot be resumed, the next is opened, until time is up or it makes no sense.

States: *opening* the first session → *open* → *reopening*, when a session ended by itself → *open* again … → *over*.
Within one session the automaton below finds its daemon again by itself and nothing is lost; see `Interrupted`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from enum import Enum
from typing import Protocol

import msgspec

from isotone.client.driver import Driver
from isotone.client.errors import ClientError, Closed, ConnectFailed, Disconnected
from isotone.client.settings import Settings
from isotone.client.streams import CERTIFICATE, UNREACHABLE, Loop
from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Address
from isotone.evs.sessions import notices
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.messages import EndCode
from isotone.evs.sessions.settings import ClientSettings

FINAL = (EndCode.ASKED, EndCode.REPLACED)
"""After these there is no other session: it was meant, or another client has the name."""
PAUSE_FIRST_S = 0.05
MICROSECONDS = 1_000_000

logger = logging.getLogger("isotone.client")


class State(Enum):
    """How it stands with the sessions of a client."""

    OPENING = "opens its first session"
    OPEN = "has a session"
    REOPENING = "opens another session"
    OVER = "over"


class Owner(Protocol):
    """Who hears of it."""

    def on_opened(self, first: bool) -> None:
        """There is a session."""

    def on_indication(self, indication: b4.Indication) -> None:
        """Something came at boundary B4, but `Connected` and `Disconnected`."""

    def on_notice(self, notice: notices.Notice) -> None:
        """The session says something, but `Ended`."""

    def on_turn(self) -> None:
        """All of one turn was said."""

    def on_session_over(self, session: ClientSession, code: str, reason: str, *, all_taken: bool) -> None:
        """The session ended; there may be another."""

    def on_over(self, error: ClientError) -> None:
        """There is none, and will be none."""


class Endpoint(msgspec.Struct, frozen=True):
    """Who connects, and where to."""

    name: str
    addresses: tuple[Address, ...]
    credential: bytes
    tls: ssl.SSLContext | None
    settings: Settings


class Link:
    """The sessions of one client, at most one at a time."""

    def __init__(self, endpoint: Endpoint, owner: Owner, loop: Loop, choice: Choice) -> None:
        self.state = State.OPENING
        self.epoch = 0  # how many sessions were opened
        self._endpoint = endpoint
        self._owner = owner
        self._loop = loop
        self._choice = choice
        self._driver: Driver | None = None
        self._old: list[Driver] = []  # whose streams may still be closing
        self._lost_at = 0.0  # when the last session ended
        self._pause_s = PAUSE_FIRST_S
        self._again: asyncio.TimerHandle | None = None
        self._paused = False
        self._refused: dict[Address, tuple[str, str]] = {}  # addresses of no use, as a code and in words
        self._wait_until = loop.time() + endpoint.settings.wait_for_daemon_s  # for a daemon where nobody listens
        self._said = ""  # why the last session ended, as the log has it
        self._parted: asyncio.Future[None] | None = None  # who waits for the parting
        self.impossible: BaseException | None = None  # why no stream can be opened here

    # --- to look at ------------------------------------------------------------------------------------------------

    @property
    def driver(self) -> Driver:
        """That of the present session."""
        assert self._driver is not None
        return self._driver

    @property
    def session(self) -> ClientSession:
        """The present one, or the last."""
        return self.driver.session

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        return self.session.room if self.state is State.OPEN else 0

    @property
    def is_connected(self) -> bool:
        """Whether frames pass at present."""
        return self.state is State.OPEN and self.session.is_connected

    # --- opening ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look for a daemon that opens a session."""
        endpoint, settings = self._endpoint, self._endpoint.settings
        self._again = None
        self.epoch += 1
        session = ClientSession(
            endpoint.name,
            endpoint.addresses,
            choice=self._choice.derive(f"session {self.epoch}"),
            credential=endpoint.credential,
            settings=self._session_settings(),
        )
        self._driver = Driver(session, self, self._loop, tls=endpoint.tls, server_name=settings.server_name)
        self._driver.pause(self._paused)
        self._driver.ask(b4.Connect())

    def _session_settings(self) -> ClientSettings:
        settings = self._endpoint.settings.session
        if len(self._endpoint.addresses) > 1:
            resume_us = int(self._endpoint.settings.resume_within_s * MICROSECONDS)
            settings = msgspec.structs.replace(settings, resume_within_us=min(settings.resume_within_us, resume_us))
        if self.state is State.OPENING:
            return settings
        left_us = int(max(0.0, self._left_s()) * MICROSECONDS) + 1
        return msgspec.structs.replace(settings, connect_within_us=min(settings.connect_within_us, left_us))

    def _left_s(self) -> float:
        return self._lost_at + self._endpoint.settings.reconnect_within_s - self._loop.time()

    def pause(self, paused: bool) -> None:
        """Read nothing for now, or read again, in this session and the next."""
        self._paused = paused
        if self._driver is not None:
            self._driver.pause(paused)

    # --- the end ---------------------------------------------------------------------------------------------------

    async def part(self, due: float) -> None:
        """Close the session: wait a little for the daemon to take what was sent before."""
        if self.is_connected and self._parted is None:
            self._parted = self._loop.create_future()
            timer = self._loop.call_at(due, self._end_parting)
            try:
                self.driver.ask(b4.Disconnect())
                await self._parted
            finally:
                timer.cancel()

    def _end_parting(self) -> None:
        if self._parted is not None and not self._parted.done():
            self._parted.set_result(None)

    def shut(self, error: ClientError) -> None:
        """No session from now on."""
        if self.state is State.OVER:
            return
        self.state = State.OVER
        if self._again is not None:
            self._again.cancel()
        if self._driver is not None and self.session.life is not Life.ENDED:
            self.driver.shut()
            self._owner.on_session_over(self.session, "closed", str(error), all_taken=False)
        self._end_parting()
        self._owner.on_over(error)

    async def gone(self) -> None:
        """Wait until no stream is left."""
        drivers, self._old = self._old, []
        for driver in [*drivers, *([self._driver] if self._driver else [])]:
            await driver.gone()

    # --- what the present session says -----------------------------------------------------------------------------

    def on_indication(self, indication: b4.Indication) -> None:
        """Something came."""
        match indication:
            case b4.Connected():
                first = self.state is State.OPENING
                self.state, self._pause_s = State.OPEN, PAUSE_FIRST_S
                self._owner.on_opened(first)
            case b4.Disconnected():
                pass  # `Ended` follows and says more
            case b4.Refused(request="connect"):
                pass
            case _:
                self._owner.on_indication(indication)

    def on_notice(self, notice: notices.Notice) -> None:
        """It says something about itself."""
        if isinstance(notice, notices.Ended):
            self._on_ended(notice)
        else:
            self._owner.on_notice(notice)

    def on_turn(self) -> None:
        """All of one turn was said."""
        self._owner.on_turn()

    def on_refused(self, address: Address, code: str, reason: str) -> None:
        """That address is of no use. Nobody waits long for that: the first session is given up when all refuse.

        Unless the program wants to wait for a daemon where nobody listens yet.
        """
        if self._refused.get(address) != (code, reason):
            logger.warning("%s is not connected to %s: %s", self._endpoint.name, address, reason)
            self._refused[address] = (code, reason)
        if self.state is not State.OPENING or any(each not in self._refused for each in self._endpoint.addresses):
            return
        codes = {code for code, _ in self._refused.values()}
        if UNREACHABLE not in codes or self._loop.time() >= self._wait_until:
            self.shut(ConnectFailed(UNREACHABLE if UNREACHABLE in codes else CERTIFICATE, self._refusals()))

    def _refusals(self) -> str:
        return "; ".join(f"{address}: {reason}" for address, (_, reason) in self._refused.items())

    def on_impossible(self, error: BaseException) -> None:
        """Trying again would not help."""
        self.impossible = error
        self.shut(ConnectFailed("impossible", str(error)))

    def on_broken(self, error: Exception) -> None:
        """A bug of ours."""
        logger.error("the session of %s is broken", self._endpoint.name, exc_info=error)
        self.shut(Disconnected("broken", f"an error in Isotone: {error!r}"))

    def _on_ended(self, ended: notices.Ended) -> None:
        before, code = self.state, ended.code
        if before is State.OVER:
            return
        if before is State.OPEN:
            self._owner.on_session_over(self.session, code.value, ended.reason, all_taken=code is EndCode.ASKED)
            self._lost_at = self._loop.time()
        assert self._driver is not None
        self._old = [each for each in (*self._old, self._driver) if each.is_closing]
        if before is State.OPENING:
            self.shut(ConnectFailed(code.value, "; ".join(filter(None, (ended.reason, self._refusals())))))
        elif self._parted is not None:
            self.shut(Closed("the session was closed"))
        elif code in FINAL or self._left_s() <= 0:
            self.shut(Disconnected(code.value, ended.reason))
        else:
            self._enter_reopening(code, ended.reason, at_once=before is State.OPEN)

    def _enter_reopening(self, code: EndCode, reason: str, *, at_once: bool) -> None:
        is_news = code is EndCode.REFUSED and reason != self._said
        self._said = reason
        logger.log(
            logging.WARNING if is_news else logging.INFO,
            "%s opens another session: %s (%s)",
            self._endpoint.name,
            reason,
            code.value,
        )
        self.state = State.REOPENING
        pause = 0.0 if at_once else min(self._pause_s, max(0.0, self._left_s()))
        if not at_once:
            self._pause_s = min(2 * self._pause_s, self._endpoint.settings.pause_max_s)
        self._again = self._loop.call_later(pause, self.begin)
