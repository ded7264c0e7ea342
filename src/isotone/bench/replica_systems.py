"""Replicated logs to be measured beside ours: three real processes each on loopback, with their own clients.

What each makes durable before it answers is stated with its figures: comparing is only fair where it is the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from isotone.bench.replica_grpc import GrpcConnection
from isotone.core.errors import IsotoneError, MachineError
from isotone.daemon.ports import LOOPBACK, free_ports
from isotone.host.log_client import RemoteLog

SERVERS = ("a", "b", "c")
START_WITHIN_S = 120.0
LOOK_S = 0.1
Append = Callable[[bytes], Awaitable[object]]


class System(ABC):
    """One kind of replicated log, started in a directory of its own."""

    name: str
    durability: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        directory.mkdir(parents=True)

    @staticmethod
    @abstractmethod
    def missing() -> str:
        """What this machine lacks for it; empty when nothing."""

    @abstractmethod
    def command(self, server: str) -> list[str]:
        """What starts a server."""

    @abstractmethod
    async def client(self, number: int) -> Append:
        """A client with a connection of its own, to one server after another; raises `OSError` while there is none."""

    def start(self, *servers: str) -> None:
        """The processes; they end with us."""
        for server in servers or SERVERS:
            with (self.directory / f"{server}.log").open("ab") as log:
                self.processes[server] = subprocess.Popen(
                    self.command(server), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )

    async def ready(self) -> None:
        """Until a record is ordered."""
        deadline = time.monotonic() + START_WITHIN_S
        while True:
            try:
                append = await self.client(0)
                await asyncio.wait_for(append(b"x"), 5.0)
                return
            except (OSError, TimeoutError, IsotoneError, EOFError) as error:
                if time.monotonic() > deadline:
                    raise MachineError(f"{self.name} does not start: {error}; see {self.directory}") from error
                await asyncio.sleep(LOOK_S)

    def kill(self, server: str) -> None:
        """At once."""
        self.processes[server].send_signal(signal.SIGKILL)
        self.processes[server].wait()

    def stop(self, server: str) -> None:
        """It is there, and does nothing any more."""
        self.processes[server].send_signal(signal.SIGSTOP)

    def end(self) -> None:
        """All of them."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait()

    def cpu_seconds(self, *servers: str) -> float:
        """Of these servers, or of all, since they began."""
        total = 0.0
        for server in servers or self.processes:
            tasks = Path(f"/proc/{self.processes[server].pid}/task")
            for thread in os.listdir(tasks):
                with suppress(OSError):  # it ended meanwhile
                    total += int((tasks / thread / "schedstat").read_text().split()[0]) / 1e9
        return total


class Isotone(System):
    """Ours: each server beside its daemon in one process."""

    name = "isotone"
    durability = "synced by every server of the primary component before the answer"

    def __init__(self, directory: Path, learner: str = "") -> None:
        super().__init__(directory)
        names = (*SERVERS, learner) if learner else SERVERS
        numbers = free_ports(3 * len(names))
        self.ports = dict(zip(names, zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True), strict=True))
        self._learner = learner
        self.settings = directory / "isotone.toml"
        self.settings.write_text(self._text(), encoding="utf-8")

    def _text(self) -> str:
        state = json.dumps(str(self.directory / "state"))
        lines = ["[cluster]", 'name = "bench"', f"state_directory = {state}", "[trace]", 'level = "off"']
        lines += ["[admin]", 'log_level = "warning"', "[replica]", "reserve_bytes = 0"]
        for server, (port, admin, own) in self.ports.items():
            lines += ["[[daemon]]", f'name = "{server}"', f"port = {port}", f"admin_port = {admin}"]
            lines += ["[[replica.server]]", f'name = "{server}"', f"port = {own}"]
            lines += ["joins = true"] if server == self._learner else []
        return "\n".join([*lines, ""])

    @staticmethod
    def missing() -> str:
        return ""

    def command(self, server: str) -> list[str]:
        words = [sys.executable, "-m", "isotone.cli", "replica", "start", str(self.settings), "--dev"]
        return [*words, "--name", server, "--end-with", str(os.getpid())]

    def address(self, server: str) -> str:
        """Of its port."""
        return f"{LOOPBACK}:{self.ports[server][2]}"

    async def client(self, number: int) -> Append:
        log = RemoteLog(self.address(SERVERS[number % len(SERVERS)]))
        await log.__aenter__()
        return log.append


