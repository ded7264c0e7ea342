"""Replicas beside embedded nodes in one process, for tests: started, cut off, stopped and started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from isotone.corel.quorum import Majority, Quorum
from isotone.corel.settings import ReplicaSettings
from isotone.daemon.embedded import node
from isotone.daemon.node import Node
from isotone.host.embedded import EmbeddedService
from isotone.host.files import Files
from isotone.host.replica_log import ReplicaLog
from isotone.host.service import Service
from isotone.host.session import SessionService
from tests.ports import free_port

DEADLINE_S = 60.0
GROUP = "$log/replica"


def run(main: Callable[[], Awaitable[None]]) -> None:
    """One test, which ends in any case."""

    async def timed() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await main()

    asyncio.run(timed())


class Replicas:
    """Servers by name; each has a node and a directory of its own."""

    def __init__(self, directory: Path, names: str = "abc", quorum: Quorum | None = None, **more: Any) -> None:
        self.directory, self.names = directory, tuple(names)
        self.quorum = quorum or Majority(self.names)
        self.more = more  # of the settings of each
        self.options: dict[str, Any] = {}  # of each log
        self.nodes: dict[str, Node] = {}
        self.logs: dict[str, ReplicaLog] = {}
        self.kind = "embedded"
        self.files: dict[str, Files] = {}  # of servers whose files are special
        self._stacks: dict[str, AsyncExitStack] = {}
        self.move()

    def settings(self, name: str) -> ReplicaSettings:
        return ReplicaSettings(server=name, servers=self.names, group=GROUP, quorum=self.quorum, **self.more)

    def path(self, name: str) -> Path:
        return self.directory / name

    def move(self) -> None:
        """New addresses, from the next start on."""
        self._ports = {name: f"127.0.0.1:{free_port()}" for name in self.names}

    async def start(self, *names: str) -> None:
        for name in names or self.names:
            await self.start_node(name)
            await self.start_log(name)

    async def start_node(self, name: str) -> None:
        stack = self._stacks[name] = AsyncExitStack()
        daemon = node(
            name=f"d-{name}",
            address=self._ports[name],
            peers=[(f"d-{other}", at) for other, at in self._ports.items() if other != name],
            state=self.directory / f"d-{name}",
        )
        self.nodes[name] = await stack.enter_async_context(daemon)

    async def stop_node(self, name: str) -> None:
        """Its daemon alone; the server is one of its clients."""
        await self._stacks.pop(name).aclose()

    async def restart_node(self, name: str) -> None:
        await self.stop_node(name)
        await self.start_node(name)

    async def start_log(self, name: str) -> ReplicaLog:
        service = self._service(name)
        options = {**self.options, "files": self.files.get(name)}
        log = ReplicaLog(self.settings(name), service=service, directory=self.path(name), **options)
        self.logs[name] = log
        await log.start()
        return log

    def _service(self, name: str) -> Service:
        daemon = self.nodes[name]
        return EmbeddedService(daemon) if self.kind == "embedded" else SessionService(daemon.address)

    async def stop_log(self, name: str) -> None:
        await self.logs.pop(name).stop()

    async def stop(self, *names: str) -> None:
        for name in names or tuple(self._stacks):
            if name in self.logs:
                await self.stop_log(name)
            del self.nodes[name]
            await self._stacks.pop(name).aclose()

    async def primary(self, *names: str) -> None:
        """These are in one primary component, as each of them says."""
        wanted = tuple(sorted(names or self.names))
        for name in wanted:
            log = self.logs[name]
            await log.until(lambda log=log: log.is_primary and log.replica.session.servers == wanted)

    def records(self, name: str) -> list[bytes]:
        entries = self.logs[name].entries
        return [entry.record for entry in entries.read(entries.first, entries.end)]


@asynccontextmanager
async def replicas(directory: Path, names: str = "abc", kind: str = "embedded", **more: Any) -> AsyncIterator[Replicas]:
    """A primary component of all of them."""
    group = Replicas(directory, names, **more)
    group.kind = kind
    try:
        await group.start()
        await group.primary()
        yield group
    finally:
        await group.stop()


async def red_name(log: ReplicaLog, record: bytes) -> str:
    """The name of the message that brings this record, from now on, once it is on the server's disk."""
    async for message in log.red():
        if record in message.records:
            return str(message)
    raise AssertionError("the server ended")
