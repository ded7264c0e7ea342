"""Whole daemons with clients in a small world, for questions about them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TypeVar

import msgspec

from isotone.core.contract import Address, Automaton
from isotone.core.ids import ClientId, MessageId, Stamp
from isotone.core.services import Service
from isotone.evs.explain import (
    ExclusionAnswer,
    MessageAnswer,
    Status,
    ViewAnswer,
    status,
    why_excluded,
    why_no_view,
    why_not_delivered,
)
from isotone.evs.groups import State as GroupsState
from isotone.evs.membership import KnownDaemon, MembershipSettings, State
from isotone.evs.membership.network import Network
from isotone.evs.stack import Stack, StackSettings
from isotone.sim.evs_clients import Clients, Session, StepDue
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.plan import Step
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL, Boot
from isotone.sim.workload import ConnectStep, JoinStep, SendStep
from isotone.sim.world import World
from isotone.trace.events import Row

MILLISECOND = 1_000
Answer = TypeVar("Answer")
QUIET = NetworkSettings(lan=LinkSettings(jitter_us=20), wan=LinkSettings(latency_us=10_000, jitter_us=500))


class House:
    """``sites`` as in "ab c": one word per site, one letter per daemon; each daemon has a client of the same name."""

    def __init__(self, sites: str, *, pruning: bool = False, settings: MembershipSettings | None = None) -> None:
        self.home = {letter: word for word in sites.split() for letter in word}
        known = tuple(KnownDaemon(name, site, Address(f"{name}.1")) for name, site in self.home.items())
        base = msgspec.structs.replace(settings or MembershipSettings(), known=known)
        self.settings = StackSettings(membership=base, pruning=pruning)
        self.own: dict[str, StackSettings] = {}  # where one daemon has other settings
        self.identities: dict[str, str] = {}  # where one daemon has that of another
        self.rows: list[Row] = []
        self.world = World(seed=1, network=QUIET, sink=self.rows.append)
        for name, site in self.home.items():
            self.world.add_process(name, self._program, site=site, start=False)

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        name = boot.daemon.name
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(self.identities.get(name, name).encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self.own.get(name, self.settings),
        )
        return {SERVICE_LABEL: stack, CLIENTS_LABEL: Clients(boot.daemon)}

    # --- doing -----------------------------------------------------------------------------------------------------

    def start(self) -> House:
        """All daemons, until they are together; then their clients, all in the group ``g``."""
        for name in self.home:
            self.world.restart(name)
        self.until(self.is_together)
        for name in self.home:
            self.step(ConnectStep(0, name, name))
            self.step(JoinStep(0, name, name, "g"))
        self.until(lambda: all(self._has_everybody(name) for name in self.home))
        self.until(self.is_quiet)
        return self

    def _has_everybody(self, name: str) -> bool:
        view = self.session(name).views.get("g")
        return view is not None and len(view.members) == len(self.home)

    def step(self, step: Step) -> None:
        self.world.tell(step.node, CLIENTS_LABEL, StepDue(0, step))
        self.world.run_for(0)

    def send(self, name: str, service: Service, *lengths: int, group: str = "g") -> MessageId:
        """The id of the first message."""
        first = self.session(name).sent + 1
        self.step(SendStep(0, name, name, service, (group,), lengths or (20,)))
        return MessageId(self.client(name), first)

    def run(self, milliseconds: float) -> None:
        self.world.run_for(int(milliseconds * MILLISECOND))

    def until(self, reached: Callable[[], bool], limit_ms: int = 20_000, step_ms: float = 2) -> None:
        for _ in range(int(limit_ms / step_ms)):
            if reached():
                return
            self.run(step_ms)
        raise AssertionError("\n".join(self.view(name).text for name in self.home if self.world.is_up(name)))

    # --- looking ---------------------------------------------------------------------------------------------------

    def stack(self, name: str) -> Stack:
        stack = self.world.automaton(name, SERVICE_LABEL)
        assert isinstance(stack, Stack)
        return stack

    def network(self, name: str) -> Network:
        network = self.stack(name).membership.node.network
        assert network is not None
        return network

    def session(self, name: str) -> Session:
        clients = self.world.automaton(name, CLIENTS_LABEL)
        assert isinstance(clients, Clients)
        return clients.sessions[name]

    def client(self, name: str) -> ClientId:
        return self.session(name).id

    def is_together(self, names: str = "") -> bool:
        wanted = sorted(names or self.home)
        ids = {self.stack(name).membership.view for name in wanted}
        return len(ids) == 1 and all(
            self.stack(name).membership.state is State.OP
            and self.stack(name).groups.state is GroupsState.GOP
            and [member.name for member in self.stack(name).membership.members] == wanted
            for name in wanted
        )

    def is_quiet(self) -> bool:
        return not any(self.network(name).transport.delivery.kept_bytes for name in self.home)

    def unit_stamp(self, name: str, message: MessageId) -> Stamp:
        """The stamp of a message that is kept at this daemon."""
        lamport, _, daemon = self.message(name, message).stamp.partition("!")
        assert daemon == str(message.sender.daemon)
        return Stamp(int(lamport), message.sender.daemon)

    # --- asking ----------------------------------------------------------------------------------------------------

    def now(self, name: str) -> int:
        return self.world.clock(name)

    def message(self, name: str, message: Stamp | MessageId) -> MessageAnswer:
        return _encodable(why_not_delivered(self.stack(name), message, self.now(name)))

    def view(self, name: str) -> ViewAnswer:
        return _encodable(why_no_view(self.stack(name), self.now(name)))

    def exclusion(self, name: str, other: str) -> ExclusionAnswer:
        return _encodable(why_excluded(self.stack(name), other, self.now(name)))

    def status(self, name: str) -> Status:
        return _encodable(status(self.stack(name), self.now(name)))


def _encodable(answer: Answer) -> Answer:
    """Every answer goes through JSON and back, and is one line."""
    again = msgspec.json.decode(msgspec.json.encode(answer), type=type(answer))
    assert again == answer
    assert "\n" not in str(getattr(answer, "text", ""))
    return answer
