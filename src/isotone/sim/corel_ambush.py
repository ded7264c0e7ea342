"""Faults that lie in wait: a change of the network or a crash just when a server recovers, attempts or commits.

Schedules that know nothing of the protocol rarely meet the few milliseconds between a commit and its establishment;
that is where [COReL 5.6] says that its main subtleties are.

Implements: [DESIGN 4], faults of a simulated run; they follow from the seed, as all others do.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core.choice import Choice
from isotone.corel.events import ConfigurationChanged, Standing, StandingChanged
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.faults import MILLISECOND
from isotone.sim.world import World

AMBUSHES_MAX = 12
CHANGED = 0.5
SHOTS_MAX, SHOT = 24, 0.9
INTERRUPTIONS_MAX, INTERRUPTED = 10, 0.25
FIRST_MEETING_MS, MEETING_MS = (350, 450), (1_150, 1_600)
PARTED_MS, SHOT_PARTED_MS = (20, 900), (250, 900)  # how long; both sides of a shot shall come to something
CHANCES = {
    Standing.EXCHANGE: 0.01,
    Standing.PRIORITY: 0.05,
    Standing.RETRANSMIT: 0.05,
    Standing.ATTEMPT: 0.05,
    Standing.COMMIT: 0.15,
    Standing.REGULAR: 0.03,
}


class _Striker:
    """Parts the network, and mends it after a while."""

    parted_ms = PARTED_MS

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int, founders: tuple[str, ...]) -> None:
        self._world = world
        self._nodes = nodes
        self._choice = choice
        self._end_us = end_us
        self._founders = founders

    def _later(self) -> int:
        return min(self._choice.between(*self.parted_ms) * MILLISECOND, self._end_us - self._world.now)

    def _split(self, node: str, company: list[str]) -> None:
        side = [node, *company]
        self._nodes.partition([side, [name for name in self._world.nodes if name not in side]])
        self._world.after(self._later(), self._nodes.heal)

    def _defect(self, node: str, servers: tuple[str, ...]) -> None:
        """It goes over to those who were not in its view."""
        self._split(node, [name for name in self._world.nodes if name not in {*servers, node}])

    def _desert(self, node: str, servers: tuple[str, ...]) -> None:
        """It goes with those who were added, before the others know."""
        self._split(node, [name for name in servers if name not in {*self._founders, node}])


class Ambusher(_Striker):
    """Strikes a few times in a run, until the phase of faults is over."""

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int, founders: tuple[str, ...]) -> None:
        super().__init__(world, nodes, choice, end_us, founders)
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

    def _crash(self, node: str, servers: tuple[str, ...]) -> None:
        self._nodes.crash(node)
        self._world.after(self._later(), lambda: self._nodes.restart(node))

    def _part(self, node: str, servers: tuple[str, ...]) -> None:
        """This node goes with some of the others."""
        self._split(node, [name for name in self._world.nodes if name != node and self._choice.chance(0.4)])


class Sniper(_Striker):
    """Strikes when one server knows what another one of its view does not know yet, and parts just these two.

    A primary component is established at one and committed to at the other; or a reconfiguration is green at one and
    yellow at the other. Then each goes on with those who would make a quorum if the other's knowledge did not count.
    """

    parted_ms = SHOT_PARTED_MS

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int, founders: tuple[str, ...]) -> None:
        super().__init__(world, nodes, choice, end_us, founders)
        self._left = SHOTS_MAX
        self._standing: dict[str, StandingChanged] = {}
        self._configuration: dict[str, int] = {}

    def on_told(self, node: str, told: StandingChanged | ConfigurationChanged) -> None:
        """What each server tells; another is behind it, or not."""
        if isinstance(told, ConfigurationChanged):
            self._configuration[node] = told.number
            behind = [name for name in self._view(node) if self._configuration.get(name, 0) < told.number]
            self._shoot(bool(behind), lambda: self._desert(node, told.servers))
            return
        self._standing[node] = told
        if told.standing is not Standing.REGULAR or not told.primary:
            return
        committed = [name for name in told.servers if name != node and self._stands(name) is Standing.COMMIT]
        if len(told.servers) == len(self._world.nodes):
            self._shoot(not committed, self._halve)
        elif committed:
            late = self._choice.pick(committed)
            self._shoot(True, lambda: self._defect(late, told.servers))

    def _halve(self) -> None:
        """All were together: from now on just enough are that they make a quorum, and one of them does the others."""
        names = list(self._world.nodes)
        self._choice.shuffle(names)
        self._split(names[0], names[1 : len(names) // 2 + 1])

    def _view(self, node: str) -> tuple[str, ...]:
        return self._standing[node].servers if node in self._standing else ()

    def _stands(self, node: str) -> Standing | None:
        return self._standing[node].standing if node in self._standing else None

    def _shoot(self, can: bool, strike: Callable[[], None]) -> None:
        if can and self._left and self._world.now < self._end_us and self._choice.chance(SHOT):
            self._left -= 1
            self._world.after(0, strike)


class Interrupter(_Striker):
    """Strikes between two pieces of a state: at the server that learns, or at the one that it learns from."""

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int, founders: tuple[str, ...]) -> None:
        super().__init__(world, nodes, choice, end_us, founders)
        self._left = choice.pick((0, INTERRUPTIONS_MAX))

    def on_piece(self, node: str, teacher: str) -> None:
        """A piece of a state came, and it is not whole."""
        if not self._left or self._world.now >= self._end_us or not self._choice.chance(INTERRUPTED):
            return
        self._left -= 1
        struck = self._choice.pick((node, teacher))
        strike = self._choice.pick((self._crash, self._isolate))
        self._world.after(0, lambda: strike(struck))

    def _crash(self, node: str) -> None:
        self._nodes.crash(node)
        self._world.after(self._later(), lambda: self._nodes.restart(node))

    def _isolate(self, node: str) -> None:
        self._split(node, [])


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


class SlowGossip:
    """The same where views take long: from the beginning two founders are together, and each time another two.

    So a proposal that was made at the first meeting is known to all after the second one.
    """

    def __init__(self, world: World, nodes: EvsNodes, choice: Choice, end_us: int, founders: tuple[str, ...]) -> None:
        self._world = world
        self._nodes = nodes
        self._choice = choice
        self._end_us = end_us
        others = list(founders[1:])
        choice.shuffle(others)
        self._turns = [founders[0], *others]  # who meets: the first two; then the list moves on by one
        world.after(0, lambda: self._meet(FIRST_MEETING_MS))

    def _meet(self, meeting_ms: tuple[int, int]) -> None:
        pairs = [self._turns[:2], self._turns[2:]]
        for name in self._world.nodes:
            if name not in self._turns:
                self._choice.pick(pairs).append(name)
        self._nodes.partition(pairs)
        self._turns = [*self._turns[1:], self._turns[0]]
        pause = self._choice.between(*meeting_ms) * MILLISECOND
        if self._world.now + pause < self._end_us:
            self._world.after(pause, lambda: self._meet(MEETING_MS))
