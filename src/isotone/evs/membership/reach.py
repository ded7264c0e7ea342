"""Who may be together: a maximal set without cut pairs; which daemons hold the links between sites; at which weights.

The coordinator takes itself, then those of its present daemon view, then the others by id, each if it reaches
everybody taken before and shares a version with all of them. So nobody is left out who reaches all that were taken, the
daemon view of the smallest coordinator only grows, and the choice is the same however often it is made.

Implements: [Spread 6.1.8], CREATE_SEND_NEWMEMB, and [Spread 3.3], the overlay. Deviations: D-clique members reach each
other pairwise, because a daemon view over one-way or non-transitive links would fail again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from isotone.core.ids import DaemonId
from isotone.core.versions import VersionRange, highest_common
from isotone.evs.membership.settings import LinkPlan
from isotone.evs.overlay.gateways import choose_gateways
from isotone.evs.overlay.topology import WEIGHT_MAX, Link, Topology, make_link, make_site, make_topology

WEIGHT_UNIT_US = 100  # a measured weight counts such parts of a round trip

Pair = tuple[str, str]


def pair(one: str, other: str) -> Pair:
    """Two daemons, in either order."""
    return (one, other) if one < other else (other, one)


def maximal_set(
    candidates: Sequence[DaemonId],
    *,
    is_cut: Callable[[str, str], bool],
    versions: Callable[[str], VersionRange],
) -> tuple[DaemonId, ...]:
    """Greedily in the order given; sorted."""
    taken: list[DaemonId] = []
    ranges: list[VersionRange] = []
    for each in candidates:
        if any(is_cut(each.name, other.name) for other in taken):
            continue
        own = versions(each.name)
        if highest_common([*ranges, own]) is None:
            continue
        taken.append(each)
        ranges.append(own)
    return tuple(sorted(taken))


def plan_topology(
    sites: Mapping[str, str],
    plans: Sequence[LinkPlan],
    *,
    distance: Callable[[str, str], int | None],
    avoided: Iterable[Pair] = (),
) -> Topology:
    """The overlay of daemons (name to site): links as planned among the sites that are there, and what is needed more.

    ``distance`` is the measured round trip between two sites; pairs of daemons that are ``avoided`` had a link that
    failed a moment ago, so that other gateways are tried first.
    """
    by_site: dict[str, list[str]] = {}
    for name in sorted(sites):
        by_site.setdefault(sites[name], []).append(name)
    shunned = set(avoided)
    reachability = {one: {other for other in sites if pair(one, other) not in shunned} for one in sites}
    chosen = choose_gateways([make_site(site, names) for site, names in by_site.items()], reachability)
    names = sorted(by_site)
    links = [_planned(plan, distance) for plan in plans if plan.a in by_site and plan.b in by_site]
    if not plans:
        links = [_default(one, other, distance) for place, one in enumerate(names) for other in names[place + 1 :]]
    return make_topology(chosen, [*links, *_bridges(names, links, distance)])


def _weight(round_trip_us: int | None) -> int:
    return min(WEIGHT_MAX, max(1, (round_trip_us or WEIGHT_UNIT_US) // WEIGHT_UNIT_US))


def _planned(plan: LinkPlan, distance: Callable[[str, str], int | None]) -> Link:
    weight = plan.weight if plan.weight is not None else _weight(distance(plan.a, plan.b))
    return make_link(plan.a, plan.b, weight, plan.protocol, plan.limits)


def _default(one: str, other: str, distance: Callable[[str, str], int | None]) -> Link:
    return make_link(one, other, _weight(distance(one, other)))


def _bridges(names: Sequence[str], links: Sequence[Link], distance: Callable[[str, str], int | None]) -> list[Link]:
    """Where the planned links leave sites apart, because others that they go over are not there: one link each."""
    root = {name: name for name in names}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for link in links:
        root[max(find(link.a), find(link.b))] = min(find(link.a), find(link.b))
    bridges = []
    for name in names:
        one, other = find(names[0]), find(name)
        if one != other:
            bridges.append(_default(names[0], name, distance))
            root[max(one, other)] = min(one, other)
    return bridges
