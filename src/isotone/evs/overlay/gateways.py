"""Which daemon of a site holds its links to the other sites.

Two sites can be linked only if their gateways reach each other, so the choice is made for all sites together, by the
representative, from who reaches whom when the daemon view forms. It is a search for the most pairs of gateways that
reach each other: it starts at what suits each site best alone, improves one site at a time in the order of their names,
and ends, because every step adds a pair. Like every such search it may end at less than the best; the routes report
sites that stay cut off.

Implements: [Spread 3.3], which leaves the choice open. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import combinations

import msgspec

from isotone.evs.overlay.topology import Site

Reachability = Mapping[str, Set[str]]
"""Daemon to the daemons that it reaches; a pair counts only if each reaches the other."""


def reach_each_other(reachability: Reachability, one: str, other: str) -> bool:
    """Whether packets get through both ways."""
    return other in reachability.get(one, ()) and one in reachability.get(other, ())


def gateway_of(site: Site, sites: Sequence[Site], reachability: Reachability) -> str:
    """The daemon of the site that reaches the most other sites; then the present gateway, then the first by name."""
    others = [other.daemons for other in sites if other.name != site.name]
    return _best(site, others, reachability)


def choose_gateways(sites: Sequence[Site], reachability: Reachability) -> tuple[Site, ...]:
    """All sites, sorted, with gateways such that many pairs of them reach each other."""
    ordered = sorted(sites, key=lambda site: site.name)
    chosen = [msgspec.structs.replace(site, gateway=gateway_of(site, ordered, reachability)) for site in ordered]
    improved = True
    while improved:
        improved = False
        for place, site in enumerate(chosen):
            gateways = [(other.gateway,) for other in chosen if other.name != site.name]
            best = _best(site, gateways, reachability)
            if best != site.gateway:
                chosen[place] = msgspec.structs.replace(site, gateway=best)
                improved = True
    return tuple(chosen)


def are_linked(sites: Sequence[Site], reachability: Reachability) -> bool:
    """Whether the gateways of every two of these sites reach each other."""
    return all(reach_each_other(reachability, one.gateway, other.gateway) for one, other in combinations(sites, 2))


def _best(site: Site, others: Sequence[Sequence[str]], reachability: Reachability) -> str:
    """The daemon that reaches one of the daemons of the most others; the present gateway wins among equals."""

    def rank(daemon: str) -> tuple[int, bool, str]:
        reached = sum(any(reach_each_other(reachability, daemon, far) for far in other) for other in others)
        return (-reached, daemon != site.gateway, daemon)

    return min(site.daemons, key=rank)
