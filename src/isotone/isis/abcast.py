"""ABCAST: one order of the messages of each label at overlapping destinations, by two phases.

A causal one [ISIS 3.4] begins when all earlier causal ones of its site have their priority, behind all CBCASTs that its
site has for the same destinations, and every priority proposed for it is above all that its sender could know of. So
whatever precedes it stands before it, also where another site takes over.

Implements: [ISIS 4.3.1] steps (1) to (4) and take-over; the extra phase of [ISIS 3.2] and causal atomic broadcast
[ISIS 3.4] as options.
Deviations: D-site; D-one (the oldest operational destination takes over, of the cluster where it began if there is one,
told by whoever has the message: two coordinators at once could compute two priorities).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.isis.delivery import deliver
from isotone.isis.departures import Departures
from isotone.isis.incarnation import Priority, Site, Stored
from isotone.isis.names import origin_of, sites_of
from isotone.isis.wire import AbcastCommit, AbcastFixed, AbcastPriority, AbcastStart, Orphan


@dataclass
class Coordination:
    """One ABCAST as its coordinator sees it."""

    start: AbcastStart
    answers: dict[str, tuple[Priority, bool]] = field(default_factory=dict)  # by site; whether it was final
    chosen: Priority | None = None
    fixed: set[str] = field(default_factory=set)  # sites that have it, in the extra phase
    unsent: set[str] = field(default_factory=set)  # sites to which the commit is under way
    committed: bool = False


@dataclass
class Abcasts:
    """The ABCASTs of one site."""

    site: Site
    departures: Departures
    active: dict[str, Coordination] = field(default_factory=dict)

    def begin(self, start: AbcastStart) -> None:
        """Step (1); also to take over."""
        self.active[start.id] = Coordination(start)
        self.departures.send(start, self.site.alive(sites_of(start.destinations)), begins=True)
        self._advance(start.id)

    def on_start(self, source: str, start: AbcastStart) -> None:
        """Step (2); whoever knows more already says that."""
        if self.site.forgotten.has(start.id):
            return  # everybody has it
        stored = self.site.store.setdefault(start.id, Stored())
        if stored.abcast is None and not stored.delivered:
            self.site.highest = max(self.site.highest, start.floor)
            stored.abcast, stored.priority = start, self.site.propose()
            self.site.queue[start.id] = stored
        stored.abroad = self.site.abroad(sites_of(start.destinations))
        stored.coordinator = source
        known = stored.final or stored.fixed or stored.delivered
        self.site.send(source, AbcastPriority(start.id, *stored.priority, known))

    def on_priority(self, source: str, answer: AbcastPriority) -> None:
        """Step (3), when all have answered."""
        if (coordination := self.active.get(answer.id)) is not None:
            coordination.answers[source] = ((answer.priority, answer.suffix), answer.final)
            self._advance(answer.id)

    def on_fixed(self, source: str, fixed: AbcastFixed) -> None:
        """The extra phase: known here, or known there."""
        if fixed.answer:
            if (coordination := self.active.get(fixed.id)) is not None:
                coordination.fixed.add(source)
                self._advance(fixed.id)
            return
        stored = self.site.store.get(fixed.id)
        if stored is not None and not stored.final:
            stored.priority, stored.fixed = (fixed.priority, fixed.suffix), True
            self.site.highest = max(self.site.highest, fixed.priority)
        self.site.send(source, AbcastFixed(fixed.id, fixed.priority, fixed.suffix, answer=True))

    def on_commit(self, commit: AbcastCommit) -> None:
        """Step (4)."""
        stored = self.site.store.get(commit.id)
        if stored is not None and not stored.final:
            stored.priority, stored.final = (commit.priority, commit.suffix), True
            self.site.highest = max(self.site.highest, commit.priority)

    def on_sent(self, site: str, id: str) -> None:
        """The commit is at this site."""
        if (coordination := self.active.get(id)) is not None:
            coordination.unsent.discard(site)
            if coordination.committed and not coordination.unsent:
                del self.active[id]

    def _advance(self, id: str) -> None:
        coordination = self.active[id]
        sites = self.site.alive(sites_of(coordination.start.destinations))
        if coordination.committed or any(site not in coordination.answers for site in sites):
            return
        if coordination.chosen is None:
            known = [priority for priority, final in coordination.answers.values() if final]
            proposed = [priority for priority, _ in coordination.answers.values()]
            coordination.chosen = max(known or proposed, default=(0, ""))
            if coordination.start.floor:
                self.site.highest = max(self.site.highest, coordination.chosen[0])
            if coordination.start.uniform:
                for site in sites:
                    self.site.send(site, AbcastFixed(id, *coordination.chosen))
        if coordination.start.uniform and any(site not in coordination.fixed for site in sites):
            return
        coordination.committed, coordination.unsent = True, set(sites)
        for site in sites:
            self.site.send(site, AbcastCommit(id, *coordination.chosen), ("abcast", id))
        stored = self.site.store.setdefault(id, Stored(delivered=True))
        stored.disposable, stored.abroad = True, self.site.abroad(sites_of(coordination.start.destinations))
        if not sites:
            del self.active[id]

    def deliver_ready(self) -> bool:
        """Move what is deliverable at the heads of the queues to the delivery queue; whether there was any."""
        heads, _ = self.site.queue_heads()
        ready = [id for id in heads.values() if self.site.store[id].final]
        for id in sorted(ready):
            stored = self.site.queue.pop(id)
            start = stored.abcast
            assert start is not None
            stored.delivered, stored.abcast = True, None
            if start.floor:  # CBCASTs that follow it carry its place on
                self.site.clock = max(self.site.clock, stored.priority[0])
            deliver(self.site, start)
        return bool(ready)

    def on_view(self) -> None:
        """Sites failed or came: answers of the failed are not waited for, and what they coordinated is taken over."""
        for id in list(self.active):
            coordination = self.active[id]
            coordination.unsent = {site for site in coordination.unsent if self.site.is_up(site)}
            self._advance(id)
            if id in self.active and coordination.committed and not coordination.unsent:
                del self.active[id]
        for id, stored in list(self.site.queue.items()):
            start = stored.abcast
            if start is None or stored.final or self.site.is_up(stored.coordinator) or id in self.active:
                continue
            heir = self.site.alive(sites_of(start.destinations), near=origin_of(id))[0]
            stored.coordinator = heir
            if heir == self.site.me:
                self.begin(start)
            else:
                self.departures.send(Orphan(start, None), (heir,))

    def adopt(self, start: AbcastStart) -> None:
        """Somebody has it, and this site shall take over."""
        if start.id not in self.active:
            self.begin(start)

    def is_flushed(self) -> bool:
        """Whether every ABCAST of a failed site is deliverable here, and everywhere where this site saw to it."""
        undone = any(
            stored.abcast is not None and not stored.final and not self.site.is_up(origin_of(id))
            for id, stored in self.site.queue.items()
        )
        return not undone and not any(not self.site.is_up(origin_of(id)) for id in self.active)

    def awaits_causal(self) -> bool:
        """Whether a causal ABCAST of this site has no priority yet."""
        return any(each.start.floor and each.chosen is None for each in self.active.values())

    def is_out(self, origin: str) -> bool:
        """Whether all that this process began is deliverable everywhere."""
        return not any(each.start.origin == origin for each in self.active.values())

    def is_settled(self, group: str) -> bool:
        """Whether all that this site coordinates for a group has its priority everywhere."""
        return not any(each.start.group == group for each in self.active.values())
