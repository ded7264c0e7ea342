"""Bytes that no daemon sends, and streams that end anywhere: the program gets an error of ours, or its answer."""

from __future__ import annotations

import asyncio
import logging

import pytest

import isotone
from isotone.client import Settings
from isotone.core.choice import Choice
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from tests.client.daemon import Daemon, run, within

ROUNDS = 120
IMPATIENT = Settings(
    session=ClientSettings(connect_within_us=200_000, attempt_us=100_000, retry_first_us=5_000, retry_max_us=10_000),
    reconnect_within_s=0.1,
    pause_max_s=0.01,
    close_within_s=0.05,
)
PATIENT = Settings(session=ClientSettings(retry_first_us=5_000, retry_max_us=10_000), pause_max_s=0.01)


class Meddler:
    """Stands between client and daemon and changes, cuts, doubles or drops what the daemon says."""

    def __init__(self, daemon: Daemon, choice: Choice) -> None:
        self.daemon = daemon
        self.choice = choice
        self.writers: list[asyncio.StreamWriter] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.arriving: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Meddler:
        self.server = await asyncio.start_server(self._on_caller, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await asyncio.gather(*self.arriving, return_exceptions=True)
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _on_caller(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.arriving.append(asyncio.get_running_loop().create_task(self._on_client(reader, writer)))

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.daemon.address.rpartition(":")
        self.writers.append(writer)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self.writers.append(far_writer)
        for pump in (self._pump(reader, far_writer, False), self._pump(far_reader, writer, True)):
            task = asyncio.get_running_loop().create_task(pump)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meddle: bool) -> None:
        try:
            while data := await reader.read(self.choice.between(1, 200) if meddle else 65536):
                writer.write(self._changed(data) if meddle and self.choice.chance(0.2) else data)
        except (ConnectionError, OSError):
            pass
        writer.close()

    def _changed(self, data: bytes) -> bytes:
        changed, place = bytearray(data), self.choice.below(len(data))
        match self.choice.below(5):
            case 0 | 1:
                changed[place] = self.choice.below(256)
            case 2:
                del changed[place:]
            case 3:
                changed[place:place] = bytes(self.choice.below(256) for _ in range(self.choice.between(1, 9)))
            case 4:
                changed += data
        return bytes(changed)


async def converse(address: str, name: str, settings: Settings = PATIENT, deadline: float | None = None) -> None:
    """What a program does, until something goes wrong or all went well."""
    async with isotone.connect(address, name=name, settings=settings) as me:
        chat = await me.join("chat")
        for number in range(5):
            await chat.send(b"%d" % number, deadline=deadline)
        heard = 0
        async for event in chat:
            heard += isinstance(event, isotone.Message)
            if heard == 5:
                break
        await chat.leave()


def test_meddling(caplog: pytest.LogCaptureFixture) -> None:
    outcomes: dict[str, int] = {}

    async def one(daemon: Daemon, number: int) -> None:
        async with Meddler(daemon, Choice(f"meddler {number}")) as meddler:
            try:
                async with asyncio.timeout(1.0):
                    await converse(meddler.address, f"c{number}", IMPATIENT, 0.2)
                outcome = "fine"
            except (isotone.ClientError, TimeoutError) as error:
                outcome = type(error).__name__
            outcomes[outcome] = outcomes.get(outcome, 0) + 1

    async def main() -> None:
        wrong: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        settings = ServerSettings(heartbeat_us=20_000, silence_us=60_000, resume_within_us=100_000)
        async with Daemon(settings=settings) as daemon:
            for first in range(0, ROUNDS, 20):
                await within(asyncio.gather(*(one(daemon, first + number) for number in range(20))))
            await within(converse(daemon.address, "sane"))
        assert not wrong

    with caplog.at_level(logging.INFO, "isotone.client"):
        run(main)
    assert "is broken" not in caplog.text
    assert len(outcomes) >= 3 and outcomes.get("fine", 0) < ROUNDS, outcomes


class Cutter(Meddler):
    """The first stream ends when so many bytes came down; later ones are whole."""

    def __init__(self, daemon: Daemon, left: int) -> None:
        super().__init__(daemon, Choice("no meddling"))
        self.left = left
        self.is_cut = False

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meddle: bool) -> None:
        try:
            while data := await reader.read(65536):
                if meddle and not self.is_cut:
                    writer.write(data[: self.left])
                    self.left -= len(data)
                    self.is_cut = self.left <= 0
                    if self.is_cut:
                        break
                else:
                    writer.write(data)
        except (ConnectionError, OSError):
            pass
        for each in self.writers[:2] if meddle else [writer]:
            each.close()


def test_a_stream_may_end_at_every_byte() -> None:
    """What the daemon says in a session, cut everywhere: the client finds its way, and nothing is lost or doubled."""

    async def main() -> None:
        for cut in range(0, 700, 7):
            async with Daemon() as daemon:
                async with Cutter(daemon, cut) as cutter:
                    await within(converse(cutter.address, "alice"))
                assert daemon.sent("alice") == [b"0", b"1", b"2", b"3", b"4"]

    run(main)
