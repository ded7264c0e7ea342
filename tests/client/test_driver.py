"""The shell of one session, without a world: turns, and what ends in the middle of one."""

from __future__ import annotations

import asyncio

from isotone.client.driver import Driver
from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Address, StreamOpened, StreamReceived
from isotone.core.ids import ClientId, DaemonId
from isotone.core.versions import VersionRange
from isotone.evs.sessions import notices
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.greeting import pack_answer
from isotone.evs.sessions.messages import Welcome, server_codec
from tests.client.daemon import run

ANSWER = pack_answer(VersionRange(1, 1), VersionRange(1, 1))[0]
ME = ClientId(DaemonId("d", 1), "alice", 1)
WELCOME = control_frame(
    server_codec.encode(Welcome(str(ME), bytes(16), 1 << 17, 1 << 17, 1 << 20, 1 << 15, 2_000_000, 10_000_000, 1))
)


class Eager:
    """Joins as soon as it hears that it may."""

    def __init__(self) -> None:
        self.driver: Driver
        self.heard: list[object] = []

    def on_indication(self, indication: b4.Indication) -> None:
        self.heard.append(indication)
        if isinstance(indication, b4.Connected):
            self.driver.ask(b4.Join("chat"))
            self.heard.append("asked")

    def on_notice(self, notice: notices.Notice) -> None:
        self.heard.append(notice)

    def on_turn(self) -> None:
        self.heard.append("turn")

    def on_broken(self, error: Exception) -> None:
        self.heard.append(error)


async def hears(data: bytes) -> tuple[list[object], Driver]:
    listener = Eager()
    session = ClientSession("alice", [Address("unix:/nowhere")], choice=Choice(1))
    driver = listener.driver = Driver(session, listener, asyncio.get_running_loop(), tls=None, server_name="")
    driver.ask(b4.Connect())
    driver.hand(StreamOpened(driver.now(), 0, Address(""), False))
    driver.hand(StreamReceived(driver.now(), 0, ANSWER))
    listener.heard.clear()
    driver.hand(StreamReceived(driver.now(), 0, data))
    driver.shut()
    await driver.gone()
    return listener.heard, driver


def test_what_is_asked_within_a_turn_waits_for_its_end() -> None:
    async def main() -> None:
        heard, driver = await hears(WELCOME)
        assert heard == [b4.Connected(), "asked", "turn"] and driver.session.life is Life.OPEN

    run(main)


def test_what_is_asked_in_the_turn_in_which_the_session_ends_is_nobodys_fault() -> None:
    async def main() -> None:
        heard, driver = await hears(WELCOME + b"nonsense")
        assert heard[:2] == [b4.Connected(), "asked"] and heard[-1] == "turn"
        assert isinstance(heard[-2], notices.Ended) and driver.session.life is Life.ENDED

    run(main)


def test_a_bug_ends_the_session_and_is_told() -> None:
    async def main() -> None:
        listener = Eager()
        session = ClientSession("alice", [Address("unix:/nowhere")], choice=Choice(1))
        driver = Driver(session, listener, asyncio.get_running_loop(), tls=None, server_name="")
        session.handle = lambda event: 1 // 0  # type: ignore[method-assign, assignment, return-value]
        driver.hand(StreamReceived(driver.now(), 0, b""))
        assert isinstance(listener.heard[0], ZeroDivisionError)
        driver.hand(StreamReceived(driver.now(), 0, b""))
        assert len(listener.heard) == 1

    run(main)
