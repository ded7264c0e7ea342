"""One multicast tree for each source site: the shortest paths from it, the same at every daemon.

Each daemon computes the trees by itself from the topology that all share. A path is shorter if its weight is less,
then if it has fewer links; among several such paths, a site hangs under the parent with the smallest name. Weight and
links together grow along every path, also where weights are 0, so this defines exactly one tree whatever order the
input had.

Implements: [Spread 3.3] source-based shortest-path routing. Deviations: Do2 one Dijkstra search for each source that
is asked for, instead of Floyd-Warshall for all: the overlay is sparse, a search costs O(links · log sites) against
sites² for each source there, most sites ask for few sources at first, and the rule above for equal paths falls out
of the search's order.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from isotone.evs.overlay.topology import Link, Topology


class Tree(msgspec.Struct, frozen=True, gc=False):
    """The multicast tree of one source. Sites are sorted wherever they are listed."""

    source: str
    distance: dict[str, int]  # of every site that is reached, the source included
    parent: dict[str, str]  # of every site that is reached but the source
    children: dict[str, tuple[str, ...]]  # of every site that is reached
    below: dict[str, tuple[str, ...]]  # each site that is reached: itself and all that are reached through it
    unreachable: tuple[str, ...]


@dataclass(slots=True)
class Routes:
    """The trees of a topology, each computed when it is first asked for."""

    topology: Topology
    _links: dict[str, list[Link]] = field(default_factory=dict)
    _trees: dict[str, Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._links = {site.name: [] for site in self.topology.sites}
        for link in self.topology.links:
            self._links[link.a].append(link)
            self._links[link.b].append(link)

    def tree(self, source: str) -> Tree:
        """The tree of a source."""
        found = self._trees.get(source)
        if found is None:
            found = self._trees[source] = _tree(source, self._links)
        return found

    def children(self, source: str, at: str) -> tuple[str, ...]:
        """The sites to which ``at`` forwards what came from ``source``."""
        return self.tree(source).children.get(at, ())

    def parent(self, source: str, at: str) -> str | None:
        """The site from which ``at`` gets what came from ``source``; none at the source itself and when cut off."""
        return self.tree(source).parent.get(at)

    def below(self, source: str, branch: str) -> tuple[str, ...]:
        """The sites that are reached from ``source`` through ``branch``, itself included."""
        return self.tree(source).below.get(branch, ())

    def link(self, one: str, other: str) -> Link:
        """The link between two neighbours."""
        return next(link for link in self._links[one] if link.other(one) == other)

    def links_used(self, at: str) -> tuple[Link, ...]:
        """The links of ``at`` that some tree takes: only these have to be kept up."""
        used = [
            link
            for link in self._links[at]
            if any(link.other(at) in (self.parent(s, at), *self.children(s, at)) for s in self._links)
        ]
        return tuple(used)

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The sets of sites that reach each other; more than one means that the overlay is disconnected."""
        found: list[tuple[str, ...]] = []
        seen: set[str] = set()
        for site in self._links:
            if site not in seen:
                found.append(self.below(site, site))
                seen.update(found[-1])
        return tuple(found)

    def unreachable(self, source: str) -> tuple[str, ...]:
        """The sites that nothing from ``source`` reaches."""
        return self.tree(source).unreachable


def _tree(source: str, links: dict[str, list[Link]]) -> Tree:
    labels = _search(source, links)
    parent = {site: _parent(site, labels, links) for site in sorted(labels) if site != source}
    children: dict[str, list[str]] = {site: [] for site in sorted(labels)}
    for site, above in parent.items():
        children[above].append(site)
    return Tree(
        source=source,
        distance={site: labels[site][0] for site in sorted(labels)},
        parent=parent,
        children={site: tuple(below) for site, below in children.items()},
        below=_below(labels, parent),
        unreachable=tuple(sorted(set(links) - set(labels))),
    )


def _search(source: str, links: dict[str, list[Link]]) -> dict[str, tuple[int, int]]:
    """The least (weight, number of links) of a path to every site that can be reached."""
    labels: dict[str, tuple[int, int]] = {}
    queue = [(0, 0, source)]
    while queue:
        weight, hops, site = heapq.heappop(queue)
        if site in labels:
            continue
        labels[site] = (weight, hops)
        for link in links[site]:
            if link.other(site) not in labels:
                heapq.heappush(queue, (weight + link.weight, hops + 1, link.other(site)))
    return labels


def _parent(site: str, labels: dict[str, tuple[int, int]], links: dict[str, list[Link]]) -> str:
    """The neighbour with the smallest name among those on a shortest path."""
    weight, hops = labels[site]
    return min(link.other(site) for link in links[site] if labels[link.other(site)] == (weight - link.weight, hops - 1))


def _below(labels: dict[str, tuple[int, int]], parent: dict[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {site: [site] for site in labels}
    by_hops: Sequence[str] = sorted(labels, key=lambda site: labels[site][1], reverse=True)
    for site in by_hops:
        if site in parent:
            found[parent[site]] += found[site]
    return {site: tuple(sorted(found[site])) for site in sorted(found)}
