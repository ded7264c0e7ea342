"""What the protocols of one incarnation share: who is there, the channels, views of groups, the associative store.

Implements: [ISIS 4.4], the store; Figure 2. Deviations: D-site (buffers, queues and lists are kept once for a site and
not for each of its processes, as optimisations (1) and (2) of 4.3.2 have it for CBCAST).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action, Record
from isotone.isis.channels import Channels
from isotone.isis.names import name_of, site_of
from isotone.isis.settings import ORIGINS_MAX, IsisSettings
from isotone.isis.wire import NO_VIEW, AbcastStart, Body, GbcastCommit, GbcastStart, GroupView, SiteView
from isotone.trace.events import Entry

Priority = tuple[int, str]


@dataclass
class Stored:
    """What the store has under the id of a broadcast [ISIS 4.4]; an attribute that is None is not there."""

    abcast: AbcastStart | None = None
    gbcast: GbcastStart | None = None
    priority: Priority = (0, "")
    final: bool = False
    fixed: bool = False  # in the extra phase: known, and not to be delivered yet
    delivered: bool = False
    outcome: GbcastCommit | None = None
    coordinator: str = ""
    disposable: bool = False
    dont_send: set[str] = field(default_factory=set)  # sites that have run the protocol of garbage collection
    abroad: tuple[str, ...] = ()  # destinations in other clusters


@dataclass
class Begun:
    """An ABCAST or GBCAST of this site, in its first phase: its sites, and those that may not have it."""

    sites: frozenset[str]
    missing: set[str]


@dataclass
class Forgotten:
    """Ids that were collected: of each site that began some, ranges of their numbers, which grow together."""

    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def has(self, id: str) -> bool:
        """Whether it was collected."""
        origin, _, number = id.rpartition(":")
        return any(low <= int(number) <= high for low, high in self.ranges.get(origin, ()))

    def add(self, id: str) -> None:
        """It is collected."""
        origin, _, digits = id.rpartition(":")
        low = high = int(digits)
        apart = []
        for first, last in self.ranges.pop(origin, ()):
            if first <= high + 1 and low <= last + 1:
                low, high = min(low, first), max(high, last)
            else:
                apart.append((first, last))
        self.ranges[origin] = [*apart, (low, high)]
        while len(self.ranges) > ORIGINS_MAX:
            del self.ranges[next(each for each in self.ranges)]


@dataclass
class Site:
    """One incarnation."""

    settings: IsisSettings
    me: str
    view: SiteView
    channels: Channels
    at: int = 0
    clock: int = 0  # logical, of CBCASTs without a label
    highest: int = 0  # no priority in any queue is above it
    counter: int = 0  # of broadcasts begun here
    groups: dict[str, GroupView] = field(default_factory=dict)  # with a member here
    numbers: dict[str, int] = field(default_factory=dict)  # the highest view of each group that was heard of here
    begun: dict[str, Begun] = field(default_factory=dict)  # what some destination may not have
    neighbours: dict[int, SiteView] = field(default_factory=dict)  # the last site views of other clusters
    locked: dict[str, str] = field(default_factory=dict)  # groups about to grow, and by which GBCAST
    store: dict[str, Stored] = field(default_factory=dict)
    forgotten: Forgotten = field(default_factory=Forgotten)
    queue: dict[str, Stored] = field(default_factory=dict)  # of the store, what stands in priority queues
    calls: dict[tuple[str, str], None] = field(default_factory=dict)  # (id, process) delivered here, not answered
    out: list[Action] = field(default_factory=list)

    def knows(self, id: str) -> bool:
        """Whether it is or was in the store."""
        return id in self.store or self.forgotten.has(id)

    def first_number(self, group: str) -> int:
        """Of a group that begins anew: above all that it had, also where nobody remembers them."""
        number = max(self.numbers.get(group, 0) + 1, self.view.number << 20)
        self.numbers[group] = number
        return number

    def note_number(self, view: GroupView) -> None:
        """Of a view that was heard of."""
        self.numbers[view.name] = max(self.numbers.get(view.name, 0), view.number)

    def next_id(self) -> str:
        """Of a broadcast."""
        self.counter += 1
        return f"{self.me}:{self.counter}"

    def send(self, site: str, body: Body, token: tuple[str, str] | None = None) -> None:
        """On the channel."""
        self.channels.send(site, body, token)

    def is_held_back(self, site: str, after: tuple[str, ...]) -> bool:
        """Whether one of these is begun, is not at all its destinations, and never comes to this site."""
        return any(key in self.begun and site not in self.begun[key].sites for key in after)

    @property
    def views(self) -> tuple[int, ...]:
        """The numbers of the last site views of all clusters."""
        return tuple(view.number for view in self.clusters())

    def clusters(self) -> list[SiteView]:
        """The last site view of each cluster that is known here."""
        if not self.settings.clusters:
            return [self.view]
        mine = self.settings.cluster
        places = range(len(self.settings.clusters))
        return [self.view if place == mine else self.neighbours.get(place, NO_VIEW) for place in places]

    def cluster_of(self, site: str) -> int:
        """The place of a site's cluster."""
        name = name_of(site)
        clusters = self.settings.clusters
        return next((place for place, cluster in enumerate(clusters) if name in cluster), 0)

    def is_near(self, site: str) -> bool:
        """Whether it is in this cluster."""
        return not self.settings.clusters or name_of(site) in self.settings.sites

    def abroad(self, sites: tuple[str, ...]) -> tuple[str, ...]:
        """Those in other clusters."""
        return tuple(site for site in sites if not self.is_near(site)) if self.settings.clusters else ()

    @property
    def home(self) -> str:
        """The oldest site of the first cluster, which has the register of groups; none if that is not known."""
        return next(iter(self.clusters()[0].members), "")

    def all_up(self) -> tuple[str, ...]:
        """All operational sites, cluster by cluster, the oldest first."""
        return tuple(site for view in self.clusters() for site in view.members)

    def is_up(self, site: str) -> bool:
        """Whether this incarnation is in the last site view of its cluster."""
        return site in self.view.members or any(site in view.members for view in self.neighbours.values())

    def alive(self, sites: tuple[str, ...], near: str = "") -> list[str]:
        """Those that are up, the oldest first; the cluster of ``near`` before the others."""
        found = [site for site in self.all_up() if site in sites]
        return sorted(found, key=lambda site: self.cluster_of(site) != self.cluster_of(near)) if near else found

    def local(self, processes: tuple[str, ...]) -> tuple[str, ...]:
        """Those of this site."""
        return tuple(each for each in processes if site_of(each) == self.me)

    def record(self, entry: Entry) -> None:
        """In the trace."""
        self.out.append(Record(entry))

    def propose(self) -> Priority:
        """Larger than all in any queue, with the site as a suffix."""
        self.highest += 1
        return self.highest, self.me

    def queue_heads(self) -> tuple[dict[str, str], str]:
        """The first of each label's queue, and the first GBCAST, which stands in all of them: ids, or nothing."""
        heads: dict[str, tuple[Priority, str]] = {}
        first: tuple[Priority, str] | None = None
        for id, stored in self.queue.items():
            place = (stored.priority, id)
            if stored.gbcast is not None:
                first = place if first is None else min(first, place)
            elif stored.abcast is not None:
                label = stored.abcast.label
                heads[label] = min(heads.get(label, place), place)
        blocked = {label: id for label, (priority, id) in heads.items() if first is None or (priority, id) < first}
        if first is not None and not blocked:
            return {}, first[1]
        return blocked, ""
