"""Processes with the toolkit on three layers: one by hand, ISIS kernels, and a view-synchronous group.

By hand there is one total order, delivered at once. The others run in the simulator above the oracle, at five sites of
which three are used; so that two may fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Action, Event
from isotone.core.errors import LocalProtocolError
from isotone.isis.names import name_of, site_of
from isotone.isis.settings import IsisSettings
from isotone.isis.toolkit.callers import Answered
from isotone.isis.toolkit.evs_layer import EvsLayer
from isotone.isis.toolkit.kernel_layer import KernelLayer
from isotone.isis.toolkit.layer import (
    CastWanted,
    EnterWanted,
    Exited,
    ExitWanted,
    Heard,
    Operational,
    Secured,
    SecureWanted,
    TellWanted,
    Told,
    Viewed,
)
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.objects import OperationCall, component_tools, nested, reads
from isotone.isis.toolkit.process import GroupKind, Toolkit
from isotone.isis.toolkit.programs import SYSTEM_GROUP, system_tools
from isotone.isis.toolkit.wire import encode
from isotone.sim.evs_system import ToldOracle
from isotone.sim.process import Boot
from isotone.sim.toolkit.node import APPLICATION
from isotone.sim.world import World
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised

SITES = ("a", "b", "c")


class Counter:
    """A counter with a friend."""

    total: int

    def __init__(self) -> None:
        self.total = 0
        self.by: dict[str, int] = {}

    def add(self, name: str, more: int) -> int:
        self.total += more
        self.by[name] = self.by.get(name, 0) + more
        if more < 0:
            raise ValueError("nothing less than 0")
        return self.total

    @reads
    def read(self) -> int:
        return self.total

    async def add_both(self, more: int) -> int:
        self.total += more
        there: int = await nested("other").add("friend", more)
        return there


@dataclass
class ByHand:
    """The layer of one process; the network moves what it is asked."""

    asked: list[Event] = field(default_factory=list)
    periodic_timers: tuple[str, ...] = ()
    has_labels: bool = True
    trouble: str = ""

    def handle(self, event: Event) -> list[Action]:
        self.asked.append(event)
        return []


class Net:
    """Processes by name, and what they said to their applications."""

    said: dict[str, list[Action]]
    toolkits: dict[str, Toolkit]  # of those that run
    names: tuple[str, ...]
    quorum = 1

    def kinds(self, group: str) -> GroupKind | None:
        """What groups are made of."""
        if group == SYSTEM_GROUP:
            return GroupKind(system_tools)
        return GroupKind(component_tools(Counter, (*SITES, "d", "e")), self.quorum)

    def tell(self, me: str, *events: Event) -> None:
        """An application tells its toolkit, and all that follows happens."""
        raise NotImplementedError

    def crash(self, me: str) -> None:
        """A process ends, and the others find it out."""
        raise NotImplementedError

    def answers(self, me: str) -> list[Answered]:
        """What a process heard on its calls."""
        return [each for each in self.said[me] if isinstance(each, Answered)]

    def member(self, me: str, group: str) -> Member:
        """Of a process."""
        return self.toolkits[me].members[group]

    def tool(self, me: str, group: str, name: str) -> Tool:
        """Of a process that is ready."""
        return self.toolkits[me].tool(group, name)


class HandNet(Net):
    """On layers by hand."""

    def __init__(self, *names: str, quorum: int = 1) -> None:
        self.groups: dict[str, tuple[str, ...]] = {}
        self.numbers = 0
        self.said = {}
        self.toolkits = {}
        self.names = tuple(f"{name}.1/tools" for name in names)
        self.layers: dict[str, ByHand] = {}
        self.quorum = quorum
        for name in names:
            self.start(name)

    def start(self, name: str) -> Toolkit:
        layer = ByHand()
        toolkit = Toolkit(layer, self.kinds)
        me = f"{name}.1/tools"
        self.layers[me], self.toolkits[me], self.said[me] = layer, toolkit, []
        toolkit.out.me = me
        return toolkit

    def tell(self, me: str, *events: Event) -> None:
        for event in events:
            self.said[me] += self.toolkits[me].handle(event)
        self.run()

    def heard(self, me: str, *actions: Action) -> None:
        toolkit = self.toolkits[me]
        for action in actions:
            assert isinstance(action, Heard | Viewed | Told | Exited | Operational | Secured)
            toolkit._hear(action)
            self.said[me] += toolkit._settle([])

    def run(self) -> None:
        """Until nothing is asked."""
        moved = True
        while moved:
            moved = False
            for me in list(self.layers):
                asked, self.layers[me].asked = self.layers[me].asked, []
                for event in asked:
                    moved = True
                    self._move(me, event)

    def _move(self, me: str, event: Event) -> None:
        match event:
            case EnterWanted(group=group):
                self.view(group, (*self.groups.get(group, ()), me))
            case ExitWanted(group=group):
                self.view(group, tuple(each for each in self.groups[group] if each != me))
                self.heard(me, Exited(group))
            case CastWanted(group=group, body=body):
                for member in self.groups.get(group, ()):
                    self.heard(member, Heard(group, me, body))
            case SecureWanted(token=token):
                self.heard(me, Secured(token))
            case TellWanted(to=to, body=body):
                if to in self.toolkits:
                    self.heard(to, Told(me, body))

    def view(self, group: str, members: tuple[str, ...]) -> None:
        self.numbers += 1
        self.groups[group] = members
        for member in members:
            self.heard(member, Viewed(group, self.numbers, members))

    def crash(self, me: str) -> None:
        """Nothing of it is heard any more; its groups have views without it."""
        del self.toolkits[me], self.layers[me]
        for group, members in list(self.groups.items()):
            if me in members:
                self.view(group, tuple(each for each in members if each != me))
        self.run()


@dataclass
class Application:
    """A toolkit in the simulator, with what it says and what it refuses."""

    toolkit: Toolkit
    said: list[Action]
    refused: list[LocalProtocolError] = field(default_factory=list)

    @property
    def periodic_timers(self) -> tuple[str, ...]:
        return self.toolkit.periodic_timers

    def handle(self, event: Event) -> list[Action]:
        try:
            actions = self.toolkit.handle(event)
        except LocalProtocolError as error:
            self.refused.append(error)
            return []
        self.said += [each for each in actions if isinstance(each, APPLICATION)]
        return [each for each in actions if not isinstance(each, APPLICATION)]


class SimulatedNet(Net):
    """On ISIS kernels or in a view-synchronous group, with two more sites."""

    LABEL = "toolkit"
    STEP_US = 10_000

    def __init__(self, stack: str, quorum: int = 1) -> None:
        self.stack, self.quorum = stack, quorum
        self.said, self.toolkits = {}, {}
        self.settings = IsisSettings(site="", sites=(*SITES, "d", "e"))
        self.world = World(seed="toolkit")
        self.world.add_service(Oracle(Choice("oracle"), OracleSettings(disturb_every=0, step_us_max=2_000)))
        self.world.observers.append(ToldOracle(self.world))
        for site in self.settings.sites:
            self.world.add_process(site, self._program)
        self.world.tell_service(Stabilised(self.world.now))
        self.until(lambda: all(self.application(site).toolkit.me for site in self.settings.sites))
        self.run()
        self.names = tuple(self.application(site).toolkit.me for site in SITES)
        for site, me in zip(SITES, self.names, strict=True):
            self.toolkits[me], self.said[me] = self.application(site).toolkit, self.application(site).said

    def _program(self, boot: Boot) -> dict[str, Application]:
        boot.players[boot.daemon.name] = self.LABEL
        settings = msgspec.structs.replace(self.settings, site=boot.daemon.name)
        kind = EvsLayer if self.stack == "evs" else KernelLayer
        return {self.LABEL: Application(Toolkit(kind(boot.daemon, settings), self.kinds), [])}

    def application(self, site: str) -> Application:
        """That runs at a site."""
        found = self.world.automaton(site, self.LABEL)
        assert isinstance(found, Application)
        return found

    def until(self, condition: Callable[[], bool]) -> None:
        """Step by step."""
        for _ in range(1_000):
            if condition():
                return
            self.world.run_for(self.STEP_US // 20)
        raise AssertionError("it never comes to that")

    def run(self, steps: int = 40) -> None:
        """As long as everything takes."""
        self.world.run_for(steps * self.STEP_US)

    def begin(self, me: str, *events: Event) -> None:
        """Tell, and wait for nothing."""
        for event in events:
            self.world.tell(name_of(site_of(me)), self.LABEL, event)

    def tell(self, me: str, *events: Event) -> None:
        """What is refused is raised."""
        self.begin(me, *events)
        self.run()
        refused = self.application(name_of(site_of(me))).refused
        if refused:
            raise refused.pop()

    def crash(self, me: str) -> None:
        """And be missed."""
        del self.toolkits[me]
        self.world.crash(name_of(site_of(me)))
        self.run(200)


NETS: dict[str, Callable[[], Net]] = {
    "hand": lambda: HandNet(*SITES),
    "isis": lambda: SimulatedNet("isis"),
    "evs": lambda: SimulatedNet("evs"),
}


def call(method: str, *args: object, **kwargs: object) -> bytes:
    return encode(OperationCall(method, list(args), kwargs))
