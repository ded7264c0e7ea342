"""A client of the log's port keeps its time itself: a server that is stopped, or gone, says nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.corel.port import wire
from isotone.host.answers import Maybe, NotYet, Refused
from isotone.host.host import ROOM_BYTES
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from tests.host.replicas import replicas, run

SOON_S = 0.01
LONG_S = 3600.0
CONNECT_S = 50.0


class Silent(asyncio.Protocol):
    """A server whose process is stopped: its kernel takes what comes, and nobody answers any more."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._words:
            transport.write(wire.framed(wire.Welcome(wire.VERSION, "stopped")))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)


@asynccontextmanager
async def stopped(words: int = 1) -> AsyncIterator[tuple[str, list[Silent]]]:
    """Its address, and who came; it says so many words before."""
    came: list[Silent] = []

    def one() -> Silent:
        came.append(Silent(words))
        return came[-1]

    server = await asyncio.get_running_loop().create_server(one, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    server.close()


def client(*addresses: str) -> RemoteLog:
    log = RemoteLog(addresses)
    log.patience.connect_within_us, log.patience.grace_us = 3_600_000_000, 10_000
    return log


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda log: log.append(b"x", within_s=SOON_S), Maybe),
        (lambda log: log.wait_for(7, within_s=SOON_S), NotYet),
        (lambda log: log.reconfigure(remove="a", within_s=SOON_S), Maybe),
    ],
    ids=["append", "wait_for", "reconfigure"],
)
def test_a_deadline_is_kept_at_a_server_that_is_stopped(
    tmp_path: Path, call: Callable[[RemoteLog], AsyncIterator[None]], answer: type[Exception]
) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group, stopped() as (address, came):
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            async with client(address, port.address) as log:
                assert log.server == "stopped"
                with pytest.raises(answer, match="did not answer in time"):
                    await call(log)
                await came[0].lost  # who says nothing is left
                assert await log.append(b"elsewhere") == 1 and log.server == "a"
            await port.stop()

    run(main)


def test_the_kernel_looks_for_a_machine_that_is_gone() -> None:
    async def main() -> None:
        async with stopped() as (address, _), client(address) as log:
            assert log._shell is not None
            (stream,) = log._shell.streams.values()
            assert stream._transport is not None
            sock = stream._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert 0 < sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
            assert 0 < sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 60_000

    run(main)


def test_waiting_for_room_at_the_server_counts_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            log.host.service.waiting_bytes += ROOM_BYTES
            with pytest.raises(Refused, match="no room"):
                await log.append(b"x", within_s=SOON_S)
            log.host.service.waiting_bytes -= ROOM_BYTES
            assert await log.append(b"y", within_s=3600.0) == 1

    run(main)


@pytest.mark.parametrize("way", ["ask", "follow"])
def test_who_breaks_a_rule_hears_so_once_and_does_not_ask_again(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as log:
                asked = log._log.asked(wire.ReadRange(0, -1, 1))
                followed = log._log.followed(wire.Follow(0, -5, 1))
                with pytest.raises(LocalProtocolError, match="the server ended the connection: not a frame: Expected"):
                    await (asked if way == "ask" else anext(followed))
                asked.close()
                assert caplog.text.count("a client is dropped") == 1
                assert await log.append(b"x") == 1
            await port.stop()

    run(main)
