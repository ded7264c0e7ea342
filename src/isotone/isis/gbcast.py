"""GBCAST: ordered against everything, and behind all messages of a process that failed.

Part 1 (the flush for failed sites) is done for all of them at once when a site view is installed. Parts 2 to 4 are as
numbered in the paper. Only the GBCAST at the head of all queues is in its third part, so there is one wait queue.

Implements: [ISIS 4.3.3] steps (1.1) to (4.4), take-over, locking of group views.
Deviations: D-site; D-one (see `isotone.isis.abcast`); D-flush (part 1 per site and from the view management, which the
paper gives as an optimisation); D-head (step (3.1) has no message of its own: reaching the head of all queues begins
part 3); D-closure (what precedes a message of the IDlist is sent and listed in step (3.3), and not added in step (4.1):
another member may not have it when it comes to the commit, and two labels may compare where nothing was caused);
D-base (the answers of part 3 carry the view of the group, the commit the view that results: so the
coordinator need not be a member, and one that misses a member tries again); D-newcomer (the site of a process that
joins has the commit before any other site gets it. It is the only participant that may not know the view of the group:
if all others delivered the view and failed, it could not find the outcome by restarting the protocol); D-arrived (when
a participant fails during part 3 the others answer step (3.3) again, and list their wait queues too:
the failed one may have delivered it, and a process that leaves by this GBCAST would never get it).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isotone.isis.abcast import Abcasts
from isotone.isis.cbcast import Cbcasts
from isotone.isis.delivery import digest_of, install
from isotone.isis.departures import Departures
from isotone.isis.events import Deliver, Primitive
from isotone.isis.incarnation import Priority, Site, Stored
from isotone.isis.names import origin_of, sites_of
from isotone.isis.wire import (
    Causal,
    GbcastCommit,
    GbcastPriority,
    GbcastReady,
    GbcastStart,
    GroupView,
    Kind,
    Orphan,
)
from isotone.trace.isis import BroadcastDelivered


@dataclass
class Coordination:
    """One GBCAST as its coordinator sees it."""

    start: GbcastStart
    priorities: dict[str, tuple[Priority, bool]] = field(default_factory=dict)
    chosen: Priority | None = None
    ready: dict[str, GbcastReady] = field(default_factory=dict)
    outcome: GbcastCommit | None = None  # known, and under way to a newcomer


@dataclass
class Gbcasts:
    """The GBCASTs of one site."""

    site: Site
    abcasts: Abcasts
    cbcasts: Cbcasts
    departures: Departures
    active: dict[str, Coordination] = field(default_factory=dict)
    unanswered: dict[str, None] = field(default_factory=dict)  # joins whose priority waits for our own ABCASTs
    at_head: str = ""  # which one has the wait queue
    told_ready: bool = False
    arrived: tuple[str, ...] = ()  # CBCASTs that waited here when a participant of the one at the head failed
    finished: deque[tuple[GbcastStart, GbcastCommit]] = field(default_factory=deque)  # that this site coordinated

    # --- the coordinator -------------------------------------------------------------------------------------------

    def begin(self, start: GbcastStart) -> None:
        """Step (2.1); also to take over, from the beginning."""
        self.active[start.id] = Coordination(start)
        self.departures.send(start, self.site.alive(start.participants), begins=True)
        self._advance(start.id)

    def on_priority(self, source: str, told: GbcastPriority) -> None:
        """Step (2.2) at the coordinator; (2.3) at a participant."""
        if told.answer:
            if (coordination := self.active.get(told.id)) is not None:
                coordination.priorities[source] = ((told.priority, told.suffix), told.final)
                self._advance(told.id)
            return
        stored = self.site.queue.get(told.id)
        if stored is not None:
            stored.priority, stored.final = (told.priority, told.suffix), True
            self.site.highest = max(self.site.highest, told.priority)

    def on_ready(self, source: str, ready: GbcastReady) -> None:
        """Step (3.3)."""
        coordination = self.active.get(ready.id)
        if coordination is not None and ready.views == self.site.views:
            coordination.ready[source] = ready
            self._advance(ready.id)

    def _advance(self, id: str) -> None:
        coordination = self.active[id]
        if coordination.outcome is not None:
            return
        sites = self.site.alive(coordination.start.participants)
        if coordination.chosen is None:
            if any(site not in coordination.priorities for site in sites):
                return
            known = [priority for priority, final in coordination.priorities.values() if final]
            proposed = [priority for priority, _ in coordination.priorities.values()]
            coordination.chosen = max(known or proposed, default=(0, ""))
            for site in sites:
                self.site.send(site, GbcastPriority(id, *coordination.chosen, True))
        if all(site in coordination.ready for site in sites):
            self._commit(coordination, sites)

    def _commit(self, coordination: Coordination, sites: list[str]) -> None:
        """Step (3.4)."""
        start = coordination.start
        before: set[str] = set()
        views = []
        for site in sites:
            ready = coordination.ready[site]
            before.update(ready.delivered)
            if ready.view is not None:
                views.append(ready.view)
        base = max(views, key=lambda view: view.number, default=None)
        self.finish(GbcastCommit(start.id, tuple(sorted(before)), self._result(start, base)))

    def _result(self, start: GbcastStart, base: GroupView | None) -> GroupView | None:
        """The view behind it; none where members were left out, or a group came to an end meanwhile."""
        if base is None:
            may_create = start.kind is Kind.JOIN and start.origin == self.site.me == self.site.home
            if not may_create:
                return None
            return GroupView(start.group, self.site.first_number(start.group), start.processes)
        missed = set(self.site.alive(sites_of(base.members))) - set(start.participants)
        if missed:
            return None
        if start.kind is Kind.USER:
            return base
        if start.kind is Kind.JOIN:
            added = tuple(each for each in start.processes if each not in base.members)
            return GroupView(base.name, base.number + bool(added), base.members + added)
        staying = tuple(each for each in base.members if each not in start.processes)
        return GroupView(base.name, base.number + (staying != base.members), staying)

    def finish(self, commit: GbcastCommit) -> None:
        """The outcome is known: tell the site of whoever joins, and when it has it all other participants."""
        coordination = self.active[commit.id]
        coordination.outcome = commit
        newcomer = self._newcomer(coordination.start)
        if newcomer:
            self.site.send(newcomer, commit, ("gbcast", commit.id))
        else:
            self._tell_all(coordination, commit)

    def _newcomer(self, start: GbcastStart) -> str:
        """The site of a process that joins, unless it is this one."""
        sites = sites_of(start.processes) if start.kind is Kind.JOIN else ()
        return next((site for site in self.site.alive(sites) if site != self.site.me), "")

    def on_sent(self, site: str, id: str) -> None:
        """The newcomer has the commit, or failed."""
        coordination = self.active.get(id)
        if coordination is not None and coordination.outcome is not None:
            self._tell_all(coordination, coordination.outcome)

    def _tell_all(self, coordination: Coordination, commit: GbcastCommit) -> None:
        del self.active[commit.id]
        newcomer = self._newcomer(coordination.start)
        for site in self.site.alive(coordination.start.participants):
            if site != newcomer:
                self.site.send(site, commit)
        stored = self.site.store.setdefault(commit.id, Stored(delivered=True))
        stored.disposable, stored.abroad = True, self.site.abroad(coordination.start.participants)
        self.finished.append((coordination.start, commit))

    # --- the participant -------------------------------------------------------------------------------------------

    def on_start(self, source: str, start: GbcastStart) -> None:
        """Step (2.2): on all queues at once, behind all that is there; a group about to grow is locked."""
        if self.site.forgotten.has(start.id):
            return  # everybody has it
        stored = self.site.store.setdefault(start.id, Stored())
        if stored.outcome is not None:
            self.site.send(source, stored.outcome)
            return
        if stored.gbcast is None:
            if stored.delivered:
                return  # disposed of: everybody has it
            stored.gbcast, stored.abroad = start, self.site.abroad(start.participants)
            if start.kind is Kind.JOIN:
                self.site.locked[start.group] = start.id
        stored.coordinator = source
        if self.at_head == start.id:
            self.told_ready = False
        self.unanswered[start.id] = None
        self.answer_ready()

    def answer_ready(self) -> None:
        """A join is answered when our own ABCASTs to the group have their places: so they stand before it."""
        for id in list(self.unanswered):
            stored = self.site.store[id]
            start = stored.gbcast
            assert start is not None
            if start.kind is Kind.JOIN and id not in self.site.queue and not self.abcasts.is_settled(start.group):
                continue
            del self.unanswered[id]
            if id not in self.site.queue:
                stored.priority = self.site.propose()
                self.site.queue[id] = stored
            self.site.send(stored.coordinator, GbcastPriority(id, *stored.priority, stored.final, answer=True))

    def advance_head(self) -> None:
        """Steps (2.4), (3.2), (3.3)."""
        if not self.at_head:
            _, first = self.site.queue_heads()
            if not first or not self.site.queue[first].final:
                return
            self.at_head, self.told_ready, self.cbcasts.waiting, self.arrived = first, False, [], ()
        stored = self.site.queue[self.at_head]
        start = stored.gbcast
        assert start is not None
        if self.told_ready or not stored.final:
            return
        others = tuple(site for site in start.participants if site != self.site.me)
        listed = self.cbcasts.listed(self.arrived)
        unsent = [id for id in self.cbcasts.unsent(others) if id in listed]
        if unsent:
            self.cbcasts.schedule(unsent)
            return
        self.told_ready = True
        view = self.site.groups.get(start.group)
        ready = GbcastReady(self.at_head, tuple(sorted(listed)), view, self.site.views)
        self.site.send(stored.coordinator, ready)

    def on_commit(self, source: str, commit: GbcastCommit) -> None:
        """Part 4; at a coordinator that took over: a participant knows the outcome already."""
        if (coordination := self.active.get(commit.id)) is not None:
            if coordination.outcome is None:
                self.finish(commit)
            return
        stored = self.site.queue.pop(commit.id, None)
        if stored is None:
            return
        start = stored.gbcast
        assert start is not None and (self.at_head == commit.id or commit.view is None)
        del source
        stored.outcome, stored.delivered, stored.gbcast = commit, True, None
        waiting = self.cbcasts.waiting or [] if self.at_head == commit.id else []
        before = self._before(start, commit, waiting)
        for message in waiting:
            if message.id in before:
                self.cbcasts.hand_over(message)
        self._deliver(start, commit)
        if self.at_head == commit.id:
            self.at_head, self.cbcasts.waiting = "", None
        for message in waiting:
            if message.id not in before:
                self.cbcasts.hand_over(message)

    def _before(self, start: GbcastStart, commit: GbcastCommit, waiting: list[Causal]) -> set[str]:
        """Step (4.1)."""
        failed = start.processes if start.kind is Kind.FAIL else ()
        return {each.id for each in waiting if each.id in commit.before or each.origin in failed}

    def _deliver(self, start: GbcastStart, commit: GbcastCommit) -> None:
        """Steps (4.2) to (4.4); the lock of the view is released."""
        site = self.site
        if site.locked.get(start.group) == start.id:
            del site.locked[start.group]
        view = commit.view
        if view is None:
            return
        if start.kind is not Kind.USER:
            if view != site.groups.get(view.name):
                install(site, view, start.id, start.processes if start.kind is Kind.FAIL else ())
            return
        local = site.local(view.members)
        kind = Primitive.GBCAST
        for process in local:
            digest = digest_of(start.body)
            number = site.view.number
            site.record(BroadcastDelivered(process, start.id, start.origin, kind.value, start.group, digest, number))
        if local:
            site.out.append(Deliver(local, start.group, start.id, start.origin, kind, start.body))

    # --- failures --------------------------------------------------------------------------------------------------

    def on_view(self) -> None:
        """What the failed owe is not waited for; what they coordinated is begun again by the oldest participant.

        Part 3 of the one at the head is answered again, with what has arrived: D-arrived.
        """
        self.told_ready = False
        self.arrived = tuple(each.id for each in self.cbcasts.waiting or () if each.id in self.cbcasts.buffer)
        for id in list(self.active):
            self.active[id].ready.clear()
            self._advance(id)
        for id, stored in list(self.site.store.items()):
            start = stored.gbcast
            if start is None or self.site.is_up(stored.coordinator) or id in self.active:
                continue
            heir = self.site.alive(start.participants, near=origin_of(id))[0]
            stored.coordinator = heir
            if heir == self.site.me:
                self.begin(start)
            else:
                self.departures.send(Orphan(None, start), (heir,))

    def adopt(self, start: GbcastStart) -> None:
        """Somebody has it, and this site shall take over."""
        if start.id not in self.active:
            self.begin(start)

    def is_active(self, kind: Kind, group: str) -> bool:
        """Whether this site coordinates such a one."""
        return any(each.start.kind is kind and each.start.group == group for each in self.active.values())
