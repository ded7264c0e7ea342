"""The processes of a run in a world: faults that a centre bears, the operator's acts, and what is owed at the end.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from isotone.core.choice import Choice
from isotone.core.contract import Address, Automaton
from isotone.corel.identities import log_identity
from isotone.hab.centre import Role
from isotone.hab.process import Hab
from isotone.hab.stack import HabOnConsensus, HabOnCorel
from isotone.hab.witness import Witness
from isotone.sim.evs_clients import StepDue
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.evs_system import ToldOracle
from isotone.sim.faults import MILLISECOND
from isotone.sim.hab.node import BroadcastStep, HabNode, WitnessNode
from isotone.sim.hab.operator import (
    LABEL,
    CoordinatorStep,
    DisasterStep,
    FenceStep,
    HandoverStep,
    Operator,
    ReturnStep,
    SuspectStep,
)
from isotone.sim.hab.raid import Raiders, RaidStep
from isotone.sim.hab.terms import COREL, Terms, draw_terms
from isotone.sim.plan import Plan, Step
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.spec.oracle import Oracle, OracleSettings, Stabilised


class HabRun(EvsNodes):
    """The processes of a plan."""

    def __init__(self, world: World, plan: Plan, terms: Terms | None = None, *, crossing: bool = False) -> None:
        super().__init__(world, plan)
        self._stack = plan.stack
        self._terms = terms or draw_terms(plan.seed, plan.topology, plan.stack)
        self._crossing = crossing
        self._centres = self._terms.settings.centres
        self._oracle: Oracle | None = None
        if plan.stack == COREL:
            self._oracle = Oracle(Choice(f"oracle/{plan.seed}"), OracleSettings())
            world.add_service(self._oracle)
            world.observers.append(ToldOracle(world))
        for node in plan.topology.nodes:
            world.add_process(node.name, self._program, site=node.site)
        if witness := self._terms.settings.witness:
            world.add_process(witness, self._witness, site=witness)
        self._lengthen_links()
        self.operator = Operator(world, self._terms, plan.stack, plan.seed, self.node)
        self._raiders = Raiders(
            world, self.operator, Choice(f"hab/{plan.seed}").derive("raiders"), self.play, plan.faults_end_us
        )

    def _lengthen_links(self) -> None:
        network = self._world.network
        for one in self._names:
            for other in self._names:
                if self._terms.settings.centre_of(one) != self._terms.settings.centre_of(other):
                    network.link(one, other).change(self._terms.wide)

    def _witness(self, boot: Boot) -> Mapping[str, Automaton]:
        del boot
        return {LABEL: WitnessNode(Witness(self._terms.settings))}

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        name = boot.daemon.name
        boot.players[name] = LABEL
        settings = self._terms.settings
        stack: HabOnConsensus | HabOnCorel
        if self._stack == COREL:
            identity = log_identity(name.encode(), boot.daemon.incarnation)
            stack = HabOnCorel(settings, name, boot.daemon, identity)
        else:
            stack = HabOnConsensus(settings, name, boot.daemon.incarnation, founder=boot.daemon.incarnation == 1)
        witness = (settings.witness,) if settings.witness else ()
        addresses = {each: Address(f"{each}.1") for each in (*self._names, *witness)}
        node = HabNode(
            stack,
            addresses,
            lambda address: str(address).partition(".")[0],
            str(boot.daemon),
            self._terms.snapshot_every,
            self._crossing,
        )
        return {LABEL: node}

    # --- faults ----------------------------------------------------------------------------------------------------

    def crash(self, node: str) -> None:
        """End a process, if its centre bears it: with consensus it stays away, so a majority must be left."""
        centre = self._terms.settings.centre_of(node)
        names = self._centres[centre]
        if centre in self.operator.lost or not self._world.is_up(node):
            return
        if self._stack == COREL or len(self.operator.up(centre)) - 1 > len(names) // 2:
            super().crash(node)

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Start it again, unless its centre is lost, or the process is gone for good."""
        if self._stack == COREL and self._terms.settings.centre_of(node) not in self.operator.lost:
            super().restart(node)

    def play(self, step: Step) -> None:
        """Let the application broadcast, or something happen to a centre."""
        centre = self._terms.settings.centre_of(step.node)
        match step:
            case BroadcastStep():
                if self._world.is_up(step.node):
                    self._world.tell(step.node, LABEL, StepDue(self._world.clock(step.node), step))
            case DisasterStep(whole=whole):
                self.operator.strike(centre, whole=whole)
            case FenceStep(cut=cut, opposite=opposite):
                self.operator.fence(centre, cut=cut, opposite=opposite)
            case ReturnStep():
                self.operator.bring_back(centre)
            case HandoverStep():
                self.operator.hand_over(centre)
            case SuspectStep():
                self.operator.suspect(step.node)
            case CoordinatorStep():
                self._crash_coordinator(step.node)
            case RaidStep():
                self._raiders.raid(step)

    def _crash_coordinator(self, node: str) -> None:
        if self._world.is_up(node):
            hab = self.hab(node)
            coordinator = hab.centre.coordinator(hab.settings)
            self.crash(coordinator)
            self._world.after(400 * MILLISECOND, partial(self.restart, coordinator))

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        """All is mended but what is lost; whoever is out comes back."""
        for name in self._names:
            self.slow_disk(name, None)
            self.restart(name)
            self.resume(name)
        self._world.heal()
        self.operator.return_all()
        if self._oracle is not None:
            self._world.tell_service(Stabilised(self._world.now))
        living = [name for centre in self.operator.living() for name in self.operator.up(centre)]
        return self._world.network.components(living)

    # --- liveness --------------------------------------------------------------------------------------------------

    def hab(self, name: str) -> Hab:
        """The process that runs now."""
        return self.node(name).hab

    def node(self, name: str) -> HabNode:
        """The same with its application."""
        node = self._world.automaton(name, LABEL)
        assert isinstance(node, HabNode)
        return node

    def settled(self) -> bool | None:
        """Whether nothing is missing."""
        return not self.live() and all(self._world.disk(name).is_settled for name in self._names)

    def live(self) -> list[str]:
        """One primary, everybody else its backup, everything delivered everywhere."""
        missing: list[str] = []
        living = [name for centre in self.operator.living() for name in self.operator.up(centre)]
        habs = {name: self.hab(name) for name in living}
        primaries = sorted({hab.centre.name for hab in habs.values() if hab.centre.role is Role.PRIMARY})
        if len(primaries) != 1:
            missing.append(f"the primaries are {primaries}")
        for name, hab in habs.items():
            centre = hab.centre
            if centre.role not in {Role.PRIMARY, Role.BACKUP}:
                missing.append(f"{name} is {centre.role.value}")
            if hab.submissions.pending:
                missing.append(f"{name} has {len(hab.submissions.pending)} broadcasts that are not delivered")
            if centre.delivered < centre.log.end:
                missing.append(f"{name} has delivered {centre.delivered} of {centre.log.end}")
            names = sorted(group.name for group in centre.configuration.groups)
            if names != sorted(self.operator.living()):
                missing.append(f"{name} thinks that {names} take part, and {self.operator.living()} do")
        states = {name: self.node(name).application for name in living}
        if len({(each.position, each.digest) for each in states.values()}) > 1:
            missing.append(f"the states differ: { {name: each.position for name, each in states.items()} }")
        return missing

    def choices(self) -> Mapping[str, int]:
        """Of the oracle, if there is one."""
        return self._oracle.taken if self._oracle is not None else {}
