"""The plan of one run as a value: topology, workload, faults. With its seed it determines the run, byte for byte.

A plan is drawn from a seed by a `System`, or read from a file that the shrinker wrote. Steps belong to the system, so
reading a plan needs its union of steps; everything else is the same for all systems.

Implements: [DESIGN 4], two phases: until ``faults_end_us`` steps and faults are mixed, then everything is healed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, TypeVar

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX, GROUPS_MAX, MESSAGES_MAX
from isotone.core.choice import Choice
from isotone.core.codec.fragment import MESSAGE_BYTES_MAX
from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.names import check_client_name, check_daemon_name, check_group_name
from isotone.sim.faults import AnyFault, Cut, Fault, Partition, injected

_T = TypeVar("_T")

PLAN_VERSION = 1
NODES_MAX = 64
SEED_MAX = 2**63 - 1
TIME_MAX_US = 3_600_000_000


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


class NodePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node: a daemon's name, the site it stands in, the names of its clients."""

    name: str
    site: str
    clients: tuple[str, ...]


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class Step(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
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


class PlanHeader(msgspec.Struct):
    """What must be known of a plan before its steps can be read."""

    version: int
    system: str


def parse_seed(text: str) -> int:
    """A seed as people write it: digits and nothing else."""
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"a seed is a number from 0, in digits, not {text!r}")
    if len(text) > len(str(SEED_MAX)) or int(text) > SEED_MAX:
        raise InputError(f"a seed is at most {SEED_MAX}")
    return int(text)


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


def scattered(topology: Topology) -> Topology:
    """The same nodes, each in a site of its own."""
    nodes = [msgspec.structs.replace(node, site=f"s{number + 1}") for number, node in enumerate(topology.nodes)]
    return msgspec.structs.replace(topology, nodes=tuple(nodes))


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
    """The inverse of `encode_plan`; ``step_type`` is the union of the system's steps. What no run can be made from is
    an `InputError`."""
    read_header(data)
    file_type = msgspec.defstruct(
        "PlanFile",
        [("faults", tuple[AnyFault, ...]), ("steps", tuple[step_type, ...])],
        bases=(Plan,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    plan = Plan(**msgspec.structs.asdict(_decode(data, file_type)))
    for problem in _problems(plan):
        raise InputError(f"not a plan: {problem}")
    return plan


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise InputError("not a plan: it is nested too deeply") from None
    except ValueError as error:  # of msgspec, or of texts that are no UTF-8
        raise InputError(f"not a plan: {error}") from error


# --- what a plan from a file may say -------------------------------------------------------------------------------


def _problems(plan: Plan) -> Iterator[str]:
    """What is wrong with it, in sentences."""
    if not 0 <= plan.seed <= SEED_MAX:
        yield f"its seed is not within 0 and {SEED_MAX}"
    if not 0 <= plan.faults_end_us <= TIME_MAX_US:
        yield f"the end of its faults is not within 0 and {TIME_MAX_US} us"
    yield from _topology_problems(plan.topology)
    for fault in plan.faults:
        if not 0 <= fault.at <= plan.faults_end_us:
            yield f"the fault at {fault.at} us is not within 0 and the end of faults, {plan.faults_end_us} us"
        yield from _fault_problems(fault)
    for step in plan.steps:
        if not 0 <= step.at <= TIME_MAX_US:
            yield f"the step at {step.at} us is not within 0 and {TIME_MAX_US} us"
        yield from _step_problems(step)
    for part in (*plan.faults, *plan.steps):
        yield from _stranger_problems(part, plan.topology.clients)


def _topology_problems(topology: Topology) -> Iterator[str]:
    if len(set(topology.names)) != len(topology.nodes) or not 1 <= len(topology.nodes) <= NODES_MAX:
        yield f"it needs 1 to {NODES_MAX} nodes with different names"
    for node in topology.nodes:
        yield from _refusal(check_daemon_name, node.name)
        yield from _refusal(check_daemon_name, node.site)
        for client in node.clients:
            yield from _refusal(check_client_name, client)
        if len(set(node.clients)) != len(node.clients):
            yield f"two clients of {node.name} have the same name"
    for group in topology.groups:
        yield from _refusal(check_group_name, group)
    if len(set(topology.groups)) != len(topology.groups):
        yield "two groups have the same name"


def _fault_problems(fault: Fault) -> Iterator[str]:
    match fault:
        case Partition(sides=sides):
            named = [node for side in sides for node in side]
            if len(set(named)) != len(named):
                yield f"the sides of the partition at {fault.at} us share a node"
        case Cut(source=source, target=target) if source == target:
            yield f"the cut at {fault.at} us is between {source!r} and itself"


def _step_problems(step: Step) -> Iterator[str]:
    """Steps of all systems call the same things by the same names."""
    groups: tuple[str, ...] = getattr(step, "groups", ())
    if hasattr(step, "groups") and not 1 <= len(groups) <= GROUPS_MAX:
        yield f"the step at {step.at} us is for {len(groups)} groups, not for 1 to {GROUPS_MAX}"
    named: str | None = getattr(step, "group", None)
    for group in (*groups, *([] if named is None else [named])):
        yield from _refusal(check_group_name, group)
    if hasattr(step, "lengths"):
        lengths: tuple[int, ...] = step.lengths
        if not 1 <= len(lengths) <= MESSAGES_MAX:
            yield f"the step at {step.at} us has {len(lengths)} messages, not 1 to {MESSAGES_MAX}"
        bytes_max = MESSAGE_BYTES_MAX if len(lengths) == 1 else BUNDLE_BYTES_MAX
        if any(length < 0 for length in lengths) or sum(lengths) > bytes_max:
            yield f"the messages of the step at {step.at} us are not within 0 and {bytes_max} bytes together"


def _stranger_problems(part: msgspec.Struct, clients: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Steps and faults may name only nodes and clients that are there."""
    named = [getattr(part, field) for field in ("node", "source", "target") if hasattr(part, field)]
    named += [node for side in getattr(part, "sides", ()) for node in side]
    for node in named:
        if node not in clients:
            yield f"no node is called {node!r}"
    client = getattr(part, "client", None)
    if client is not None and client not in clients.get(named[0], ()):
        yield f"{named[0]} has no client {client!r}"


def _refusal(check: Callable[[str], str], name: str) -> Iterator[str]:
    try:
        check(name)
    except LocalProtocolError as error:
        yield str(error)
