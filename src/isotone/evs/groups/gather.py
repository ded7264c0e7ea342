"""Gathering the GROUPS of all daemons of a daemon view, and the views that come of it.

Implements: [Spread 6.4.6], Figures 6.23 and 6.24. Deviations:
D-compare previous ids travel unmodified, and the flag that Figure 6.22 writes into them travels beside them: else all
          signalled groups of a component would seem to come from one view.
D-lineage what the daemons bring that came along with this one is known here already, so only what others bring costs
          work per member.
D-parted  members that bring the same view, but did not come along together, have parted: a gathering between was given
          up, or one of them never came to a daemon view that the other was in. Each part gets a view of its own first,
          so that nobody takes them for having been together (2.4.3, 2.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from isotone.core.boundary import Indicate, View
from isotone.core.contract import Action
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, parse_daemon_id
from isotone.core.views import Cause, GroupView
from isotone.evs.groups.messages import GroupsMessage, Share, read_shares, view_of
from isotone.evs.groups.roster import Group, Roster

Origin = tuple[GroupViewId, DaemonId]
"""Where members come from: their last view, and the first of the daemons that came along together."""

Parts = dict[Origin, list[ClientId]]


class Report(msgspec.Struct, frozen=True, gc=False):
    """What one daemon brings, and the first of the daemons that bring the same."""

    first: DaemonId
    shares: list[Share]


@dataclass
class Gathering:
    """The GROUPS messages of one daemon view, as they come."""

    view: DaemonViewId
    _missing: dict[DaemonId, None] = field(default_factory=dict)  # daemons whose pieces are not all here
    _pieces: dict[DaemonId, dict[int, list[Share]]] = field(default_factory=dict)
    _first: dict[DaemonId, DaemonId] = field(default_factory=dict)

    @classmethod
    def of(cls, view: DaemonViewId, members: Sequence[DaemonId]) -> Gathering:
        """Nobody has said anything yet."""
        return cls(view, dict.fromkeys(members))

    def take(self, message: GroupsMessage, daemon: DaemonId) -> bool:
        """A piece came; says whether all pieces of all daemons are here. Pieces of earlier attempts are no error."""
        if view_of(message) != self.view:
            return False
        pieces = self._pieces.setdefault(daemon, {})
        if message.piece in pieces:
            raise RemoteProtocolError(f"piece {message.piece} of GROUPS twice")
        first, shares = parse_daemon_id(message.first), read_shares(message, daemon)
        self._first[daemon] = first
        pieces[message.piece] = shares
        if len(pieces) == message.pieces:
            self._missing.pop(daemon, None)
        return not self._missing

    def missing(self) -> tuple[DaemonId, ...]:
        """The daemons whose GROUPS are waited for."""
        return tuple(self._missing)

    def report(self, daemon: DaemonId) -> Report:
        """What a daemon brings, once all is here."""
        pieces = self._pieces[daemon]
        return Report(self._first[daemon], [share for piece in sorted(pieces) for share in pieces[piece]])


class Merge:
    """ComputeNotify: what all bring comes together; groups that changed get a view, others see nothing.

    ``first`` is the first of the daemons that came along with this one, ``parted`` the id of the view that they get
    where they parted from others.
    """

    def __init__(self, roster: Roster, first: DaemonId, *, id: GroupViewId, parted: GroupViewId) -> None:
        self._roster, self._first = roster, first
        self._id, self._parted = id, parted
        self._brought: dict[str, Parts] = {}  # by others
        self._marked: set[str] = set()  # of these, groups that were signalled; only looked up

    def take_own(self, report: Report) -> None:
        """A daemon that came along: its members are known, but of groups without members here the last view may not."""
        for share in report.shares:
            group = self._roster.by_name.get(share.name)
            if group is None:
                self._take(share, report.first)  # no correct daemon does that
                continue
            group.id = share.id
            if share.marked and not group.marked:
                self._roster.mark(group)

    def take(self, report: Report) -> None:
        """Another daemon."""
        for share in report.shares:
            self._take(share, report.first)

    def _take(self, share: Share, first: DaemonId) -> None:
        parts = self._brought.setdefault(share.name, {})
        parts.setdefault((share.id, first), []).extend(share.members)
        if share.marked:
            self._marked.add(share.name)

    def views(self) -> list[Action]:
        """Everything is taken: the new groups, and what members here hear of them."""
        out: list[Action] = []
        for name in sorted({**self._brought, **self._roster.marked}):
            self._merge(name, self._brought.get(name, {}), out)
        return out

    def _merge(self, name: str, brought: Parts, out: list[Action]) -> None:
        roster = self._roster
        group = roster.by_name.get(name)
        parts = dict(brought)
        if group is None:
            group = roster.group(name, next(iter(parts))[0])
        else:
            parts[group.id, self._first] = list(group.members)
        changed = len(parts) > 1 or name in self._marked or group.marked
        roster.add_all([client for clients in brought.values() for client in clients], group)
        roster.unmark(group)
        if changed:
            self._tell(group, parts, out)
            group.id = self._id

    def _tell(self, group: Group, parts: Parts, out: list[Action]) -> None:
        if not group.told:
            return
        mine = tuple(sorted(parts[group.id, self._first]))
        if any(previous == group.id and first != self._first for previous, first in parts):
            own = GroupView(group.name, self._parted, mine, mine, Cause.NETWORK, None, (mine,))
            out.append(Indicate(group.told, View(own)))
        together = tuple(sorted(tuple(sorted(clients)) for clients in parts.values()))
        view = GroupView(group.name, self._id, tuple(group.members), mine, Cause.NETWORK, None, together)
        out.append(Indicate(group.told, View(view)))
