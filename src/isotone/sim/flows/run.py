"""One simulated run of flows: authorities, nodes in a hierarchy of rings, their clients, ambushes on leaders.

The site of a node is its ring; ``r.2.1`` is below ``r.2``, which is below ``r``, the top. Authorities have the site
``auth``; each serves some of the rings.

Implements: [DESIGN 4], the system side of a simulated run. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, Automaton
from isotone.core.contract import Record as Note
from isotone.flows.authority import Authority, RingSettings
from isotone.flows.compiler import compile_text
from isotone.flows.library import PROGRAMS
from isotone.flows.node import FlowNode
from isotone.flows.values import interval, range_set
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.flows.working import CommitWork, FlowClient, HealthWork, MulticastWork, PhasesWork, StepDue, Work
from isotone.sim.links import LinkSettings
from isotone.sim.plan import Plan, Step
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.trace import flows as trace

LABEL = "flows"
AUTHORITIES = "auth"
AMBUSHES = (trace.Aggregated, trace.Decided, trace.Contributed, trace.RingEntered, trace.Flowed)
BACK_US = 700_000


class WorkStep(Step, frozen=True, tag="work"):
    """A packet is received, a transaction arrives, or whatever else the program's clients do."""

    number: int


class Terms(msgspec.Struct, frozen=True):
    """What a seed draws beside topology, faults and steps."""

    program: str
    token_us: int
    ranges_max: int
    loss: float
    abort: float
    last: int
    ambushes: int  # how many leaders and others are struck while they act
    blackout: float  # the share of nodes that fail in one moment, 0 for none
    bytes_per_s: int  # rate and k_max adapt to this budget, 0 for fixed ones


def draw_terms(seed: int) -> Terms:
    """Of this seed."""
    choice = Choice(f"flows/{seed}")
    return Terms(
        program=choice.pick(("phases", "multicast", "commit", "phases", "multicast", "commit", "health")),
        token_us=choice.pick((10, 25, 50)) * 1_000,
        ranges_max=choice.pick((100, 100, 4)),
        loss=choice.pick((0.0, 0.0, 0.01, 0.05)),
        abort=choice.pick((0.02, 0.1)),
        last=choice.between(5, 40),
        ambushes=choice.pick((0, 0, 1, 3)),
        blackout=choice.pick((0.0, 0.0, 0.6, 1.0)),
        bytes_per_s=choice.pick((0, 0, 2_000, 100_000)),
    )


