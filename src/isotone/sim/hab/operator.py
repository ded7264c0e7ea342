"""The operator of a simulated run: declares disasters, sometimes ones that are none, and brings centres back.

Implements: [HAB 1], "disaster detection involves human intervention".
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core.choice import Choice
from isotone.core.contract import Event
from isotone.hab.centre import Role
from isotone.hab.events import DeclareWanted, HandoverWanted, LocalSuspected, RejoinWanted
from isotone.hab.process import Hab
from isotone.sim.faults import MILLISECOND
from isotone.sim.hab.node import HabNode
from isotone.sim.hab.terms import CONSENSUS, Terms
from isotone.sim.plan import Step
from isotone.sim.world import World
from isotone.trace.hab import HaDisaster

LABEL = "hab"
PEOPLE = ("anna", "ben")
"""Who must both say it, in a run that asks for two operators."""
LOOK_US = 250 * MILLISECOND


class DisasterStep(Step, frozen=True, tag="disaster"):
    """The centre of this process is lost: all of its processes, or just too many of them."""

    whole: bool


class FenceStep(Step, frozen=True, tag="fence-centre"):
    """The centre of this process is declared lost although it lives, perhaps cut off; it may declare the other."""

    cut: bool
    opposite: bool


class ReturnStep(Step, frozen=True, tag="return-centre"):
    """The centre of this process comes back."""


class HandoverStep(Step, frozen=True, tag="hand-over"):
    """The centre of this process shall be the primary."""


class SuspectStep(Step, frozen=True, tag="suspect-coordinator"):
    """This process wrongly suspects the coordinator of its centre for a while."""


class CoordinatorStep(Step, frozen=True, tag="crash-coordinator"):
    """The coordinator of this process' centre crashes."""


