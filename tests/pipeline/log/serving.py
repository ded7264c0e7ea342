"""Three servers of a replicated log with their ports, on a loop of their own in a thread, for tests of Spark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from isotone.host.log_port import LogPort
from tests.host.replicas import Replicas
from tests.ports import free_port

_T = TypeVar("_T")
WITHIN_S = 60.0


class Servers:
    """What a test does with them from its own thread."""

    def __init__(self, directory: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.group: Replicas
        self.addresses: dict[str, str] = {}
        self._directory = directory
        self._ports: dict[str, LogPort] = {}

    @property
    def replica(self) -> str:
        """As the option takes it."""
        return ",".join(self.addresses.values())

    def do(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """On their loop; waits for the result."""

        async def timed() -> _T:
            async with asyncio.timeout(WITHIN_S):
                return await work()

        future: Future[_T] = asyncio.run_coroutine_threadsafe(timed(), self.loop)
        return future.result()

    async def start(self) -> None:
        self.group = Replicas(self._directory)
        await self.group.start()
        await self.group.primary()
        for name in self.group.names:
            await self.serve(name)

    async def serve(self, name: str) -> None:
        port = free_port()
        self._ports[name] = LogPort(
            self.group.logs[name],
            judge=lambda name, credential, peer: "",
            judge_change=lambda name, credential, peer: "",
        )
        await self._ports[name].start("127.0.0.1", port)
        self.addresses[name] = f"127.0.0.1:{port}"

    async def stop(self) -> None:
        for port in self._ports.values():
            await port.stop()
        await self.group.stop()

    def append(self, *records: bytes, at: str = "a") -> int:
        """The last position."""

        async def work() -> int:
            positions = await asyncio.gather(*(self.group.logs[at].append(record) for record in records))
            return max(positions)

        return self.do(work)


@contextmanager
def serving(directory: Path) -> Iterator[Servers]:
    servers = Servers(directory)
    thread = threading.Thread(target=servers.loop.run_forever)
    thread.start()
    try:
        servers.do(servers.start)
        yield servers
        servers.do(servers.stop)
    finally:
        servers.loop.call_soon_threadsafe(servers.loop.stop)
        thread.join()
        servers.loop.close()
