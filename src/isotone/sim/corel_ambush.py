"""Faults that lie in wait: a change of the network or a crash just when a server recovers, attempts or commits.

Schedules that know nothing of the protocol rarely meet the few milliseconds between a commit and its establishment;
that is where [COReL 5.6] says that its main subtleties are.

Implements: [DESIGN 4], faults of a simulated run; they follow from the seed, as all others do.
"""

from __future__ import annotations

from isotone.core.choice import Choice
from isotone.corel.events import ConfigurationChanged, Standing, StandingChanged
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.faults import MILLISECOND
from isotone.sim.world import World

AMBUSHES_MAX = 12
CHANGED = 0.5
CHANCES = {
    Standing.EXCHANGE: 0.01,
    Standing.PRIORITY: 0.05,
    Standing.RETRANSMIT: 0.05,
    Standing.ATTEMPT: 0.05,
    Standing.COMMIT: 0.15,
    Standing.REGULAR: 0.03,
}


class Ambusher:
    """Strikes a few times in a run, until the phase of faults is over."""

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int, founders: tuple[str, ...]) -> None:
        self._world = world
        self._nodes = nodes
        self._choice = choice
        self._end_us = end_us
        self._founders = founders
        self._left = choice.pick((0, AMBUSHES_MAX, AMBUSHES_MAX))

    def on_told(self, node: str, told: StandingChanged | ConfigurationChanged) -> None:
        """A server came to stand somewhere, or has a reconfiguration green; perhaps strike within milliseconds."""
        if isinstance(told, StandingChanged):
            self._on_standing(node, told)
        elif self._left and self._world.now < self._end_us and self._choice.chance(CHANGED):
            self._left -= 1
            delay = self._choice.between(0, self._choice.pick((0, 1, 4)) * MILLISECOND)
            self._world.after(delay, lambda: self._desert(node, told.servers))

    def _on_standing(self, node: str, told: StandingChanged) -> None:
        delay = self._choice.between(0, self._choice.pick((2, 12, 60)) * MILLISECOND)
        if not self._left or self._world.now + delay >= self._end_us:
            return
        if self._choice.chance(CHANCES.get(told.standing, 0.0)):
            self._left -= 1
            strike = self._choice.weighted(((self._crash, 1.0), (self._part, 1.5), (self._defect, 1.5)))
            self._world.after(delay, lambda: strike(node, told.servers))

    def _later(self) -> int:
        return min(self._choice.between(20, 900) * MILLISECOND, self._end_us - self._world.now)

    def _crash(self, node: str, servers: tuple[str, ...]) -> None:
        self._nodes.crash(node)
        self._world.after(self._later(), lambda: self._nodes.restart(node))

    def _part(self, node: str, servers: tuple[str, ...]) -> None:
        """This node goes with some of the others."""
        self._split(node, [name for name in self._world.nodes if name != node and self._choice.chance(0.4)])

    def _defect(self, node: str, servers: tuple[str, ...]) -> None:
        """It goes over to those who were not in its view."""
        self._split(node, [name for name in self._world.nodes if name not in {*servers, node}])

    def _desert(self, node: str, servers: tuple[str, ...]) -> None:
        """It goes with those who were added, before the others know."""
        self._split(node, [name for name in servers if name not in {*self._founders, node}])

    def _split(self, node: str, company: list[str]) -> None:
        side = [node, *company]
        self._nodes.partition([side, [name for name in self._world.nodes if name not in side]])
        self._world.after(self._later(), self._nodes.heal)


class Gossip:
    """No quorum meets for a while: pairs come together and part again, and what they know spreads through them.

    This is the network that order proposals are made for [COReL 7.1].
    """

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int) -> None:
        self._world = world
        self._nodes = nodes
        self._choice = choice
        self._end_us = end_us
        world.after(choice.between(20, 200) * MILLISECOND, self._meet)

    def _meet(self) -> None:
        pause = self._choice.between(60, 220) * MILLISECOND
        if self._world.now + pause >= self._end_us:
            return
        names = list(self._world.nodes)
        self._choice.shuffle(names)
        self._nodes.partition([names[place : place + 2] for place in range(0, len(names), 2)])
        self._world.after(pause, self._meet)
