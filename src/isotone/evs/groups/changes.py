"""What happens to groups one unit at a time: joins, leaves, kills, signals, and views that a transition needs.

An `Era` says where in the life of a daemon view this daemon is: before its signal, or behind it and on the way to the
next daemon view together with some. It is *lossy* when somebody does not come along. Behind a lossy signal nothing is
certain about those others: they may have delivered changes that are lost here, or the same ones before their signals.
So behind it every group that anything ordered happens to is signalled, and every view has an id of the transition.

Implements: [Spread 6.4.4, 6.4.5], Figures 6.18 to 6.21. Deviations:
D-ids     (daemon view, next daemon view behind the signal, stamp): unique, never reused; see `isotone.core.ids`.
D-leave   leaves and kills behind the signal make views as joins do; else what others sent in their views after the
          leave would arrive here in an earlier one (2.9.1).
D-touched behind a lossy signal a group is signalled by the first reliable bundle or change, though all its known
          members come along: elsewhere the bundle may be delivered in a view of a join that is lost here (2.18).
D-raised  if the sender of such a bundle does not come along, the group first gets a view (V, W, time 0 at the first
          daemon of those who come along): the sender may have sent it in a view that is lost here (2.9.1).
"""

from __future__ import annotations

import msgspec

from isotone.core.boundary import Indicate, SelfLeave, Transitional, View
from isotone.core.contract import Action
from isotone.core.ids import NO_DAEMON_VIEW, ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.views import Cause, GroupView
from isotone.evs.groups.roster import Group, Roster


class Era(msgspec.Struct, frozen=True, gc=False):
    """A daemon view, or what is delivered behind its signal on the way to ``following``, together with ``together``."""

    view: DaemonViewId
    together: frozenset[DaemonId]
    following: DaemonViewId = NO_DAEMON_VIEW
    lossy: bool = False
    first: DaemonId | None = None  # the smallest of ``together``, behind the signal

    def id(self, stamp: Stamp) -> GroupViewId:
        """The id of a view that the unit with this stamp makes."""
        return GroupViewId(self.view, self.following, stamp)

    def raised(self) -> GroupViewId:
        """The id of a view that the transition itself makes; each set that comes along together has its own."""
        assert self.first is not None
        return self.id(Stamp(0, self.first))


class Changes:
    """Changes the groups of a roster; what members hear of it goes to ``out``."""

    def __init__(self, roster: Roster, era: Era) -> None:
        self.era = era
        self._roster = roster

    def join(self, client: ClientId, name: str, stamp: Stamp, out: list[Action]) -> None:
        """A join is delivered [Figures 6.18 and 6.20]."""
        id = self.era.id(stamp)
        group = self._roster.group(name, id)
        before, staying = group.told, group.staying()
        group.id = id
        self._roster.add(client, group)
        if client.daemon not in self.era.together:
            group.absent.add(client)
        members = tuple(group.members)
        if before:
            out.append(Indicate(before, View(GroupView(name, id, members, staying, Cause.JOIN, client))))
        if self._roster.is_open(client):
            out.append(Indicate((client,), View(GroupView(name, id, members, (client,), Cause.JOIN, client))))
        self._after_view(group, out)

    def leave(self, client: ClientId, name: str, stamp: Stamp, out: list[Action]) -> None:
        """A leave is delivered [Figures 6.19 and 6.21]."""
        group = self._roster.by_name[name]
        if client in group.told:
            out.append(Indicate((client,), SelfLeave(name)))
        self._remove(client, group, self.era.id(stamp), Cause.LEAVE, out)

    def kill(self, client: ClientId, stamp: Stamp, out: list[Action]) -> None:
        """A disconnect is delivered: the client leaves all its groups, in the order of their names."""
        for name in sorted(self._roster.groups_of(client)):
            self._remove(client, self._roster.by_name[name], self.era.id(stamp), Cause.DISCONNECT, out)

    def signal(self, out: list[Action]) -> None:
        """The daemon's signal: members on daemons that do not come along are absent, their groups are signalled."""
        roster = self._roster
        for daemon in [daemon for daemon in roster.daemons() if daemon not in self.era.together]:
            for client in roster.clients_at(daemon):
                for name in roster.groups_of(client):
                    group = roster.by_name[name]
                    group.absent.add(client)
                    if not group.marked:
                        self._signal_group(group, out)

    def touch(self, sender: ClientId, names: tuple[str, ...], out: list[Action]) -> None:
        """A reliable bundle to these groups comes behind a lossy signal: D-touched, D-raised."""
        for name in names:
            group = self._roster.by_name.get(name)
            if group is None:
                continue
            if sender.daemon not in self.era.together and group.id.next_daemon_view != self.era.following:
                self._raise_view(group, out)
            if not group.marked:
                self._signal_group(group, out)

    def _raise_view(self, group: Group, out: list[Action]) -> None:
        """The transition itself makes a view, for those who come along."""
        group.id = self.era.raised()
        self._roster.unmark(group)
        if group.told:
            staying = group.staying()
            view = GroupView(group.name, group.id, tuple(group.members), staying, Cause.NETWORK, None, (staying,))
            out.append(Indicate(group.told, View(view)))

    def drop_absent(self) -> None:
        """The daemon view is over: who does not come along is gone."""
        for group in list(self._roster.marked.values()):
            for client in sorted(group.absent):
                self._roster.remove(client, group)

    def network_views(self, id: GroupViewId, out: list[Action]) -> None:
        """All came along and know the same: groups that were signalled get their views [Figure 6.22, first half]."""
        for group in list(self._roster.marked.values()):
            group.id = id
            self._roster.unmark(group)
            if group.told:
                members = tuple(group.members)
                view = GroupView(group.name, id, members, members, Cause.NETWORK, None, (members,))
                out.append(Indicate(group.told, View(view)))

    def _remove(self, client: ClientId, group: Group, id: GroupViewId, cause: Cause, out: list[Action]) -> None:
        self._roster.remove(client, group)
        if not group.members:
            return
        group.id = id
        if group.told:
            view = GroupView(group.name, id, tuple(group.members), group.staying(), cause, client)
            out.append(Indicate(group.told, View(view)))
        self._after_view(group, out)

    def _after_view(self, group: Group, out: list[Action]) -> None:
        """A change made a view: behind a lossy signal the signal follows at once."""
        self._roster.unmark(group)
        if self.era.lossy:
            self._signal_group(group, out)

    def _signal_group(self, group: Group, out: list[Action]) -> None:
        self._roster.mark(group)
        if group.told:
            out.append(Indicate(group.told, Transitional(group.name, group.id)))
