"""Daemons on loopback in one loop, for tests: each has a port of its own, and every wait has a deadline."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from isotone.core.contract import Address
from isotone.daemon.composition import Hooks
from isotone.daemon.node import Node, Phase
from isotone.daemon.node_settings import NodeSettings, TraceSettings
from isotone.evs.membership import KnownDaemon, MembershipSettings
from isotone.evs.stack import StackSettings
from isotone.trace.events import Ended, Stabilised
from isotone.trace.recorder import Recorder
from isotone.trace.writer import Level, TraceWriter
from tests.ports import free_port

RUN = "isotone"
DEADLINE_S = 60.0


class LocalCluster:
    """Its daemons by name; one that was started again is another `Node` with the same state."""

    def __init__(
        self,
        directory: Path,
        names: Sequence[str],
        base: NodeSettings,
        hooks: Hooks | None = None,
        sites: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.names = tuple(names)
        self.nodes: dict[str, Node] = {}
        self._addresses: dict[str, Address] = {}
        self._ports = defaultdict[str, int](free_port)  # the same after a restart
        self.hooks = hooks
        self._base, self._sites = base, sites or {}
        self._wakes = asyncio.Event()

    def settings(self, name: str) -> NodeSettings:
        """Those of one daemon, with all others that have an address."""
        known = tuple(
            KnownDaemon(other, self._site(other), where) for other, where in self._addresses.items() if other != name
        )
        membership = msgspec.structs.replace(self._base.stack.membership, known=known)
        return msgspec.structs.replace(
            self._base,
            name=name,
            site=self._site(name),
            port=self._ports[name],
            stack=msgspec.structs.replace(self._base.stack, membership=membership),
            state_directory=self.directory / name,
        )

    def _site(self, name: str) -> str:
        return self._sites.get(name, "lan")

    async def start(self, name: str) -> Node:
        """Start it, or start it again where it was."""
        node = self.nodes[name] = Node(self.settings(name), self.hooks)
        await node.start()
        node.observers.append(lambda at: self._wakes.set())
        self._addresses[name] = node.address
        return node

    async def until(self, condition: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
        """Look after every wake-up of any daemon."""
        async with asyncio.timeout(within_s):
            while not condition():
                self._wakes.clear()
                await self._wakes.wait()

    async def together(self, *names: str) -> None:
        """Until these are in one daemon view, and nobody else is."""
        wanted = set(names or self.names)

        def is_there() -> bool:
            nodes = [self.nodes[name] for name in wanted]
            return all(node.is_ready and {m.name for m in node.stack.membership.members} == wanted for node in nodes)

        await self.until(is_there)

    def finish_trace(self) -> None:
        """Whoever drives the faults says that they are over: all are one component now."""
        writer = TraceWriter(self.directory / "trace", RUN, "", 0, level=Level.FULL)
        recorder = Recorder(writer.append)
        recorder.record("", 0, 0, Stabilised((self.names,)))
        recorder.record("", 0, 1, Ended(quiet=True))
        writer.close()


@asynccontextmanager
async def local_cluster(
    directory: Path,
    names: Sequence[str] = ("d1", "d2", "d3"),
    *,
    base: NodeSettings | None = None,
    hooks: Hooks | None = None,
    sites: Mapping[str, str] | None = None,
    start: bool = True,
) -> AsyncIterator[LocalCluster]:
    """All started and in one daemon view."""
    cluster = LocalCluster(directory, names, base or traced(directory), hooks, sites)
    try:
        if start:
            for name in names:
                await cluster.start(name)
            await cluster.together()
        yield cluster
    finally:
        for node in cluster.nodes.values():
            if node.phase is not Phase.NEW:
                await node.stop()


def traced(directory: Path, **changes: object) -> NodeSettings:
    """Settings with a full trace."""
    return msgspec.structs.replace(
        NodeSettings(
            name="d",
            stack=StackSettings(membership=MembershipSettings()),
            trace=TraceSettings(level=Level.FULL, directory=directory / "trace", run=RUN),
        ),
        **changes,
    )