class Etcd(System):
    """etcd, by gRPC: one key after another is put."""

    name = "etcd"
    durability = "synced by a majority before the answer"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        numbers = free_ports(2 * len(SERVERS))
        self.ports = dict(zip(SERVERS, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
        self._clients = 0

    @staticmethod
    def missing() -> str:
        return "" if shutil.which("etcd") else "etcd is not installed (Debian: etcd-server)"

    def command(self, server: str) -> list[str]:
        port, peer = self.ports[server]
        cluster = ",".join(f"{each}=http://{LOOPBACK}:{other}" for each, (_, other) in self.ports.items())
        return [
            shutil.which("etcd") or "etcd",
            f"--name={server}",
            f"--data-dir={self.directory / server}",
            f"--listen-client-urls=http://{LOOPBACK}:{port}",
            f"--advertise-client-urls=http://{LOOPBACK}:{port}",
            f"--listen-peer-urls=http://{LOOPBACK}:{peer}",
            f"--initial-advertise-peer-urls=http://{LOOPBACK}:{peer}",
            f"--initial-cluster={cluster}",
            "--log-level=error",
        ]

    async def client(self, number: int) -> Append:
        connection = await GrpcConnection.open(LOOPBACK, self.ports[SERVERS[number % len(SERVERS)]][0])
        self._clients += 1
        name, count = b"%d" % self._clients, 0

        async def append(record: bytes) -> None:
            nonlocal count
            count += 1
            await connection.put(b"%s-%d" % (name, count), record)

        return append


class Nats(System):
    """NATS JetStream: a stream with three replicas, on files."""

    name = "NATS JetStream"
    durability = "written by a majority before the answer; this version syncs files every two minutes"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        numbers = free_ports(2 * len(SERVERS))
        self.ports = dict(zip(SERVERS, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
        version = subprocess.run([self._program(), "--version"], capture_output=True, text=True, check=False).stdout
        self.syncs_always = tuple(map(int, version.split("v")[-1].strip().split(".")[:2])) >= (2, 10)
        if self.syncs_always:
            self.durability = "synced by a majority before the answer (sync_interval: always)"
        self._made = False

    @staticmethod
    def _program() -> str:
        return shutil.which("nats-server") or "/usr/sbin/nats-server"

    @staticmethod
    def missing() -> str:
        there = Path(Nats._program()).exists()
        return "" if there else "nats-server is not installed (Debian: nats-server)"

    def command(self, server: str) -> list[str]:
        port, own = self.ports[server]
        routes = ", ".join(f"nats://{LOOPBACK}:{other}" for _, other in self.ports.values())
        sync = "sync_interval: always" if self.syncs_always else ""
        text = (
            f"server_name: {server}\nlisten: {LOOPBACK}:{port}\n"
            f'jetstream {{ store_dir: "{self.directory / server}" {sync} }}\n'
            f"cluster {{ name: bench, listen: {LOOPBACK}:{own}, routes: [{routes}] }}\n"
        )
        path = self.directory / f"{server}.conf"
        path.write_text(text, encoding="utf-8")
        return [self._program(), "-c", str(path)]

    async def client(self, number: int) -> Append:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.ports[SERVERS[number % len(SERVERS)]][0])
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB inbox.%d 1\r\n' % id(writer))
        inbox = b"inbox.%d" % id(writer)

        async def ask(subject: bytes, body: bytes) -> dict[str, object]:
            writer.write(b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(body), body))
            while True:
                line = await reader.readline()
                if not line:
                    raise EOFError("the connection is closed")
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"MSG"):
                    answer: dict[str, object] = json.loads(await reader.readexactly(int(line.split()[-1])))
                    await reader.readline()
                    return answer

        if not self._made:
            made = {"name": "LOG", "subjects": ["log"], "num_replicas": len(SERVERS), "storage": "file"}
            made |= {"retention": "limits", "max_age": 0}
            answer = await asyncio.wait_for(ask(b"$JS.API.STREAM.CREATE.LOG", json.dumps(made).encode()), 5.0)
            if "error" in answer and "already" not in json.dumps(answer):
                raise MachineError(json.dumps(answer["error"]))
            self._made = True

        async def append(record: bytes) -> None:
            answer = await ask(b"log", record)
            if "seq" not in answer:
                raise MachineError(json.dumps(answer))

        return append


class PySyncObj(System):
    """PySyncObj, from its package: a small server around it, in `replica_pysyncobj`."""

    name = "PySyncObj"
    durability = "written to a journal file by a majority before the answer, not synced"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        numbers = free_ports(2 * len(SERVERS))
        self.ports = dict(zip(SERVERS, zip(numbers[::2], numbers[1::2], strict=True), strict=True))

    @staticmethod
    def missing() -> str:
        return "" if find_spec("pysyncobj") else "pysyncobj is not installed (pip install pysyncobj)"

    def command(self, server: str) -> list[str]:
        port, own = self.ports[server]
        others = [f"{LOOPBACK}:{peer}" for each, (_, peer) in self.ports.items() if each != server]
        words = [sys.executable, "-m", "isotone.bench.replica_pysyncobj", str(port), f"{LOOPBACK}:{own}"]
        return [*words, str(self.directory / server), *others]

    async def client(self, number: int) -> Append:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.ports[SERVERS[number % len(SERVERS)]][0])

        async def append(record: bytes) -> None:
            writer.write(len(record).to_bytes(4, "little") + record)
            if await reader.readexactly(1) != b"+":
                raise MachineError("refused")

        return append


SYSTEMS: tuple[type[System], ...] = (Isotone, Etcd, Nats, PySyncObj)
