"""Who may be together: a maximal set of daemons; which of them hold the links between sites; at which weights.

The coordinator takes itself, then those of its present daemon view, then the others by id. Each is taken if it reaches
everybody of its own site that was taken before, if every two sites of those taken are still linked by gateways that
reach each other, and if it shares a version with all. Whoever was left out is looked at again as long as somebody is
taken, because a site may be linked by one who comes later. So nobody is left out who could be added, the daemon view of
the smallest coordinator only grows, and the choice is the same however often it is made.

Implements: [Spread 6.1.8], CREATE_SEND_NEWMEMB, and [Spread 3.2, 3.3], sites that are connected by gateways.
Deviations: D-clique members of a site, and gateways, reach each other pairwise, because a daemon view over one-way or
non-transitive links would fail again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from isotone.core.ids import DaemonId
from isotone.core.versions import VersionRange, highest_common
from isotone.evs.membership.settings import LinkPlan, SiteGateways
from isotone.evs.overlay.gateways import Reachability, are_linked, choose_gateways
from isotone.evs.overlay.topology import WEIGHT_MAX, Link, Site, Topology, make_link, make_site, make_topology

WEIGHT_UNIT_US = 100  # a measured weight counts such parts of a round trip

Pair = tuple[str, str]
Gateways = Sequence[SiteGateways]


def pair(one: str, other: str) -> Pair:
    """Two daemons, in either order."""
    return (one, other) if one < other else (other, one)


def maximal_set(
    candidates: Sequence[DaemonId],
    *,
    is_cut: Callable[[str, str], bool],
    versions: Callable[[str], VersionRange],
    site_of: Callable[[str], str],
    gateways: Gateways = (),
) -> tuple[DaemonId, ...]:
    """Greedily in the order given, and again while it grows; sorted."""
    taken: dict[str, DaemonId] = {}
    ranges: list[VersionRange] = []
    left, grown = list(candidates), True
    while grown:
        grown, waiting, left = False, left, []
        for each in waiting:
            own = versions(each.name)
            if highest_common([*ranges, own]) is None or not _fits(each.name, taken, is_cut, site_of, gateways):
                left.append(each)
                continue
            taken[each.name] = each
            ranges.append(own)
            grown = True
    return tuple(sorted(taken.values()))


def _fits(
    name: str,
    taken: Collection[str],
    is_cut: Callable[[str, str], bool],
    site_of: Callable[[str], str],
    gateways: Gateways,
) -> bool:
    cut = [other for other in taken if is_cut(name, other)]
    if not cut and not gateways:
        return True
    site = site_of(name)
    if any(site_of(other) == site for other in cut):
        return False
    return may_be_together({each: site_of(each) for each in (*taken, name)}, is_cut, gateways)


def may_be_together(sites: Mapping[str, str], is_cut: Callable[[str, str], bool], gateways: Gateways = ()) -> bool:
    """Whether these daemons (name to site), who reach each other inside of their sites, can have one gateway each."""
    return are_linked(_with_gateways(sites, is_cut, gateways), _reachability(sites, is_cut, gateways))


def _with_gateways(
    sites: Mapping[str, str],
    is_cut: Callable[[str, str], bool],
    gateways: Gateways,
    avoided: Collection[Pair] = (),
) -> tuple[Site, ...]:
    by_site: dict[str, list[str]] = {}
    for name in sorted(sites):
        by_site.setdefault(sites[name], []).append(name)
    reachability = _reachability(sites, is_cut, gateways, avoided)
    return choose_gateways([make_site(site, names) for site, names in by_site.items()], reachability)


def _reachability(
    sites: Mapping[str, str],
    is_cut: Callable[[str, str], bool],
    gateways: Gateways,
    avoided: Collection[Pair] = (),
) -> Reachability:
    """Who reaches whom in other sites, of those that may be gateways."""
    named = {each.site: each.daemons for each in gateways}
    may = [name for name, site in sites.items() if name in named.get(site, (name,))]
    return {
        one: {
            other
            for other in may
            if sites[other] != sites[one] and not is_cut(one, other) and pair(one, other) not in avoided
        }
        for one in may
    }


def _uncut(one: str, other: str) -> bool:
    del one, other
    return False


def plan_topology(
    sites: Mapping[str, str],
    plans: Sequence[LinkPlan],
    *,
    distance: Callable[[str, str], int | None],
    is_cut: Callable[[str, str], bool] = _uncut,
    gateways: Gateways = (),
    avoided: Iterable[Pair] = (),
) -> Topology:
    """The overlay of daemons (name to site): links as planned among the sites that are there, and what is needed more.

    ``distance`` is the measured round trip between two sites; pairs of daemons that are ``avoided`` had a link that
    failed a moment ago, so that other gateways are tried first.
    """
    shunned = set(avoided)
    chosen = _with_gateways(sites, is_cut, gateways, shunned)
    if shunned and not are_linked(chosen, _reachability(sites, is_cut, gateways, shunned)):
        chosen = _with_gateways(sites, is_cut, gateways)
    names = sorted(site.name for site in chosen)
    links = [_planned(plan, distance) for plan in plans if plan.a in names and plan.b in names]
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
