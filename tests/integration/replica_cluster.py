"""Servers of a replicated log as real processes on loopback, each beside its daemon."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from isotone.cli.local_cluster import LOOPBACK, LocalDaemon, Place, quoted
from isotone.core.errors import IsotoneError
from isotone.host.log_client import RemoteLog
from tests.integration.cluster import WITHIN_S, RealCluster, run
from tests.integration.forks import Forked
from tests.ports import free_port, free_ports

__all__ = ["ReplicaCluster", "isotone", "replica_cluster", "run"]


class ServerProcess(LocalDaemon):
    """``isotone replica start``."""

    def start(self) -> None:
        assert self.process is None or self.process.poll() is not None, "it runs already"
        words = ["replica", "start", str(self.settings), "--dev", "--name", self.place.name]
        self.process = Forked(words, self.log)  # type: ignore[assignment]


class ReplicaCluster(RealCluster):
    """Servers by name; the daemon of each has the same name."""

    def __init__(self, directory: Path, names: str = "abc", *, replica: str = "") -> None:
        self.ports: dict[str, int] = {}
        self.replica = replica  # further lines of [replica], and tables below it
        self.tracing = ['level = "off"']
        self.learners: list[str] = []
        self.alone: list[Forked] = []
        self.daemons = {}
        super().__init__(directory, dict.fromkeys(names, "s1"))

    def _place(self, place: Any) -> None:
        self.ports[place.name] = free_port()
        self.daemons[place.name] = ServerProcess(place, self.settings, self.directory / f"{place.name}.log")  # type: ignore[assignment]

    def joins(self, name: str) -> None:
        """A server more, which is no founder."""
        self.learners.append(name)
        port, admin = free_ports(2)
        self._place(Place(name=name, site="s1", port=port, admin_port=admin))

    def start_daemons(self) -> None:
        """By themselves, where servers are their clients."""
        self.settings.write_text(self.text(), encoding="utf-8")
        for name in self.names:
            words = ["daemon", "run", str(self.settings), "--dev", "--name", name]
            self.alone.append(Forked(words, self.directory / f"{name}.daemon.log"))

    def end(self) -> None:
        super().end()
        for process in self.alone:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def traced(self) -> Path:
        """From the next start on every server leaves a trace here."""
        directory = self.directory / "traces"
        self.tracing = ['level = "full"', f"directory = {quoted(directory)}"]
        return directory

    def store(self, name: str) -> Path:
        return self.directory / "state" / f"{name}.replica"

    def port(self, name: str) -> str:
        return f"{LOOPBACK}:{self.ports[name]}"

    def client(self, *names: str) -> RemoteLog:
        return RemoteLog([self.port(name) for name in names or self.names])

    def text(self) -> str:
        lines = ["[cluster]", 'name = "replicated"', f"state_directory = {quoted(self.directory / 'state')}"]
        for daemon in self.daemons.values():
            place = daemon.place
            lines += ["[[daemon]]", f'name = "{place.name}"', f'address = "{LOOPBACK}"']
            lines += [f"port = {place.port}", f"admin_port = {place.admin_port}"]
        lines += ["[trace]", *self.tracing, "[faults]", "enabled = true"]
        lines += ["[replica]", "reserve_bytes = 0", self.replica]
        for name in self.names:
            lines += ["[[replica.server]]", f'name = "{name}"', f"port = {self.ports[name]}"]
            lines += ["joins = true"] if name in self.learners else []
        return "\n".join([*lines, self.extra, ""])

    async def status(self, name: str) -> dict[str, Any]:
        """As it says itself; empty while it does not answer."""
        log = RemoteLog(self.port(name))
        log.patience.connect_within_us = 1_000_000
        try:
            async with log:
                return await log.status()
        except IsotoneError:
            return {}

    async def primary(self, *names: str, within_s: float = WITHIN_S) -> None:
        """These, and nobody else, are in a primary component, as each of them says."""
        wanted = sorted(names or self.names)
        try:
            async with asyncio.timeout(within_s):
                for name in wanted:
                    while True:
                        assert self.daemons[name].ended is None, f"{name} ended: {self.daemons[name].tail()}"
                        status = await self.status(name)
                        if status and status["is_primary"] and status["here"] == wanted:
                            break
                        await asyncio.sleep(0.05)
        except TimeoutError:
            told = "\n".join(f"--- {name}\n{self.daemons[name].tail()}" for name in self.names)
            raise AssertionError(f"no primary component of {wanted}: {told}") from None

    async def until_status(self, name: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        """A server says something about itself."""
        async with asyncio.timeout(WITHIN_S):
            while not ((status := await self.status(name)) and is_so(status)):
                await asyncio.sleep(0.05)

    async def until_done(self, is_done: Callable[[], bool]) -> None:
        """A command succeeds."""
        await self.until(is_done, "it is done")

    async def records(self, name: str) -> list[bytes]:
        """All green records that this server has."""
        async with RemoteLog(self.port(name)) as log:
            status = await log.status()
            return [entry.record for entry in await log.read(status["first_position"], status["green_position"])]


class Done(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str


def isotone(*words: str | Path) -> Done:
    """A command, to its end."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory) / "out", Path(directory) / "err"
        code = Forked(list(map(str, words)), out, err).wait(WITHIN_S)
        return Done(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def told(*words: str | Path) -> Any:
    """What a command with --json says; it must be fine."""
    done = isotone(*words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@asynccontextmanager
async def replica_cluster(
    directory: Path, names: str = "abc", *, replica: str = "", start: bool = True
) -> AsyncIterator[ReplicaCluster]:
    """A primary component of all."""
    cluster = ReplicaCluster(directory, names, replica=replica)
    try:
        if start:
            cluster.start()
            await cluster.primary()
        yield cluster
    finally:
        cluster.end()
