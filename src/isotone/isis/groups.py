"""Process groups: who joins, leaves and failed, each by a GBCAST.

The oldest site keeps a register of groups: every join goes through it, so whoever is or may be a member is listed
there, and a group without operational members can begin anew. When another site becomes the oldest it first asks all.
A member that failed with its site is removed by the oldest site that has a member, behind the flush of part 1; one
that ended at a site that is well, or leaves, by that site, behind all that it sent.

Implements: [ISIS 3.1], [ISIS 3.6], [ISIS 4.3.3] part 1. Deviations: D-register (the paper does not say how a group is
found or made).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isotone.isis.abcast import Abcasts
from isotone.isis.cbcast import Cbcasts
from isotone.isis.channels import Numbers
from isotone.isis.delivery import install
from isotone.isis.gbcast import Gbcasts
from isotone.isis.incarnation import Site
from isotone.isis.names import site_of, sites_of
from isotone.isis.wire import (
    CensusAsked,
    CensusTold,
    Created,
    Flushed,
    GbcastCommit,
    GbcastStart,
    GroupView,
    JoinAsked,
    Kind,
    WhereAsked,
    WhereTold,
)


@dataclass
class Groups:
    """Membership at one site, and the register where it is the oldest."""

    site: Site
    abcasts: Abcasts
    cbcasts: Cbcasts
    gbcasts: Gbcasts
    joins: dict[tuple[str, str], None] = field(default_factory=dict)  # (group, process) that wait here
    departures: dict[tuple[str, str], Kind] = field(default_factory=dict)  # (group, process) of this site
    returns: dict[tuple[str, str], None] = field(default_factory=dict)  # (group, process) that joins again once it left
    flushed: dict[str, Numbers] = field(default_factory=dict)  # by site: up to which site views
    flush_told: Numbers = ()
    register: dict[str, GroupView] | None = None  # None: this site is not the oldest, or asks all
    census: dict[str, CensusTold] | None = None
    asked: dict[str, deque[str]] = field(default_factory=dict)  # processes that want to join, by group
    wanting: list[tuple[str, WhereAsked]] = field(default_factory=list)  # asked before the register was there
    _joining: set[tuple[str, str]] = field(default_factory=set)  # in the register before they are in a view
    _told: dict[str, int] = field(default_factory=dict)  # the view of each group that the oldest site was told
    _oldest: str = ""
    _asked_all: tuple[str, ...] = ()  # who was there when the census began: whoever came later brings nothing

    # --- asked here ------------------------------------------------------------------------------------------------

    def join(self, process: str, group: str) -> None:
        """A process of this site wants to be a member."""
        if (group, process) in self.departures:
            self.returns[group, process] = None
            return
        if (group, process) in self.joins or process in self._members(group):
            return
        self.joins[group, process] = None
        self._ask_to_join(group, process)

    def _ask_to_join(self, group: str, process: str) -> None:
        if self._oldest:
            self.abcasts.departures.send(JoinAsked(group, process), (self._oldest,))

    def leave(self, process: str, group: str, kind: Kind) -> None:
        """A member of this site leaves, or ended; one that only waits to join waits no more once it has joined."""
        self.returns.pop((group, process), None)
        if (group, process) in self.joins or process in self._members(group):
            self.departures.setdefault((group, process), kind)

    def _members(self, group: str) -> tuple[str, ...]:
        view = self.site.groups.get(group)
        return view.members if view is not None else ()

    # --- site views ------------------------------------------------------------------------------------------------

    def on_view(self) -> None:
        """The oldest site may be another one: it is told what waits, and asks who is where."""
        site = self.site
        oldest = site.home
        if oldest != self._oldest:
            self._oldest = oldest
            self.register, self.census, self.asked, self._told = None, None, {}, {}
            if oldest == site.me:
                self.census, self._asked_all = {}, ()
            for group, process in self.joins:
                self._ask_to_join(group, process)
        if self.census is not None:
            for member in site.all_up():
                if member not in self._asked_all:
                    site.send(member, CensusAsked())
            self._asked_all = site.all_up()
        self._finish_census()

    def on_census_asked(self, source: str) -> None:
        """All views with members here, and joins that are not through."""
        views = tuple(self.site.groups[name] for name in sorted(self.site.groups))
        starts = [stored.gbcast for stored in self.site.store.values() if stored.gbcast is not None]
        joining = {(each.group, process) for each in starts if each.kind is Kind.JOIN for process in each.processes}
        self.site.send(source, CensusTold(views, tuple(sorted(joining))))

    def on_census_told(self, source: str, told: CensusTold) -> None:
        """One answer."""
        if self.census is not None:
            self.census[source] = told
            self._finish_census()

    def _finish_census(self) -> None:
        if self.census is None or any(site not in self.census for site in self.site.alive(self._asked_all)):
            return
        if not all(self.site.views):
            return  # a cluster of which nothing is known here may have groups
        self.register = {}
        for source in sorted(self.census):
            for view in self.census[source].views:
                self._note(view)
        for source in sorted(self.census):
            for group, process in self.census[source].joining:
                view = self.register.get(group, GroupView(group, 0, ()))
                if process not in view.members:
                    self._joining.add((group, process))
                    self.register[group] = GroupView(group, view.number, (*view.members, process))
        self.census = None
        wanting, self.wanting = self.wanting, []
        for source, where in wanting:
            self.on_where_asked(source, where)

    def _note(self, view: GroupView) -> None:
        assert self.register is not None
        self.site.note_number(view)
        known = self.register.get(view.name)
        self._joining -= {(view.name, process) for process in view.members}
        if known is None or view.number > known.number:
            more = tuple(each for each in (known.members if known else ()) if (view.name, each) in self._joining)
            self.register[view.name] = GroupView(view.name, view.number, view.members + more)

    # --- the register ----------------------------------------------------------------------------------------------

    def on_join_asked(self, source: str, asked: JoinAsked) -> None:
        """One join after the other for each group; one that was asked of the wrong site is asked again."""
        if self._oldest == self.site.me and site_of(asked.process) == source:
            queue = self.asked.setdefault(asked.group, deque())
            if asked.process not in queue:
                queue.append(asked.process)

    def admit_next(self) -> None:
        """Begin the joins whose turn has come."""
        if self.register is None:
            return
        for group in sorted(self.asked):
            queue = self.asked[group]
            while queue and not self.gbcasts.is_active(Kind.JOIN, group):
                self._admit(group, queue.popleft())
            if not queue:
                del self.asked[group]

    def _admit(self, group: str, process: str) -> None:
        assert self.register is not None
        site = self.site
        known = self.register.get(group, GroupView(group, 0, ()))
        if not site.is_up(site_of(process)):
            return
        present = site.alive(sites_of(known.members))
        if not present:
            view = GroupView(group, site.first_number(group), (process,))
            self.register[group] = view
            site.send(site_of(process), Created(view))
        else:
            participants = tuple(dict.fromkeys((*sites_of(known.members), site_of(process))))
            start = GbcastStart(site.next_id(), Kind.JOIN, group, site.me, (process,), participants, b"")
            members = known.members if process in known.members else (*known.members, process)
            self.register[group] = GroupView(group, known.number, members)
            self.gbcasts.begin(start)

    def on_created(self, created: Created) -> None:
        """A group begins with a process of this site."""
        if created.view.name not in self.site.groups:
            install(self.site, created.view, "")
        self._joined(created.view)

    def on_where_asked(self, source: str, asked: WhereAsked) -> None:
        """From outside of a group."""
        if self.register is None:
            self.wanting.append((source, asked))
        else:
            self.site.send(source, WhereTold(self.register.get(asked.group, GroupView(asked.group, 0, ()))))

    def on_view_told(self, view: GroupView) -> None:
        """A group has a new view, says its oldest member: who may be a member does not grow by that."""
        if self.register is not None:
            self._note(view)

    # --- failures and departures -----------------------------------------------------------------------------------

    def on_flushed(self, source: str, flushed: Flushed) -> None:
        """Step (1.4), at all who may begin a failure GBCAST."""
        self.flushed[source] = flushed.views

    @property
    def is_flushing(self) -> bool:
        """Whether part 1 is under way in this cluster: it holds a read-lock."""
        return not self._have_flushed(self.site.me, self.site.view.members)

    def _have_flushed(self, failed: str, sites: tuple[str, ...]) -> bool:
        """Whether part 1 is done by these sites for this one, as far as anything is known here."""
        place = self.site.cluster_of(failed)
        number = self.site.views[place]
        return all(site in self.flushed and self.flushed[site][place] >= number for site in sites)

    def advance(self) -> None:
        """Begin what is due."""
        site = self.site
        if self.flush_told != site.views and self.abcasts.is_flushed() and self.cbcasts.is_flushed():
            self.flush_told = site.views
            for member in site.all_up():
                site.send(member, Flushed(site.views))
        for group in sorted(site.groups):
            self._remove_failed(site.groups[group])
        for (group, process), kind in sorted(self.departures.items(), key=lambda each: each[0]):
            self._depart(group, process, kind)
        self.admit_next()
        self._tell_register()

    def _remove_failed(self, view: GroupView) -> None:
        """By the oldest site that has a member, of the cluster of the failed if there is one: cluster by cluster.

        Of a group within one cluster nothing can be elsewhere that is not here too, so only this cluster flushes.
        """
        site, sites = self.site, sites_of(view.members)
        failed = tuple(each for each in view.members if not site.is_up(site_of(each)))
        if not failed or self.gbcasts.is_active(Kind.FAIL, view.name):
            return
        wide = len({site.cluster_of(each) for each in sites}) > 1
        for each in failed:
            together = tuple(other for other in failed if site.cluster_of(other) == site.cluster_of(each))
            if site.alive(sites, near=site_of(each))[0] == site.me and self._have_flushed(
                site_of(each), site.all_up() if wide else site.view.members
            ):
                self._remove(view, together, Kind.FAIL)
                return

    def _remove(self, view: GroupView, processes: tuple[str, ...], kind: Kind) -> None:
        participants = tuple(self.site.alive(sites_of(view.members)))
        self.gbcasts.begin(
            GbcastStart(self.site.next_id(), kind, view.name, self.site.me, processes, participants, b"")
        )

    def _depart(self, group: str, process: str, kind: Kind) -> None:
        if (group, process) in self.joins:
            return
        view = self.site.groups.get(group)
        if view is None or process not in view.members:
            kind = self.departures.pop((group, process))
            if (group, process) in self.returns:
                del self.returns[group, process]
                if kind is Kind.LEAVE:
                    self.join(process, group)
            return
        busy = any(
            each.start.group == group and process in each.start.processes for each in self.gbcasts.active.values()
        )
        if not busy and self.abcasts.is_out(process) and self.cbcasts.is_out(process):
            self._remove(view, (process,), kind)

    def _joined(self, view: GroupView) -> None:
        for process in self.site.local(view.members):
            self.joins.pop((view.name, process), None)

    def on_finished(self, start: GbcastStart, commit: GbcastCommit) -> None:
        """Of a join that this site coordinated: the register follows, or it is tried again."""
        if start.kind is not Kind.JOIN or self.register is None:
            return
        if commit.view is not None:
            self.site.note_number(commit.view)
            known = self.register.get(start.group)
            if known is None or commit.view.number >= known.number:
                self.register[start.group] = commit.view
        elif start.origin == self.site.me:
            for process in start.processes:
                self.asked.setdefault(start.group, deque()).append(process)

    def look_for_joined(self) -> None:
        """Joins of this site that are through."""
        for view in self.site.groups.values():
            self._joined(view)

    def _tell_register(self) -> None:
        """The oldest site with a member tells of a new view."""
        for name, view in self.site.groups.items():
            if self._told.get(name) != view.number and self.site.alive(sites_of(view.members))[0] == self.site.me:
                self._told[name] = view.number
                self.site.send(self._oldest, WhereTold(view))

    @property
    def idle(self) -> bool:
        """Whether nothing is owed."""
        failed = any(not self.site.is_up(site_of(each)) for view in self.site.groups.values() for each in view.members)
        return not (
            self.joins or self.departures or self.asked or self.census is not None or failed or self.is_flushing
        )
