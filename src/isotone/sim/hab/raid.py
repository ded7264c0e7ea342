"""Raids: the worst at the worst moment. Some backups fall behind while the primary orders much, then the primary is
lost, or is declared lost and goes on; perhaps the next one is lost as well.

Schedules that know nothing of the protocol rarely meet the moment in which some have an entry and others do not.

Implements: [DESIGN 4], faults of a simulated run; they follow from the seed, as all others do.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core.choice import Choice
from isotone.hab.centre import Role
from isotone.sim.faults import MILLISECOND
from isotone.sim.hab.node import BroadcastStep
from isotone.sim.hab.operator import Operator
from isotone.sim.plan import Step
from isotone.sim.world import World

MENDED_MS = (400, 1_500)


class RaidStep(Step, frozen=True, tag="raid"):
    """``deaf``: the primary hears nothing of those who fall behind, and is heard. ``fence``: it lives on.

    ``second``: the centre that takes over is lost in its turn, ``apart_ms`` later.
    """

    deaf: bool
    fence: bool
    second: bool
    lead_ms: int
    apart_ms: int


class Raiders:
    """Carries out raids on whatever the centres are at that time."""

    def __init__(
        self, world: World, operator: Operator, choice: Choice, play: Callable[[Step], None], end_us: int
    ) -> None:
        self._world, self._operator, self._choice, self._play = world, operator, choice, play
        self._end_us = end_us  # nobody strikes later

    def raid(self, step: RaidStep) -> None:
        """Cut some backups off, let the primary order, then strike."""
        operator = self._operator
        primary = operator.primary()
        others = [each for each in operator.serving() if each != primary]
        if primary is None or not others:
            return
        self._choice.shuffle(others)
        behind = others[: self._choice.between(1, max(1, len(others) - 1))]
        self._cut(primary, behind, deaf=step.deaf)
        self._burst(primary, step.lead_ms)
        self._world.after(step.lead_ms * MILLISECOND, lambda: self._strike(primary, step))

    def _cut(self, primary: str, behind: list[str], *, deaf: bool) -> None:
        pairs = [(one, other) for each in behind for one in self._names(each) for other in self._names(primary)]
        for one, other in pairs:
            self._world.cut(one, other, one_way=deaf)
        self._world.after(self._choice.between(*MENDED_MS) * MILLISECOND, lambda: self._mend(pairs))

    def _mend(self, pairs: list[tuple[str, str]]) -> None:
        for one, other in pairs:
            self._world.mend(one, other)

    def _burst(self, primary: str, lead_ms: int) -> None:
        """Broadcasts around the disaster, most of them in the primary."""
        for _ in range(self._choice.between(2, 8)):
            node = self._choice.pick(self._names(primary if self._choice.chance(0.7) else self._operator.any_centre()))
            step = BroadcastStep(at=0, node=node, lengths=(16,) * self._choice.between(1, 3))
            after = self._choice.between(0, 2 * lead_ms) * MILLISECOND
            self._world.after(after, lambda step=step: self._play(step))  # type: ignore[misc]

    def _strike(self, primary: str, step: RaidStep) -> None:
        if self._world.now >= self._end_us:
            return
        if step.fence:
            self._operator.fence(primary, cut=False, opposite=self._choice.chance(0.2))
        else:
            self._operator.strike(primary, whole=self._choice.chance(0.7))
        if step.second:
            self._world.after(step.apart_ms * MILLISECOND, self._strike_next)

    def _strike_next(self) -> None:
        """The one that leads now, or will."""
        operator = self._operator
        if self._world.now >= self._end_us or not operator.serving():
            return
        next_one = operator.with_role(Role.TRANSITION) or operator.primary() or self._choice.pick(operator.serving())
        operator.strike(next_one, whole=True)

    def _names(self, centre: str) -> tuple[str, ...]:
        return self._operator.centres[centre]
