"""Daemon views that must come to rest, and stay: the demand on a run that no trace can make.

*At rest*: every daemon has an installed daemon view, none of them has changed for a while, and no two daemons are in
different ones of which each could be together with all of the other's daemon view: both ways, inside of a site
directly, from site to site by gateways. Views that keep changing are never at rest, however good each of them is.

Implements: [DESIGN 4], the second phase of a run; docs/protocols/membership.md, "Who is together".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from isotone.core.choice import Choice
from isotone.core.ids import DaemonViewId
from isotone.evs.membership.reach import may_be_together
from isotone.evs.stack import Stack
from isotone.sim.process import SERVICE_LABEL
from isotone.sim.world import World

LOOK_US = 50_000
REST_US = 8_000_000
"""So long nothing may change: longer than any penalty, and than it takes to notice that a link passes one way only."""


class Rest:
    """The daemon views of these nodes, which are all up."""

    def __init__(self, world: World, sites: Mapping[str, str]) -> None:
        self._world = world
        self._sites = sites  # by the names of the nodes
        self._names = tuple(sites)
        self.rested_after_us = 0  # of the last `unrest_within`: when views changed for the last time

    def unrest_within(self, bound_us: int) -> list[str]:
        """Let time pass until views rest; what is wrong when they do not so in time."""
        world = self._world
        began = world.now
        seen, since = self._views(), began
        end = began + bound_us + REST_US
        while world.now < end:
            world.run_until(world.now + LOOK_US)
            views = self._views()
            if views != seen or len(views) < len(self._names) or self._apart(views):
                seen, since = views, world.now
            elif world.now - since >= REST_US:
                self.rested_after_us = since - began
                return []
        self.rested_after_us = world.now - began
        return [f"daemon views do not rest within {bound_us} us: {_told(self._views())}", *self._apart(self._views())]

    def unrest_from_now(self) -> list[str]:
        """Views rest already, and stay as they are."""
        before = self._views()
        self._world.run_until(self._world.now + REST_US)
        after = self._views()
        return [f"daemon views changed without any cause, from {_told(before)} to {_told(after)}"] * (before != after)

    def _views(self) -> dict[str, DaemonViewId]:
        """The installed ones."""
        networks = {name: self._stack(name).membership.node.network for name in self._names}
        return {name: each.view.id for name, each in networks.items() if each is not None and each.installed}

    def _apart(self, views: Mapping[str, DaemonViewId]) -> list[str]:
        """Who could be together and is not."""
        members = {
            name: [other for other in self._names if views.get(other) == views.get(name)] for name in self._names
        }
        return [
            f"{one} and {other} stay apart"
            for one, other in combinations(self._names, 2)
            if views.get(one) != views.get(other)
            and self._could_join(one, members[other])
            and self._could_join(other, members[one])
        ]

    def _could_join(self, name: str, members: Sequence[str]) -> bool:
        near = [each for each in members if self._sites[each] == self._sites[name]]
        together = {each: self._sites[each] for each in (name, *members)}
        return not any(self._is_cut(name, each) for each in near) and may_be_together(together, self._is_cut)

    def _is_cut(self, one: str, other: str) -> bool:
        network = self._world.network
        return network.is_cut(one, other) or network.is_cut(other, one)

    def _stack(self, name: str) -> Stack:
        stack = self._world.automaton(name, SERVICE_LABEL)
        assert isinstance(stack, Stack)
        return stack


def draw_lasting_cuts(choice: Choice, names: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """Links that stay cut for a while when all other faults are over: from, to, and whether one way only."""
    if len(names) < 2 or not choice.chance(0.3):
        return ()
    cuts = []
    for _ in range(choice.between(1, len(names))):
        one, other = choice.sample(names, 2)
        if choice.chance(0.5):
            one, other = other, one
        cuts.append((one, other, choice.chance(0.5)))
    return tuple(cuts)


WALLED_SHARE = 0.25
"""Of the seeds of the full stack with several daemons in a site."""


def draw_walls(choice: Choice, site_of: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs of daemons of different sites that never reach each other: sites are connected by gateways only.

    The first daemons of all sites reach each other, and on some seeds their second ones.
    """
    by_site: dict[str, list[str]] = {}
    for name, site in site_of.items():
        by_site.setdefault(site, []).append(name)
    if len(by_site) < 2 or len(by_site) == len(site_of) or not choice.chance(WALLED_SHARE):
        return ()
    ranks: dict[str, int] = {}
    for names in by_site.values():
        choice.shuffle(names)
        ranks |= {name: rank for rank, name in enumerate(names)}
    gateways = choice.pick((1, 1, 2))
    return tuple(
        (one, other)
        for one, other in combinations(site_of, 2)
        if site_of[one] != site_of[other] and not ranks[one] == ranks[other] < gateways
    )


def _told(views: Mapping[str, DaemonViewId]) -> str:
    return ", ".join(f"{name} in {view}" for name, view in views.items())
