"""What a swarm needs of a system under test. ``--system evs|corel|isis|…`` chooses one; `registry` lists them.

A system draws its topology and workload, says which faults each of its stacks is built to bear and which properties
apply, builds itself into a world, and says after the heal what is still missing before it counts as live.

Implements: [DESIGN 4], "--system" and the two phases of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import msgspec

from isotone.core.choice import Choice
from isotone.core.errors import InputError
from isotone.sim.faults import Fault, FaultTarget, draw_faults
from isotone.sim.plan import NODES_MAX, PLAN_VERSION, SCALES, Plan, Scale, Size, Step, Topology
from isotone.sim.world import World

RUN_ASSERT = "RUN-ASSERT"
RUN_LIVE = "RUN-LIVE"


class BuiltSystem(FaultTarget, Protocol):
    """A system inside a world."""

    def play(self, step: Step) -> None:
        """Let one step of the workload happen now."""
        ...

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """Heal, restart and resume everything; the components that result, as daemon names."""
        ...

    def owes_progress(self) -> bool:
        """Whether liveness is judged: not where the stack itself said that it cannot go on."""
        ...

    def live(self) -> list[str]:
        """What is still missing after the heal, in sentences; empty when the system is live."""
        ...

    def settled(self) -> bool | None:
        """Whether nothing is left to happen; None where the world can see that, because timers then rest."""
        ...

    def choices(self) -> Mapping[str, int]:
        """How often each kind of free choice was taken; empty where nothing is left to choice."""
        ...


class System(Protocol):
    """A system under test."""

    @property
    def name(self) -> str:
        """As ``--system`` takes it."""
        ...

    @property
    def stacks(self) -> tuple[str, ...]:
        """What it can run on, as ``--stack`` takes it; the first is the default."""
        ...

    @property
    def step_type(self) -> Any:
        """The union of its workload steps."""
        ...

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """Draw who is there."""
        ...

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Draw what is done."""
        ...

    def faults(self, stack: str) -> tuple[str, ...]:
        """The families of faults that the stack is built to bear."""
        ...

    def properties(self, stack: str) -> tuple[str, ...]:
        """The labels that apply, `RUN_ASSERT` and `RUN_LIVE` among them."""
        ...

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the system into the world."""
        ...

    def live_within_us(self, plan: Plan) -> int:
        """The bound: so long after the heal, or after the last step, the system must be live and quiet."""
        ...


@runtime_checkable
class Limited(Protocol):
    """A system some of whose runs have smaller bounds than usual."""

    def limits(self, plan: Plan) -> AbstractContextManager[None]:
        """While it lasts, bounds are as the plan's seed draws them."""
        ...


def limits_of(system: System, plan: Plan) -> AbstractContextManager[None]:
    """Those that the system draws, if it does."""
    return system.limits(plan) if isinstance(system, Limited) else nullcontext()


class Setting(msgspec.Struct, frozen=True):
    """What a swarm varies seeds over: everything that shapes a plan but the seed."""

    system: str = "evs"
    stack: str = "oracle"
    size: Size = Size.STANDARD
    faults: str = "all"
    nodes: str | None = None  # "N", or "N..M": then each seed draws its own number

    def arguments(self) -> str:
        """As options of a command; defaults are left out."""
        default = Setting()
        told = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != getattr(default, name):
                told[name] = value.value if isinstance(value, Size) else value
        return "".join(f" --{name} {value}" for name, value in told.items())


def chosen_families(system: System, setting: Setting) -> tuple[str, ...]:
    """The families that ``--faults`` names, in the system's order; an unknown or unbearable one is an `InputError`."""
    borne = system.faults(setting.stack)
    if setting.faults == "all":
        return borne
    if setting.faults == "none":
        return ()
    named = [name.strip() for name in setting.faults.split(",")]
    for name in named:
        if name not in borne:
            raise InputError(
                f"{system.name} on {setting.stack} does not bear the fault {name!r}; it bears {', '.join(borne)}"
            )
    return tuple(name for name in borne if name in named)


def check_setting(system: System, setting: Setting) -> None:
    """Raise an `InputError` for what no plan can be drawn from."""
    if setting.stack not in system.stacks:
        known = ", ".join(system.stacks)
        raise InputError(f"system {system.name} has no stack {setting.stack!r}; it has {known}")
    nodes_between(setting)
    chosen_families(system, setting)


def nodes_between(setting: Setting) -> tuple[int, int] | None:
    """The least and the most nodes that ``--nodes`` names; an `InputError` for what is no range of them."""
    return None if setting.nodes is None else numbers_between("nodes", setting.nodes, NODES_MAX)


def numbers_between(what: str, text: str, most: int) -> tuple[int, int]:
    """The least and the most that ``N`` or ``N..M`` names; an `InputError` for what is no range from 1 to ``most``."""
    first, dots, last = text.partition("..")
    if not (first.isdecimal() and (last.isdecimal() or not dots)):
        raise InputError(f"{what}: N or N..M, not {text!r}")
    between = int(first), int(last or first)
    if not 1 <= between[0] <= between[1] <= most:
        raise InputError(f"there are 1 to {most} {what}, not {text}")
    return between


def scale_of(system: System, size: Size) -> Scale:
    """That of the size; longer where a system needs time before anything can be broken (``faults_last_us``)."""
    scale = SCALES[size]
    least_us = getattr(system, "faults_last_us", 0)
    return msgspec.structs.replace(scale, faults_end_us=max(scale.faults_end_us, least_us))


def draw_plan(system: System, setting: Setting, seed: int, scale: Scale | None = None) -> Plan:
    """The plan of one seed; each part is drawn from a stream of its own. ``scale`` replaces that of the size."""
    check_setting(system, setting)
    scale = scale or scale_of(system, setting.size)
    choice = Choice(f"plan/{seed}")
    between = nodes_between(setting)
    nodes = choice.derive("nodes").between(*between) if between else None
    topology = system.topology(choice.derive("topology"), scale, nodes, setting.stack)
    faults = draw_faults(
        choice.derive("faults"),
        families=chosen_families(system, setting),
        clients=topology.clients,
        count=scale.faults_min + choice.derive("count").between(0, scale.faults_min // 2),
        end=scale.faults_end_us,
    )
    return Plan(
        version=PLAN_VERSION,
        seed=seed,
        system=system.name,
        stack=setting.stack,
        size=setting.size,
        topology=topology,
        faults_end_us=scale.faults_end_us,
        faults=faults,
        steps=system.workload(choice.derive("workload"), topology, faults, scale, setting.stack),
    )