class Operator:
    """Knows which centres are lost, and acts at those that are not."""

    def __init__(self, world: World, terms: Terms, stack: str, seed: int, node: Callable[[str], HabNode]) -> None:
        self.lost: set[str] = set()  # centres that a disaster hit, and that are not back
        self.fenced: set[str] = set()  # centres that were wrongly declared lost
        self._world, self._terms, self._stack = world, terms, stack
        self.centres = terms.settings.centres
        self._node = node
        self._choice = Choice(f"hab/{seed}").derive("operator")
        self._declares_at: dict[str, int] = {}
        world.after(LOOK_US, self._look)

    def _hab(self, name: str) -> Hab:
        return self._node(name).hab

    def up(self, centre: str) -> list[str]:
        """Its living processes."""
        return [name for name in self.centres[centre] if self._world.is_up(name)]

    def living(self) -> list[str]:
        """The centres that no disaster hit."""
        return [centre for centre in self.centres if centre not in self.lost]

    def serving(self) -> list[str]:
        """The centres that take part and were not declared lost."""
        return [each for each in self.living() if each not in self.fenced and self._takes_part(each)]

    def operational(self) -> list[str]:
        """Those of them that no other one takes for lost [HAB 2]: one at least must be left, or nothing is promised."""
        states = {each: [self._hab(name).centre for name in self.up(each)] for each in self.serving()}

        def is_given_up(centre: str) -> bool:
            others = [state for each, found in states.items() if each != centre for state in found]
            return any(
                state.is_centre_lost(centre) or state.configuration.named(centre) is None
                for state in others
                if state.role is not Role.OUT
            )

        return [each for each in states if not is_given_up(each)]

    def with_role(self, role: Role) -> str | None:
        """The serving centre of the highest epoch that has this role."""
        found = [(self._hab(name).centre.epoch, each) for each in self.serving() for name in self.up(each)[:1]]
        return next((each for _, each in sorted(found, reverse=True) if self._role(each) is role), None)

    def primary(self) -> str | None:
        """The serving centre that leads."""
        return self.with_role(Role.PRIMARY)

    def any_centre(self) -> str:
        """One that lives."""
        return self._choice.pick(self.living())

    def _role(self, centre: str) -> Role:
        return self._hab(self.up(centre)[0]).centre.role

    def strike(self, centre: str, *, whole: bool) -> None:
        """A disaster; unless it is the last operational centre."""
        if centre in self.lost or not any(each != centre for each in self.operational()):
            return
        names = list(self.centres[centre])
        keep = 0 if whole else len(names) - (len(names) // 2 + 1) if len(names) % 2 else len(names) // 2 - 1
        self.lost.add(centre)
        self.fenced.discard(centre)
        for name in names[: len(names) - max(0, keep)]:
            if self._world.is_up(name):
                self._world.crash(name)
        self._world.record("", HaDisaster(centre))
        self._declares_at[centre] = self._world.now + self._terms.declares_after_us

    def fence(self, centre: str, *, cut: bool, opposite: bool) -> None:
        """Declare a living centre lost, where the rest is a majority of all that take part."""
        others = [each for each in self.living() if each not in self.fenced and each != centre]
        if centre in self.lost or centre in self.fenced or len(others) < len(self.centres) // 2 + 1:
            return
        self.fenced.add(centre)
        if cut:
            rest = [name for each in self.centres if each != centre for name in self.centres[each]]
            self._world.partition(list(self.centres[centre]), rest)
        at = self._choice.pick(others)
        self._say((at, others[others.index(at) - 1]), centre)
        if opposite:
            self._say((centre,), at)

    def bring_back(self, centre: str) -> None:
        """A centre that was lost starts again; one that was only declared lost asks to come back."""
        if centre in self.lost:
            self.lost.discard(centre)
            self._declares_at.pop(centre, None)
            for name in self.centres[centre]:
                if self._world.is_up(name) and self._stack == CONSENSUS:
                    self._world.crash(name)  # what is left of it begins anew with the others
                if not self._world.is_up(name):
                    self._world.restart(name)
        elif centre in self.fenced:
            self._tell(centre, RejoinWanted(0))

    def hand_over(self, centre: str) -> None:
        """Ask for it at any centre."""
        self._tell(self._choice.pick(self.living()), HandoverWanted(0, centre))

    def suspect(self, node: str) -> None:
        """A false suspicion for a while: of the coordinator, and of another who may lead a round of consensus."""
        if self._world.is_up(node):
            hab = self._hab(node)
            suspects = {hab.centre.coordinator(hab.settings)}
            if self._stack == CONSENSUS:
                suspects = (suspects | {self._choice.pick(self.centres[hab.centre.name])}) - {node}
            self._world.tell(node, LABEL, LocalSuspected(0, tuple(sorted(suspects))))
            self._world.after(30 * MILLISECOND, lambda: self._unsuspect(node))

    def _unsuspect(self, node: str) -> None:
        if self._world.is_up(node):
            self._world.tell(node, LABEL, LocalSuspected(0, self._node(node).stack.suspects))

    def _say(self, at: tuple[str, ...], lost: str, *, override: bool = False) -> None:
        """Declare it at the first of these. Where two operators must, each does so at a centre of his own, but where
        somebody wants it already; so does `isotone site declare-lost`.
        """
        if self._terms.settings.confirmations == 1:
            self._tell(at[0], DeclareWanted(0, lost, override))
            return
        wanted = [each for each in at if any(lost in self._hab(name).centre.petitions for name in self.up(each))]
        for number, name in enumerate(PEOPLE):
            place = wanted[0] if wanted else at[number % len(at)]
            self._tell(place, DeclareWanted(0, lost, override, name))

    def _tell(self, centre: str, event: Event) -> None:
        up = self.up(centre)
        if up:
            self._world.tell(self._choice.pick(up), LABEL, event)

    def _look(self) -> None:
        """Declare what is lost where nobody knows it yet; ask for the return of centres that found themselves out."""
        self._world.after(LOOK_US, self._look)
        serving = [each for each in self.living() if self.up(each)]
        for lost in sorted(self.lost):
            if self._world.now >= self._declares_at.get(lost, 0):
                for place, centre in enumerate(serving):
                    self._declare(centre, serving[place - 1], lost)
        for fenced in sorted(self.fenced):
            for centre in serving:
                self._declare(centre, centre, fenced, only_known=True)

    def return_all(self) -> None:
        """At the end: whoever lives and is out asks to come back."""
        for centre in self.living():
            for name in self.up(centre)[:1]:
                if self._hab(name).centre.role is Role.OUT and not self._hab(name).centre.joining:
                    self._tell(centre, RejoinWanted(0))
        self._world.after(LOOK_US, self.return_all)

    def _takes_part(self, centre: str) -> bool:
        up = self.up(centre) if centre not in self.lost else []
        return bool(up) and self._hab(up[0]).centre.role is not Role.OUT

    def _declare(self, at: str, second: str, lost: str, *, only_known: bool = False) -> None:
        """Where a majority cannot record it, by an override: it is true, and he knows it. A second operator says the
        same at ``second``, but an override at the same centre.

        ``only_known``: what a majority recorded once counts also when that is gone.
        """
        state = self._hab(self.up(at)[0]).centre
        group = state.configuration.named(lost)
        if state.role is Role.OUT or group is None:
            return
        groups = state.configuration.groups
        able = [each.name for each in groups if self._takes_part(each.name) and not state.is_lost(each.number)]
        override = len(able) < state.configuration.majority
        known = state.declarations.get(lost)
        if only_known and not (override and state.is_lost(group.number)):
            return
        if known is None or (override and not known.override):
            self._say((at,) if override else (at, second), lost, override=override)
