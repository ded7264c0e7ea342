"""Replicated objects under test: clients of all of them, at all servers, through every fault.

Implements: [COReL 8], the system side of a simulated run; [DESIGN 4].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from isotone.core.choice import Choice
from isotone.sim.corel_times import corel_times
from isotone.sim.evs_system import ORACLE
from isotone.sim.faults import MILLISECOND, Fault
from isotone.sim.full_system import FULL, FULL_FAMILIES
from isotone.sim.plan import NodePlan, Plan, Scale, Step, Topology
from isotone.sim.replicated.programs import PAIR, TALLY, ObjectStep
from isotone.sim.replicated.servers import ObjectFullRun, ObjectRun
from isotone.sim.replicated.terms import GROUP
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem
from isotone.sim.world import World
from isotone.spec.corel_bounds import COREL_ORDERS
from isotone.spec.replicated_properties import replicated_labels

SERVERS = (3, 5)
AFTER_US = 8_000_000
"""Programs wait for what they asked for, and leases run out."""
DEEDS: tuple[tuple[str, float], ...] = (
    *(("set", 5.0), ("get", 6.0), ("delete", 1.0), ("compare_and_set", 2.0), ("swap", 1.0)),
    *(("add", 3.0), ("count", 2.0), ("join", 1.0), ("part", 1.0), ("has", 1.0)),
    *(("lock", 6.0), ("leader", 4.0), ("read", 1.0), ("write", 1.0), ("semaphore", 1.0)),
    *(("put", 2.0), ("work", 2.5), ("vote", 2.0)),
)
LATER_DEEDS = (
    *(("transfer", 5.0), ("balances", 3.0)),
    *(("tally_add", 4.0), ("tally_double", 1.5), ("tally_read", 4.0)),
)
MORE_DEEDS = (
    *(("pair_set", 4.0), ("pair_swap", 2.0), ("pair_get", 2.0), ("pair_items", 5.0)),
    *(("own", 3.0), ("owned_items", 4.0), ("watch", 3.0)),
)
ELSEWHERE_DEEDS = (
    *((deed, weight) for deed, weight in DEEDS if deed != "vote"),
    *(("transfer", 4.0), ("balances", 2.0)),
    *MORE_DEEDS,
)
CLIENTS_FROM = 2_000
"""Runs with so many sends have programs that are no servers; smaller ones have none."""
NAMES = {
    **dict.fromkeys(("set", "get", "delete", "compare_and_set", "swap"), "stock"),
    **dict.fromkeys(("add", "count"), "hits"),
    **dict.fromkeys(("join", "part", "has"), "people"),
    **dict.fromkeys(("read", "write"), "book"),
    **dict.fromkeys(("put", "work"), "jobs"),
    **dict.fromkeys(PAIR, "pair"),
    **dict.fromkeys(("own", "owned_items"), "workers"),
    "watch": "stock",
}


class ReplicatedSystem:
    """The system ``replicated``."""

    name = "replicated"
    stacks: tuple[str, ...] = (ORACLE, FULL)
    step_type: Any = ObjectStep

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        """3 to 5 servers; the one client of a node has the node's name."""
        count = nodes or choice.between(*SERVERS)
        names = [f"d{number + 1}" for number in range(count)]
        sites = choice.derive("sites").between(1, 2)
        planned = tuple(NodePlan(name, f"s{place % sites + 1}", (name,)) for place, name in enumerate(names))
        return Topology(planned, (GROUP,))

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        """Programs at all nodes, many of them close to a fault, and some after the heal."""
        end = scale.faults_end_us
        marks = [fault.at for fault in faults] or [end // 2]
        steps: list[Step] = []
        votes = 0
        for number in range(1, scale.sends_min // 3 + 1):
            at = choice.between(end // 50, end)
            if choice.chance(0.4):
                at = max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 120 * MILLISECOND))
            deed = choice.weighted(DEEDS)
            if deed == "vote":
                votes += 1
                steps += _votes(choice, at, topology.names, votes)
            else:
                steps.append(_step(choice, at, choice.pick(topology.names), deed, number))
        steps += _later(choice.derive("later"), topology.names, scale, marks)
        steps += _more(choice.derive("more"), topology.names, scale, marks)
        if scale.sends_min >= CLIENTS_FROM and choice.derive("elsewhere").chance(0.5):
            steps += _elsewhere(choice.derive("clients"), topology.names, scale, marks)
        for number, name in enumerate(topology.names, scale.sends_min):
            at = end + choice.between(200 * MILLISECOND, 900 * MILLISECOND)
            steps += [_step(choice, at, name, deed, number) for deed in ("set", "get", "lock")]
        return tuple(sorted(steps, key=lambda step: step.at))

    def faults(self, stack: str) -> tuple[str, ...]:
        """What changes components, processes, sessions and disks."""
        return FULL_FAMILIES if stack == FULL else ("partition", "cut", "crash", "pause", "kill", "disk", "cascade")

    def properties(self, stack: str) -> tuple[str, ...]:
        """Those of replicated objects, and of the run itself."""
        return (*replicated_labels(), RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        """Put the servers into the world, above the oracle or above our own daemons."""
        return ObjectFullRun(world, plan) if plan.stack == FULL else ObjectRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        """COReL's bound, and the time that programs take."""
        return COREL_ORDERS.function(corel_times(plan)) + AFTER_US


def _step(choice: Choice, at: int, node: str, deed: str, number: int) -> ObjectStep:
    amount = choice.between(1, 9) if deed == "add" else number
    name = NAMES.get(deed, deed)
    key = "" if deed in ("add", "count") else choice.pick(("apples", "pears"))
    if name not in ("stock", "people"):
        key = ""
    return ObjectStep(
        at=at,
        node=node,
        deed=deed,
        name=name,
        key=key,
        number=amount,
        length_us=choice.pick((1, 30, 200, 1_000)) * MILLISECOND,
    )


def _later(choice: Choice, names: tuple[str, ...], scale: Scale, marks: Sequence[int]) -> list[Step]:
    """Transfers and reads of the bank, and a tally whose additions commute, all through the faults and once behind."""
    steps: list[Step] = []
    end = scale.faults_end_us
    for number in range(1, scale.sends_min // 6 + 1):
        at = choice.between(end // 50, end)
        if choice.chance(0.6):
            at = max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 400 * MILLISECOND))
        steps.append(_late_step(choice, at, choice.pick(names), choice.weighted(LATER_DEEDS), number))
    for name in names:
        at = end + choice.between(1_000 * MILLISECOND, 1_500 * MILLISECOND)
        steps += [_late_step(choice, at, name, deed, 1) for deed in ("transfer", "balances", "tally_read")]
    return steps


def _late_step(choice: Choice, at: int, node: str, deed: str, number: int) -> ObjectStep:
    is_bank = deed in ("transfer", "balances")
    key = ">".join(choice.sample(("alice", "bob", "carol"), 2)) if deed == "transfer" else ""
    amount = choice.between(1, 15)
    return ObjectStep(at=at, node=node, deed=deed, name="bank" if is_bank else TALLY, key=key, number=amount)


def _more(choice: Choice, names: tuple[str, ...], scale: Scale, marks: Sequence[int]) -> list[Step]:
    """Transactions on two keys, entries that belong to a session, and watches, through the faults and once behind."""
    steps: list[Step] = []
    end = scale.faults_end_us
    for number in range(1, scale.sends_min // 6 + 1):
        at = choice.between(end // 50, end)
        if choice.chance(0.5):
            at = max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 300 * MILLISECOND))
        steps.append(_more_step(choice, at, choice.pick(names), choice.weighted(MORE_DEEDS), number))
    for name in names:
        at = end + choice.between(1_000 * MILLISECOND, 1_500 * MILLISECOND)
        steps += [_more_step(choice, at, name, deed, 1) for deed in ("pair_items", "owned_items")]
    return steps


def _more_step(choice: Choice, at: int, node: str, deed: str, number: int) -> ObjectStep:
    key = choice.pick(("x", "y")) if deed in PAIR else ""
    length_us = choice.pick((200, 500, 1_500, 3_000)) * MILLISECOND
    return ObjectStep(at=at, node=node, deed=deed, name=NAMES[deed], key=key, number=number, length_us=length_us)


def _elsewhere(choice: Choice, names: tuple[str, ...], scale: Scale, marks: Sequence[int]) -> list[Step]:
    """One or two programs that are no servers, each beside a node, through the faults and once behind."""
    steps: list[Step] = []
    end = scale.faults_end_us
    for program in ("p1", "p2")[: choice.between(1, 2)]:
        node = choice.pick(names)
        times = [choice.between(end // 50, end) for _ in range(scale.sends_min // 20)]
        times += [max(0, choice.pick(marks) + choice.between(-25 * MILLISECOND, 300 * MILLISECOND)) for _ in range(40)]
        deeds = [(at, choice.weighted(ELSEWHERE_DEEDS)) for at in times]
        deeds += [(end + choice.between(1_000, 1_500) * MILLISECOND, deed) for deed in ("set", "get", "lock")]
        for number, (at, deed) in enumerate(deeds, 100_000):
            if deed in ("transfer", "balances"):
                step = _late_step(choice, at, node, deed, number)
            elif any(deed == each for each, _ in MORE_DEEDS):
                step = _more_step(choice, at, node, deed, number)
            else:
                step = _step(choice, at, node, deed, number)
            steps.append(msgspec.structs.replace(step, program=program))
    return steps


def _votes(choice: Choice, at: int, names: tuple[str, ...], number: int) -> list[Step]:
    """Some of the nodes take part, most of them vote, one may vote no."""
    participants = tuple(sorted(choice.sample(names, min(len(names), choice.between(2, 3)))))
    answers = {name: 1 if choice.chance(0.8) else 3 for name in participants}
    return [
        ObjectStep(
            at=at + choice.between(0, 80) * MILLISECOND,
            node=name,
            deed="vote",
            name=f"deal{number}",
            key="",
            number=answers[name],
            others=tuple(each for each in participants if each != name),
        )
        for name in participants
        if choice.chance(0.9)
    ]
