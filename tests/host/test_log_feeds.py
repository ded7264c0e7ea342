"""Red and white through the port: what another process hears before there is an order, and when every server has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from isotone.core.errors import MachineError
from isotone.corel.events import Standing
from isotone.host import levels, log_client
from isotone.host.answers import FellBehind, Maybe
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from tests.host.replicas import Replicas, replicas, run


@asynccontextmanager
async def ported(group: Replicas, *names: str) -> AsyncIterator[list[LogPort]]:
    ports = [LogPort(group.logs[name]) for name in names]
    for port in ports:
        await port.start("127.0.0.1", 0)
    yield ports
    for port in ports:
        await port.stop()


def test_red_comes_in_a_minority_and_its_reader_hears_of_a_server_that_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group, ported(group, "a") as (port,):
            await group.stop("b", "c")
            server = group.logs["a"]
            await server.until(lambda: server.standing.standing is Standing.REGULAR and not server.standing.primary)
            async with RemoteLog(port.address) as log, aclosing(log.red()) as reds:
                first = asyncio.ensure_future(anext(reds))
                while not server._reds:  # it listens
                    await asyncio.sleep(0)
                waiting = asyncio.ensure_future(log.append(b"in no order yet", within_s=3600.0))
                assert (await first).records == (b"in no order yet",) and not waiting.done()
                await port.stop()
                with pytest.raises(MachineError, match="the server is gone"):
                    await anext(reds)
                with pytest.raises(Maybe):
                    await waiting
            while server._reds:
                await asyncio.sleep(0)

    run(main)


@pytest.mark.parametrize(("bound", "most"), [("RED_MAX", 2), ("RED_BYTES_MAX", 200)])
def test_who_does_not_keep_up_with_red_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """Few large messages are as many as many small ones."""
    monkeypatch.setattr(levels, bound, most)
    monkeypatch.setattr(log_client, "FOLLOW_CREDIT", 1)

    async def main() -> None:
        async with replicas(tmp_path, "a") as group, ported(group, "a") as (port,):
            server = group.logs["a"]
            async with RemoteLog(port.address) as log, aclosing(log.red()) as reds:
                first = asyncio.ensure_future(anext(reds))
                while not server._reds:
                    await asyncio.sleep(0)
                await server.append(b"0")
                assert (await first).records == (b"0",)
                for number in range(3):
                    await server.append(b"%d" % number)
                with pytest.raises(FellBehind, match=f"more than {most}"):
                    await anext(reds)
                assert await log.append(b"the connection goes on") == 5

    run(main)


def test_white_rises_through_the_loss_of_a_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group, ported(group, "a", "b") as ports:
            addresses = [port.address for port in ports]
            async with RemoteLog(addresses) as log, aclosing(log.white()) as whites:
                end = await group.logs["c"].append(b"one")
                assert await anext(whites) == end == 1 and log.server == "a"
                await ports[0].stop()
                for number in range(20):
                    end = await group.logs["c"].append(b"%d" % number)
                await group.logs["b"].until(lambda: group.logs["b"].white_position == end)
                assert await anext(whites) == end and log.server == "b", "who is slow hears the last"

    run(main)