class FlowsRun(EvsNodes):
    """Authorities and nodes of a plan."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        self.terms = draw_terms(plan.seed)
        self._choice = Choice(f"flows run/{plan.seed}")
        self._rules = compile_text(PROGRAMS[self.terms.program])
        self._sites = {node.name: node.site for node in plan.topology.nodes}
        self._authorities = [name for name in self._names if self._sites[name] == AUTHORITIES]
        self._members = [name for name in self._names if self._sites[name] != AUTHORITIES]
        self._rings = rings_above(self._sites[name] for name in self._members)
        self._steps: list[int] = []  # numbers of steps so far, in order, once each
        self._calm = False
        self._ambush = _Ambush(world, self._choice.derive("ambush"), self.terms.ambushes, plan.faults_end_us)
        for node in plan.topology.nodes:
            world.add_process(node.name, partial(self._program, node.site))
        self._set_weather(self.terms.loss)
        if self.terms.blackout:
            world.at(self._choice.between(plan.faults_end_us // 3, plan.faults_end_us * 9 // 10), self._black_out)

    def _black_out(self) -> None:
        """Many nodes fail at once, and come back soon: rings in which all are candidates."""
        choice = self._choice.derive("blackout")
        for name in self._members:
            if self._world.is_up(name) and choice.chance(self.terms.blackout):
                self._world.crash(name)
                self._world.after(choice.between(1, BACK_US), partial(self.restart, name))

    def _set_weather(self, loss: float) -> None:
        weather = LinkSettings(latency_us=400, jitter_us=200, loss=loss, duplicate=loss, reorder=loss)
        for source in self._names:
            for target in self._names:
                if source != target:
                    self._world.network.link(source, target).change(weather)

    # --- automata --------------------------------------------------------------------------------------------------

    def _program(self, site: str, boot: Boot) -> Mapping[str, Automaton]:
        if site == AUTHORITIES:
            mine = [ring for ring in self._rings if self._authority_of(ring) == boot.daemon.name]
            return {LABEL: Authority({ring: self._settings(ring) for ring in mine})}
        node = FlowNode(
            me=str(boot.daemon),
            name=boot.daemon.name,
            address=boot.address,
            ring=site,
            authority=self._address(self._authority_of(site)),
            rules=self._rules,
        )
        strike = self._ambush.striker(boot.daemon.name) if self.terms.ambushes else None
        return {LABEL: FlowClient(node, self._work(boot.daemon.name), self._address, strike)}

    def _settings(self, ring: str) -> RingSettings:
        parent = ring.rpartition(".")[0]
        authority = self._address(self._authority_of(parent)) if parent else ""
        terms, text = self.terms, self._rules.text
        return RingSettings(ring, parent, authority, text, terms.token_us, terms.ranges_max, terms.bytes_per_s)

    def _authority_of(self, ring: str) -> str:
        return self._authorities[self._rings.index(ring) % len(self._authorities)]

    def _address(self, name: str) -> Address:
        return self._world.nodes[name].address if name in self._world.nodes else Address(f"{name}.1")

    def _work(self, name: str) -> Work:
        terms = self.terms
        match terms.program:
            case "phases":
                return PhasesWork(terms.last)
            case "multicast":
                return MulticastWork()
            case "commit":
                return CommitWork(self._choice.derive(name), terms.abort, self._steps)
        return HealthWork(terms.last)

    # --- steps and the end -----------------------------------------------------------------------------------------

    def play(self, step: Step) -> None:
        """A node's client gets something to do."""
        assert isinstance(step, WorkStep)
        if step.number not in self._steps:
            self._steps.append(step.number)
        names = self._members if self._calm and self.terms.program == "commit" else [step.node]
        for name in names:
            if self._sites[name] != AUTHORITIES and self._world.is_up(name):
                self._world.tell(name, LABEL, StepDue(self._world.now, step.number))

    def kill_client(self, node: str, client: str) -> None:
        """There are no sessions."""

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended; what only nodes had that died is there again: senders still have it."""
        self._calm = True
        self._ambush.end()
        self._set_weather(0.0)
        components = super().stabilise()
        for name in self._members if self.terms.program == "commit" else self._members[:1]:
            for number in self._steps:
                self._world.tell(name, LABEL, StepDue(self._world.now, number))
        return components

    def settled(self) -> bool | None:
        """Tokens never rest: it is settled when nothing is missing."""
        return not self.live()

    def live(self) -> list[str]:
        """What clients lack."""
        everything = range_set(self._steps)
        if self.terms.program == "commit":
            everything = everything.intersection(interval(1, max(self._steps, default=0)))
        found = [(name, self.client(name).work.missing(everything)) for name in self._members]
        return [f"{name} {missing}" for name, missing in found if missing]

    def client(self, name: str) -> FlowClient:
        """The client at a node that is up."""
        client = self._world.automaton(name, LABEL)
        assert isinstance(client, FlowClient)
        return client

    def choices(self) -> Mapping[str, int]:
        """Which program ran, how deep, and how many were struck."""
        depth = max(ring.count(".") + 1 for ring in self._rings)
        return {self.terms.program: 1, f"depth {depth}": 1, "struck": self._ambush.struck}


def rings_above(leaves: object) -> list[str]:
    """All rings that these are below, and themselves, the top first."""
    found: dict[str, None] = {}
    for leaf in sorted(set(leaves)):  # type: ignore[call-overload]
        parts = leaf.split(".")
        for depth in range(1, len(parts) + 1):
            found[".".join(parts[:depth])] = None
    return sorted(found)


class _Ambush:
    """Crashes nodes in the middle of what they do: of the actions of one event only some are carried out."""

    def __init__(self, world: World, choice: Choice, count: int, end: int) -> None:
        self._world, self._choice, self._end = world, choice, end
        self._left = count
        self._kind = choice.pick(AMBUSHES)
        self._countdown = choice.between(1, 60)
        self.struck = 0

    def striker(self, name: str) -> Callable[[list[Action]], list[Action]]:
        """For the automaton of this node's present life."""
        dead = False

        def strike(actions: list[Action]) -> list[Action]:
            nonlocal dead
            if dead:
                return []
            if not self._left or self._world.now >= self._end:
                return actions
            if not any(isinstance(each, Note) and isinstance(each.entry, self._kind) for each in actions):
                return actions
            self._countdown -= 1
            if self._countdown:
                return actions
            dead = True
            self._hit(name)
            return actions[: self._choice.below(len(actions) + 1)]

        return strike

    def _hit(self, name: str) -> None:
        self._left -= 1
        self.struck += 1
        self._kind = self._choice.pick(AMBUSHES)
        self._countdown = self._choice.between(1, 25)
        self._world.after(0, partial(self._crash, name))

    def _crash(self, name: str) -> None:
        if self._world.is_up(name):
            self._world.crash(name)
            self._world.after(self._choice.between(1, BACK_US), partial(self._restart, name))

    def _restart(self, name: str) -> None:
        if not self._world.is_up(name):
            self._world.restart(name)

    def end(self) -> None:
        """No more."""
        self._left = 0
