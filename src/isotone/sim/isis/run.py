"""The sites of a run above the oracle, or above our own daemons from the packets up.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Action, Automaton
from isotone.isis import events as e
from isotone.isis.kernel import Kernel
from isotone.isis.names import name_of, site_of
from isotone.isis.settings import TICK_US, IsisSettings
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.evs_system import ToldOracle
from isotone.sim.faults import MILLISECOND
from isotone.sim.full_system import FULL, FullRun
from isotone.sim.isis.node import IsisNode
from isotone.sim.plan import Plan, Step, Topology
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.world import World
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised

LABEL = "isis"
WIDE = "wide"
"""The sites are in clusters of a wide-area network, above the oracle."""
ORACLE_SETTINGS = OracleSettings(lag_factor_max=2, disturb_every=4_000)
"""Hellos are many and site views take many rounds: with more delay all faults are over before the first one stands."""
AMBUSHES = 6
LONELY_ENDS = (2_000, 10_000, 20_000)
"""So many microseconds later it ends."""


def clusters_of(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Two or three, of two to four sites each."""
    names = topology.names
    count = 2 if len(names) < 8 else 3
    return tuple(names[len(names) * place // count : len(names) * (place + 1) // count] for place in range(count))


class SitedNodes(EvsNodes):
    """Faults and steps on nodes with a site each; what is beneath them follows in the order of resolution."""

    _plan: Plan
    _ambush: Choice
    _site_settings: IsisSettings
    _clusters: tuple[tuple[str, ...], ...]

    def _settle_in(self, plan: Plan) -> None:
        choice = Choice(f"isis/{plan.seed}")
        self._plan, self._ambush = plan, choice.derive("ambush")
        self._ambushes, self._double_ends, self._single_ends = choice.pick((0, 3, AMBUSHES)), 3, 3
        self._clusters = clusters_of(plan.topology) if plan.stack == WIDE else ()
        slower = 3 if plan.stack == FULL else 1  # hellos of many sites are most of what daemons carry
        self._site_settings = IsisSettings(
            site="",
            sites=plan.topology.names,
            tick_us=slower * TICK_US,
            suspect_us=slower * choice.pick((200, 300, 500)) * MILLISECOND,
            collect_us=choice.pick((40, 100, 300)) * MILLISECOND,
            defer_us=choice.pick((0, 0, 3 * MILLISECOND)),
        )

    def _draw_splits(self, choice: Choice) -> None:
        """Now and then the sites fall apart into two halves: where their number is even, none may go on."""
        for _ in range(choice.pick((0, 0, 1, 3))):
            names = list(self._plan.topology.names)
            choice.shuffle(names)
            half = len(names) // 2
            if self._clusters and choice.chance(0.7):
                names, half = [name for cluster in self._clusters for name in cluster], len(self._clusters[0])
            at = choice.between(self._plan.faults_end_us // 10, self._plan.faults_end_us * 4 // 5)
            back = at + choice.between(100, 900) * MILLISECOND
            self._world.at(at, partial(self.partition, (tuple(names[:half]), tuple(names[half:]))))
            if back < self._plan.faults_end_us:
                self._world.at(back, self.heal)

    def _node(self, boot: Boot) -> IsisNode:
        name = boot.daemon.name
        boot.players[name] = LABEL
        planned = next(node for node in self._plan.topology.nodes if node.name == name)
        choice = Choice(f"isis/{self._plan.seed}/{name}")
        groups = {}
        for process in planned.clients:
            count = choice.between(1, len(self._plan.topology.groups))
            groups[process] = tuple(choice.sample(self._plan.topology.groups, count))
        cluster = next((cluster for cluster in self._clusters if name in cluster), self._plan.topology.names)
        settings = msgspec.structs.replace(self._site_settings, site=name, sites=cluster, clusters=self._clusters)
        kernel = Kernel(boot.daemon, settings)
        node = IsisNode(kernel, groups, self._heard, choice=boot.choice.derive("replies"))
        node.replied = self._replied
        if self._world.now < self._plan.faults_end_us:
            others = [other for other in self._plan.topology.names if other != name]
            slow = choice.derive("slow").pick((0, 0, 1, 2, len(others) - 1))
            node.slow = {other: choice.pick((5, 30, 80)) * MILLISECOND for other in choice.sample(others, slow)}
        return node

    def _heard(self, name: str, action: Action) -> None:
        """Now and then a site crashes right where something has happened: sender, coordinator or view manager."""
        if self._ambushes <= 0 or self._world.now > self._plan.faults_end_us * 9 // 10:
            return
        if not isinstance(action, e.Deliver | e.DeliverView | e.SiteViewChanged) or not self._ambush.chance(0.01):
            return
        self._ambush_some(name)

    def _replied(self, name: str, sender: str) -> None:
        """The sender of a message that has it for one other alone yet crashes, and so does that one when it replied."""
        origin = name_of(site_of(sender))
        if self._double_ends > 0 and self._is_lonely(origin) and self._ambush.chance(0.5):
            self._double_ends -= 1
            self._ambush_these({name, origin}, LONELY_ENDS)

    def _is_lonely(self, name: str) -> bool:
        """Whether a site is slow to all others but one, while there are faults."""
        early = self._world.now < self._plan.faults_end_us * 9 // 10
        if not early or not self._world.is_up(name):
            return False
        return len(self.site(name).slow) == len(self._names) - 2 > 0

    def _ambush_some(self, name: str) -> None:
        self._ambushes -= 1
        self._ambush_these({self._ambush.pick((name, self._ambush.pick(self._names), self._names[0]))})

    def _ambush_these(self, victims: set[str], delays: tuple[int, ...] = (0, 0, 300, 2_000, 10_000)) -> None:
        after = self._ambush.pick(delays)
        for victim in sorted(victims):
            back = after + self._ambush.between(5, 900) * MILLISECOND
            self._world.after(after, partial(self.crash, victim))
            self._world.after(back, partial(self.restart, victim))

    def kill_client(self, node: str, client: str) -> None:
        """Break the kernel's session off."""
        if self._world.is_up(node):
            self._world.tell(node, LABEL, ClientKilled(self._world.now, node))

    def play(self, step: Step) -> None:
        """Let a process do it; a node that is down has none."""
        if self._world.is_up(step.node):
            self._world.tell(step.node, LABEL, StepDue(self._world.clock(step.node), step))
            if self._single_ends > 0 and self._is_lonely(step.node) and self._ambush.chance(0.2):
                self._single_ends -= 1
                self._ambush_these({step.node}, LONELY_ENDS)
            elif self._ambushes > 0 and step.at < self._plan.faults_end_us * 9 // 10 and self._ambush.chance(0.02):
                self._ambush_some(step.node)

    def site(self, name: str) -> IsisNode:
        """The automaton that runs now."""
        node = self._world.automaton(name, LABEL)
        assert isinstance(node, IsisNode)
        return node

    def _mend_paths(self) -> None:
        for name in self._names:
            self.site(name).slow = {}

    def _missing(self) -> list[str]:
        """One site view of all, every process where it wants to be, nothing under way and nothing kept."""
        missing = [f"{name} {text}" for name in self._names for text in self.site(name).missing()]
        if missing:
            return missing
        views = {
            (view.name, view.number, view.members)
            for name in self._names
            if (life := self.site(name).kernel.life) is not None
            for view in life.site.groups.values()
        }
        if len(views) != len({name for name, _, _ in views}):
            missing.append("sites have different views of a group")
        return missing


class IsisRun(SitedNodes):
    """The sites of a plan above the oracle."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        self._settle_in(plan)
        self._draw_splits(Choice(f"splits/{plan.seed}"))
        self._oracle = Oracle(Choice(f"oracle/{plan.seed}"), ORACLE_SETTINGS)
        world.add_service(self._oracle)
        world.observers.append(ToldOracle(world))
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        return {LABEL: self._node(boot)}

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended, and the oracle owes progress."""
        for name in self._names:
            self.slow_disk(name, None)
        components = super().stabilise()
        self._mend_paths()
        self._world.tell_service(Stabilised(self._world.now))
        return components

    def settled(self) -> bool | None:
        """Hellos never end."""
        return not self._missing()

    def live(self) -> list[str]:
        """All that the sites owe."""
        return self._missing()

    def choices(self) -> Mapping[str, int]:
        """The free choices that the oracle took."""
        return self._oracle.taken


class IsisFullRun(SitedNodes, FullRun):
    """Daemons, and a site as a client of each."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._settle_in(plan)
        nodes = tuple(msgspec.structs.replace(node, clients=()) for node in plan.topology.nodes)
        bare = msgspec.structs.replace(plan, topology=msgspec.structs.replace(plan.topology, nodes=nodes))
        super().__init__(world, bare)
        self._draw_splits(Choice(f"splits/{plan.seed}"))

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended."""
        components = super().stabilise()
        self._mend_paths()
        return components

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        automata = super()._program(boot)
        return {SERVICE_LABEL: automata[SERVICE_LABEL], LABEL: self._node(boot)}

    def settled(self) -> bool | None:
        """The sites have all that is owed; their hellos never end, so daemons are never idle."""
        return not self._missing()

    def live(self) -> list[str]:
        """What sites owe; and daemon views that stay."""
        missing = [*self._missing(), *self._restless]
        return [*missing, *self._explained()] if missing else []
