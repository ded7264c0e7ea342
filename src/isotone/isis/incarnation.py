"""What the protocols of one incarnation share: who is there, the channels, views of groups, the associative store.

Implements: [ISIS 4.4], the store; Figure 2. Deviations: D-site (buffers, queues and lists are kept once for a site and
not for each of its processes, as optimisations (1) and (2) of 4.3.2 have it for CBCAST).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action, Record
from isotone.isis.channels import Channels
from isotone.isis.names import site_of
from isotone.isis.settings import ORIGINS_MAX, IsisSettings
from isotone.isis.wire import AbcastStart, Body, GbcastCommit, GbcastStart, GroupView, SiteView
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

    def is_up(self, site: str) -> bool:
        """Whether this incarnation is in the site view."""
        return site in self.view.members

    def alive(self, sites: tuple[str, ...]) -> list[str]:
        """Those that are in the site view, the oldest first."""
        return [site for site in self.view.members if site in sites]

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
