"""A daemon of the simulator behind the interface of administration, and a client of its port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from isotone.core.contract import Automaton
from isotone.core.errors import InputError
from isotone.daemon.admin.http import HttpLimits
from isotone.daemon.admin.operated import TraceStatus
from isotone.daemon.admin.principals import Judge
from isotone.daemon.admin.server import AdminServer, AdminSettings
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.stack import Stack
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL, Boot
from tests.evs.explain.house import House


class Inn(House):
    """A house whose daemons also have sessions."""

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        program = super()._program(boot)
        stack = program[SERVICE_LABEL]
        assert isinstance(stack, Stack)
        stack.sessions = ServerSessions(boot.daemon, secret=b"sixteen bytes or more")
        return {SERVICE_LABEL: stack, CLIENTS_LABEL: program[CLIENTS_LABEL]}


class FakeNode:
    """One daemon of a house."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name, self.cluster = house, name, "test"
        self.level, self.failed = "buffered", ""
        self.rules: list[dict[str, object]] | None = None
        self.stopped: list[str] = []
        self.reload_error = ""
        self.gateway = None

    @property
    def stack(self) -> Stack:
        return self.house.stack(self.name)

    def now(self) -> int:
        return self.house.now(self.name)

    @property
    def why_not_ready(self) -> str:
        answer = self.house.view(self.name)
        return "" if answer.is_working else answer.text

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        return {"node": {"datagrams_sent": 3}, "guard": {"refused: wrong key": 2}}

    def directories(self) -> Mapping[str, str]:
        return {"trace": "/", "state": "/no/such/place"}

    def trace_status(self) -> TraceStatus:
        return TraceStatus(level=self.level, rows=7, failed=self.failed)

    def set_trace_level(self, level: str) -> None:
        if level not in ("off", "buffered", "full"):
            raise InputError(f"no such level: {level}")
        self.level = level

    def fault_rules(self) -> list[dict[str, object]] | None:
        return self.rules

    def set_fault_rules(self, rules: list[dict[str, object]]) -> None:
        self.rules = rules

    async def reload(self) -> list[str]:
        if self.reload_error:
            raise InputError(self.reload_error)
        return ["trace level"]

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)


class Audited:
    """Keeps the audit log."""

    def __init__(self) -> None:
        self.acts: list[tuple[str, str, str]] = []

    def record(self, principal: str, act: str, outcome: str = "done", peer: str = "", **details: object) -> None:
        self.acts.append((principal, act, outcome))


class Port:
    """A running administration port; ``ask`` is one request on a connection of its own."""

    def __init__(self, node: FakeNode, *, judge: Judge | None = None, limits: HttpLimits | None = None, **more: Any):
        self.audit = Audited()
        settings = AdminSettings(address="127.0.0.1:0", limits=limits or HttpLimits(), **more)
        self.server = AdminServer(node, settings, judge=judge, audit=self.audit)

    async def __aenter__(self) -> Port:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    async def raw(self, data: bytes, *, end: bool = False) -> bytes:
        """Send bytes, read until the daemon closes."""
        host, _, port = self.server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        if end:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and decoded body."""
        content = b"" if body is None else json.dumps(body).encode()
        fields = {"Host": "localhost", "Connection": "close", "Content-Length": str(len(content))}
        if body is not None:
            fields["Content-Type"] = "application/json"
        fields |= headers or {}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        answer = await self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
        first, _, rest = answer.partition(b"\r\n")
        text = rest.partition(b"\r\n\r\n")[2]
        return int(first.split()[1]), json.loads(text) if text.startswith(b"{") else text.decode()
