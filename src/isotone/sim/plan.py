"""The plan of one run as a value: topology, workload, faults. With its seed it determines the run, byte for byte.

A plan is drawn from a seed by a `System`, or read from a file that the shrinker wrote. Steps belong to the system, so
reading a plan needs its union of steps; everything else is the same for all systems.

Implements: [DESIGN 4], two phases: until ``faults_end_us`` steps and faults are mixed, then everything is healed.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

import msgspec

from isotone.core.choice import Choice
from isotone.core.errors import InputError
from isotone.sim.faults import AnyFault, Fault, injected

_T = TypeVar("_T")

PLAN_VERSION = 1
NODES_MAX = 64


class Size(Enum):
    """How much happens in a run."""

    SMALL = "small"
    STANDARD = "standard"
    LARGE = "large"


class Scale(msgspec.Struct, frozen=True):
    """What a size means: the least numbers of sends and faults; ranges of the rest, both ends included."""

    sends_min: int
    faults_min: int
    faults_end_us: int
    nodes: tuple[int, int]
    sites: tuple[int, int]
    clients_per_node: tuple[int, int]
    groups: tuple[int, int]


SCALES = {
    Size.SMALL: Scale(200, 4, 1_500_000, (2, 4), (1, 2), (1, 2), (1, 3)),
    Size.STANDARD: Scale(2_000, 10, 6_000_000, (3, 7), (1, 3), (1, 3), (2, 5)),
    Size.LARGE: Scale(20_000, 40, 30_000_000, (8, 14), (2, 4), (1, 4), (3, 8)),
}


class NodePlan(msgspec.Struct, frozen=True):
    """One node: a daemon's name, the site it stands in, the names of its clients."""

    name: str
    site: str
    clients: tuple[str, ...]


class Topology(msgspec.Struct, frozen=True):
    """Who is there at all."""

    nodes: tuple[NodePlan, ...]
    groups: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all nodes."""
        return tuple(node.name for node in self.nodes)

    @property
    def clients(self) -> dict[str, tuple[str, ...]]:
        """The names of the clients of each node."""
        return {node.name: node.clients for node in self.nodes}


class Step(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of a system's workload steps: at this virtual time, at this node."""

    at: int
    node: str


class Plan(msgspec.Struct, frozen=True):
    """Everything that a run is made from."""

    version: int
    seed: int
    system: str
    stack: str
    size: Size
    topology: Topology
    faults_end_us: int
    faults: tuple[Fault, ...]
    steps: tuple[Step, ...]
    violates: str = ""
    """The property that a shrunk plan violates; empty in a plan as drawn."""

    @property
    def faults_injected(self) -> int:
        """How many faults do harm; repairs are not counted."""
        return injected(self.faults)


class _PlanFile(msgspec.Struct):
    version: int
    seed: int
    system: str
    stack: str
    size: Size
    topology: Topology
    faults_end_us: int
    faults: tuple[AnyFault, ...]
    steps: tuple[msgspec.Raw, ...]
    violates: str = ""


class PlanHeader(msgspec.Struct):
    """What must be known of a plan before its steps can be read."""

    version: int
    system: str


def draw_topology(choice: Choice, scale: Scale, nodes: int | None = None) -> Topology:
    """Nodes, sites, clients and groups of a run; ``nodes`` fixes the number of nodes."""
    count = nodes or choice.between(*scale.nodes)
    sites = min(count, choice.between(*scale.sites))
    planned = tuple(
        NodePlan(
            name=f"d{number + 1}",
            site=f"s{number % sites + 1}",
            clients=tuple(f"c{client + 1}" for client in range(choice.between(*scale.clients_per_node))),
        )
        for number in range(count)
    )
    return Topology(planned, tuple(f"g{number + 1}" for number in range(choice.between(*scale.groups))))


def encode_plan(plan: Plan) -> bytes:
    """The plan as JSON, one line per step and fault, so that a shrunk one can be read and compared by eye."""
    head = {name: msgspec.to_builtins(getattr(plan, name)) for name in plan.__struct_fields__}
    lines = []
    for name, value in head.items():
        if name in ("faults", "steps") and value:
            inner = ",\n".join("    " + msgspec.json.encode(each).decode() for each in value)
            lines.append(f'  "{name}": [\n{inner}\n  ]')
        else:
            lines.append(f'  "{name}": {msgspec.json.encode(value).decode()}')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read_header(data: bytes) -> PlanHeader:
    """The version and the system of a plan; a version that we do not know is an `InputError`."""
    header = _decode(data, PlanHeader)
    if header.version != PLAN_VERSION:
        raise InputError(f"the plan has version {header.version}; this program reads version {PLAN_VERSION}")
    return header


def decode_plan(data: bytes, step_type: Any) -> Plan:
    """The inverse of `encode_plan`; ``step_type`` is the union of the system's steps."""
    read_header(data)
    raw = _decode(data, _PlanFile)
    decoder: msgspec.json.Decoder[Step] = msgspec.json.Decoder(step_type)
    try:
        steps = tuple(decoder.decode(step) for step in raw.steps)
    except msgspec.DecodeError as error:
        raise InputError(f"not a plan: {error}") from error
    plan = Plan(
        version=raw.version,
        seed=raw.seed,
        system=raw.system,
        stack=raw.stack,
        size=raw.size,
        topology=raw.topology,
        faults_end_us=raw.faults_end_us,
        faults=raw.faults,
        steps=steps,
        violates=raw.violates,
    )
    _check_nodes(plan)
    return plan


def _check_nodes(plan: Plan) -> None:
    """Steps and faults may name only nodes that are there."""
    names = set(plan.topology.names)
    if len(names) != len(plan.topology.nodes) or not 1 <= len(names) <= NODES_MAX:
        raise InputError(f"not a plan: it needs 1 to {NODES_MAX} nodes with different names")
    for part in (*plan.faults, *plan.steps):
        named = [getattr(part, field) for field in ("node", "source", "target") if hasattr(part, field)]
        named += [node for side in getattr(part, "sides", ()) for node in side]
        for node in named:
            if node not in names:
                raise InputError(f"not a plan: no node is called {node!r}")


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise InputError(f"not a plan: {error}") from error
