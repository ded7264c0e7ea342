"""A run of ISIS, gathered from its rows: what each process was handed in its order, and what became of sites."""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.spec.verdicts import EventId
from isotone.trace.events import Row
from isotone.trace.isis import (
    BroadcastBegun,
    BroadcastDelivered,
    BroadcastRejected,
    GroupLeft,
    GroupViewInstalled,
    NeighbourKnown,
    SiteKilled,
    SiteStarted,
    SiteViewInstalled,
    StoreCounted,
)

ENTRIES = (
    SiteStarted,
    SiteKilled,
    SiteViewInstalled,
    NeighbourKnown,
    BroadcastBegun,
    BroadcastDelivered,
    BroadcastRejected,
    GroupViewInstalled,
    GroupLeft,
    StoreCounted,
)


def name_of(site: str) -> str:
    """The name of a site, without the incarnation."""
    return site.rpartition(".")[0]


def event_of(row: Row) -> EventId:
    """The id of a row."""
    return (row.node, row.incarnation, row.index)


@dataclass
class History:
    """Of one run."""

    cluster: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by the name of a site: all sites of its cluster
    last_site: dict[str, str] = field(default_factory=dict)  # by node: the incarnation that began last
    ended: set[str] = field(default_factory=set)  # sites that were killed, or followed by another
    last: dict[tuple[str, ...], SiteViewInstalled] = field(default_factory=dict)  # by cluster: the last site view
    views: dict[str, list[tuple[Row, SiteViewInstalled]]] = field(default_factory=dict)  # by site
    neighbours: dict[str, list[tuple[Row, NeighbourKnown]]] = field(default_factory=dict)  # by site
    begun: dict[str, tuple[Row, BroadcastBegun]] = field(default_factory=dict)  # by message
    said: dict[str, list[tuple[Row, BroadcastBegun | BroadcastDelivered]]] = field(default_factory=dict)  # by process
    told: dict[str, list[tuple[Row, BroadcastDelivered | GroupViewInstalled | GroupLeft]]] = field(default_factory=dict)
    rejected: dict[str, list[tuple[Row, BroadcastRejected]]] = field(default_factory=dict)  # by message
    kept: dict[str, tuple[Row, StoreCounted]] = field(default_factory=dict)  # by site: the last count
    left: dict[tuple[str, str], tuple[Row, int]] = field(default_factory=dict)  # (process, group): in which site view

    _failed_at: dict[str, int] = field(default_factory=dict)

    def take(self, row: Row) -> None:
        """One row, each node's in their order."""
        match row.entry:
            case SiteStarted(site=site, servers=servers):
                self.cluster[name_of(site)] = servers
                if row.node in self.last_site:
                    self.ended.add(self.last_site[row.node])
                self.last_site[row.node] = site
            case SiteKilled(site=site):
                self.ended.add(site)
            case SiteViewInstalled() as entry:
                self.views.setdefault(entry.site, []).append((row, entry))
                cluster = self.cluster_of(entry.site)
                if cluster not in self.last or entry.number > self.last[cluster].number:
                    self.last[cluster] = entry
            case NeighbourKnown() as known:
                self.neighbours.setdefault(known.site, []).append((row, known))
            case BroadcastBegun() as begun:
                self.begun[begun.message] = (row, begun)
                self.said.setdefault(begun.origin, []).append((row, begun))
            case BroadcastDelivered() as entry:
                self.said.setdefault(entry.process, []).append((row, entry))
                self.told.setdefault(entry.process, []).append((row, entry))
            case GroupViewInstalled() | GroupLeft() as entry:
                self.told.setdefault(entry.process, []).append((row, entry))
                if isinstance(entry, GroupLeft):
                    site = entry.process.partition("/")[0]
                    self.left[entry.process, entry.pgroup] = (
                        row,
                        self.views[site][-1][1].number if site in self.views else 0,
                    )
            case BroadcastRejected() as entry:
                self.rejected.setdefault(entry.message, []).append((row, entry))
            case StoreCounted() as entry:
                self.kept[entry.site] = (row, entry)

    def survives(self, process: str) -> bool:
        """Whether the site of a process is in the last site view, and nothing says that it ended."""
        site = process.partition("/")[0]
        last = self.last.get(self.cluster_of(site))
        return site not in self.ended and last is not None and site in last.servers

    def cluster_of(self, site: str) -> tuple[str, ...]:
        """All sites of its cluster, by name."""
        return self.cluster.get(name_of(site), ())

    def knew_failed(self, process: str, row: Row, number: int, other: str) -> bool:
        """Whether a process, at this row and in this site view, could know that the site of another failed."""
        mine, site = process.partition("/")[0], other.partition("/")[0]
        if self.cluster_of(mine) == self.cluster_of(site):
            return number >= self.failed_at(site)
        known = [
            each.number
            for at, each in self.neighbours.get(mine, ())
            if at.index < row.index and name_of(each.servers[0]) in self.cluster_of(site)
        ]
        return max(known, default=0) >= self.failed_at(site)

    def failed_at(self, site: str) -> int:
        """The number of the first site view behind all that have this site."""
        if site not in self._failed_at:
            having = [view.number for views in self.views.values() for _, view in views if site in view.servers]
            self._failed_at[site] = max(having, default=-1) + 1
        return self._failed_at[site]
