"""Authorities and nodes of flows as real processes, and what a node's client does.

Implements: [Flows 3.1], [Flows 4.1]. Deviations: none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from isotone.core.contract import Address, Automaton
from isotone.core.errors import InputError, LocalProtocolError
from isotone.flows.authority import Authority, RingSettings
from isotone.flows.client import FlowOutput, InputGiven, PacketTaken, ShareOutput
from isotone.flows.compiler import compile_text
from isotone.flows.node import FlowNode
from isotone.flows.values import Value
from isotone.host import flow_values
from isotone.host.flow_invitations import Invitation
from isotone.host.flow_process import FlowProcess

Tell = Callable[[str, str, object], None]
"""Which node, what, and its value: outputs, a packet, a version applied or confirmed, how often it was left out."""
Apply = Callable[[int], Awaitable[bool]]
"""Put a version into effect; False if that failed, and it is to be tried again."""


async def start_authority(
    rings: Callable[[str], Mapping[str, RingSettings]], host: str, port: int, state: Path
) -> FlowProcess:
    """An authority; ``rings`` is told the address."""

    def make(address: Address, incarnation: int) -> Automaton:
        return Authority(rings(address))

    process = FlowProcess(make, state=state, status=_authority_status)
    await process.start(host, port)
    return process


def _authority_status(automaton: Automaton) -> object:
    assert isinstance(automaton, Authority)
    return {name: {"view": number, "members": list(names)} for name, (number, names) in automaton.numbers().items()}


class RunningNode:
    """A node, its last outputs, and a client that goes along with phases or versions, or is driven from outside."""

    def __init__(self, invitation: Invitation, name: str, tell: Tell | None = None) -> None:
        self.name = name
        self._left_out = 0
        self.heard: dict[str, Value] = {}
        self.dealt: dict[str, Value] = {}  # its last share of what is distributed
        self.entered = 0
        self._invitation = invitation
        self._rules = compile_text(invitation.program)
        self._tell = tell
        self._apply: Apply | None = None
        self._target = 0
        self._applying: asyncio.Task[None] | None = None
        self.process = FlowProcess(
            self._make,
            performers={FlowOutput: self._on_output, ShareOutput: self._on_share, PacketTaken: self._on_packet},
            status=self._status,
            looked=self._look,
        )

    def _make(self, address: Address, incarnation: int) -> Automaton:
        return FlowNode(
            me=f"{self.name}@{address}#{incarnation}",
            name=self.name,
            address=address,
            ring=self._invitation.ring,
            authority=Address(self._invitation.authority),
            rules=self._rules,
        )

    async def start(self, host: str, port: int) -> None:
        """Bind and join."""
        await self.process.start(host, port)

    def follow_versions(self, target: int, apply: Apply) -> None:
        """Of the program ``phases``: enter each version that may be entered, up to the target, by applying it."""
        if self._rules.program != "phases":
            raise InputError(f"versions follow the program phases, not {self._rules.program}")
        self._target, self._apply = target, apply
        self._go_on()

    def give(self, plain: Mapping[str, Any]) -> None:
        """Inputs from outside, as JSON has them; an `InputError` for what the program does not have."""
        types = {each.name: each.type for each in self._rules.inputs}
        values: dict[str, Value] = {}
        for name, value in plain.items():
            if name not in types:
                raise InputError(f"{self._rules.program} has no input {name}; it has {', '.join(types)}")
            try:
                values[name] = flow_values.given(value, types[name])
            except ValueError as error:
                raise InputError(f"{name}: {error}") from error
        node = self.process.automaton
        assert isinstance(node, FlowNode)
        try:
            node.check_inputs(values)
        except LocalProtocolError as error:
            raise InputError(str(error)) from error
        self.process.tell(lambda at: InputGiven(at, values))

    @property
    def is_admitted(self) -> bool:
        """Whether the authority of its ring answered."""
        node = self.process.automaton
        assert isinstance(node, FlowNode)
        return bool(node.stack) and node.stack[0].is_booted

    @property
    def is_counted(self) -> bool:
        """Whether it counts in its ring, and in the rings above as far as it leads."""
        node = self.process.automaton
        assert isinstance(node, FlowNode)
        return node.is_regular and all(each.ring.regular for each in node.stack)

    def close(self) -> None:
        """Leave."""
        if self._applying is not None:
            self._applying.cancel()
        self.process.close()

    # --- outputs ---------------------------------------------------------------------------------------------------

    def _look(self, automaton: Automaton) -> None:
        """After each event: say so when a ring went on without us."""
        assert isinstance(automaton, FlowNode)
        if self._tell and automaton.left_out != self._left_out:
            self._left_out = automaton.left_out
            self._tell(self.name, "left_out", self._left_out)

    def _on_output(self, action: FlowOutput) -> None:
        self.heard = dict(action.values)
        if self._tell:
            self._tell(self.name, "outputs", {name: flow_values.told(value) for name, value in action.values.items()})
        self._go_on()

    def _on_share(self, action: ShareOutput) -> None:
        self.dealt = dict(action.values)
        if self._tell:
            self._tell(self.name, "outputs", {name: flow_values.told(value) for name, value in action.values.items()})

    def _on_packet(self, action: PacketTaken) -> None:
        if self._tell:
            self._tell(self.name, "packet", action.number)

    def _go_on(self) -> None:
        """The next version that we may enter; one at a time, or at once the highest after a restart."""
        may = self.heard.get("N")
        if self._apply is None or self._applying is not None or not isinstance(may, int):
            return
        version = min(may, self._target)
        if version > self.entered:
            self._applying = asyncio.get_running_loop().create_task(self._enter(version))

    async def _enter(self, version: int) -> None:
        assert self._apply is not None
        if self._tell:
            self._tell(self.name, "applying", version)
        done = await self._apply(version)
        self._applying = None
        if done:
            self.entered = version
            if self._tell:
                self._tell(self.name, "confirmed", version)
            self.process.tell(lambda at: InputGiven(at, {"L": version}))
            self._go_on()

    def _status(self, automaton: Automaton) -> object:
        assert isinstance(automaton, FlowNode)
        return {
            "node": self.name,
            "program": self._rules.program,
            "regular": automaton.is_regular,
            "rings": [
                {
                    "ring": each.name,
                    "view": each.ring.number,
                    "members": len(each.ring.members),
                    "regular": each.ring.regular,
                    "leads": each.ring.leads,
                    "token_ms": each.pace.interval_us / 1_000,
                    "ranges_max": each.pace.ranges_max,
                }
                for each in automaton.stack
            ],
            "left_out": automaton.left_out,
            "too_long": automaton.too_long,
            "version": list(automaton.heard_version),
            "outputs": {name: flow_values.told(value) for name, value in self.heard.items()},
        }
