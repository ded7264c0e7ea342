"""What a process says to others leaves its site in an order that failures respect.

Whatever is said to a site goes behind all CBCASTs that may not be everywhere yet: D-along. It also waits for ABCASTs
and GBCASTs that were begun here before, until they are at their destinations, unless the site is one of these: D-begun.
To other clusters it goes when all local destinations have it, and all that came before it is everywhere: D-order. So
nothing travels along from one cluster to another, and whoever takes a broadcast over can be a local site.

Implements: [ISIS 3.5], [ISIS 4.6]. Deviations: D-along, D-begun (the paper has no rule for the first phase of an
ABCAST; if its sender fails, whoever got what was said then would be the only one to know of it, and could not take it
over), D-order (the paper sorts CBCASTs by their labels, which are too weak for [3.5]).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from isotone.isis.cbcast import Cbcasts
from isotone.isis.incarnation import Begun, Site
from isotone.isis.wire import Body


@dataclass
class Departure:
    """What has not left for all its sites."""

    body: Body
    key: str  # in `Site.begun`, where it begins a broadcast
    near: list[str]
    far: tuple[str, ...]
    after: tuple[str, ...]  # begun before it
    behind: list[str]  # CBCASTs that are to be everywhere before it goes far


@dataclass
class Departures:
    """Of one site."""

    site: Site
    cbcasts: Cbcasts
    waiting: list[Departure] = field(default_factory=list)
    _count: int = 0

    def send(self, body: Body, sites: Iterable[str], *, begins: bool = False) -> None:
        """At once or when it may go there; ``begins``: the first phase of a broadcast."""
        site, sites = self.site, tuple(sites)
        after, far, key = tuple(site.begun), site.abroad(sites), ""
        if begins and sites:
            self._count += 1
            key = str(self._count)
            site.begun[key] = Begun(frozenset(sites), set(sites))
        behind = self.cbcasts.not_everywhere() if far else []
        self.cbcasts.schedule(behind)
        self.waiting.append(Departure(body, key, [each for each in sites if each not in far], far, after, behind))
        self.advance()

    def on_sent(self, site: str, key: str) -> None:
        """A site has the first phase, or failed."""
        if (begun := self.site.begun.get(key)) is not None:
            begun.missing.discard(site)
            if not begun.missing:
                del self.site.begun[key]

    def on_view(self) -> None:
        """The failed need nothing any more."""
        for key in list(self.site.begun):
            for site in sorted(self.site.begun[key].missing):
                if not self.site.is_up(site):
                    self.on_sent(site, key)

    def advance(self) -> None:
        """Let go what waits for nothing any more."""
        self.waiting = [each for each in self.waiting if not self._leaves(each)]

    def _leaves(self, departure: Departure) -> bool:
        """Whether it has left for all its sites."""
        site = self.site
        token = ("departures", departure.key) if departure.key else None
        for each in list(departure.near):
            if each == site.me or not site.is_held_back(each, departure.after):
                departure.near.remove(each)
                self.cbcasts.transmit_past(each)
                site.send(each, departure.body, token)
        if departure.near or not departure.far:
            return not departure.near
        departure.behind = [id for id in departure.behind if self.cbcasts.is_under_way(id)]
        begun = site.begun.get(departure.key)
        is_local = begun is not None and any(site.is_near(each) for each in begun.missing)
        if is_local or departure.behind or any(key in site.begun for key in departure.after):
            return False
        for each in site.alive(departure.far):
            site.send(each, departure.body, token)
        return True
