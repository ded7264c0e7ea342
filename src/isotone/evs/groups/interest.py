"""Which sites have members of which groups, told to the transport so that it need not send content in vain.

Implements: [Spread 3.4.2], the knowledge that pruning needs. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action
from isotone.core.ids import NO_DAEMON_VIEW, ClientId, DaemonId, DaemonViewId
from isotone.core.views import DaemonView
from isotone.evs.groups.actions import ChangeInterest, StateInterest
from isotone.evs.groups.roster import Roster
from isotone.evs.overlay.topology import Topology


class Sites:
    """The daemons of a daemon view by site; with one site alone there is nothing to tell."""

    def __init__(self, view: DaemonViewId, daemons: dict[str, list[DaemonId]]) -> None:
        self._view = view
        self._daemons = daemons if len(daemons) > 1 else {}
        self._site_of = {daemon: site for site, members in self._daemons.items() for daemon in members}

    @classmethod
    def none(cls) -> Sites:
        """Before the first daemon view."""
        return cls(NO_DAEMON_VIEW, {})

    @classmethod
    def of(cls, topology: Topology, view: DaemonView) -> Sites:
        """The sites of a daemon view."""
        by_name = {daemon.name: daemon for daemon in view.members}
        found = {site.name: [by_name[name] for name in site.daemons if name in by_name] for site in topology.sites}
        return cls(view.id, found)

    def state(self, roster: Roster) -> list[Action]:
        """All groups of every site."""
        out: list[Action] = []
        for site, daemons in self._daemons.items():
            groups: dict[str, None] = {}
            for daemon in daemons:
                for client in roster.clients_at(daemon):
                    groups.update(dict.fromkeys(roster.groups_of(client)))
            out.append(StateInterest(self._view, site, tuple(sorted(groups))))
        return out

    def joined(self, roster: Roster, client: ClientId, name: str) -> list[Action]:
        """A client is about to become a member."""
        site = self._site_of.get(client.daemon)
        if site is None or self._has_members(roster, site, name):
            return []
        return [ChangeInterest(self._view, site, name, True)]

    def left(self, roster: Roster, client: ClientId, names: Sequence[str]) -> list[Action]:
        """A client is no member of these any more."""
        site = self._site_of.get(client.daemon)
        if site is None:
            return []
        lost = [name for name in names if not self._has_members(roster, site, name)]
        return [ChangeInterest(self._view, site, name, False) for name in lost]

    def _has_members(self, roster: Roster, site: str, name: str) -> bool:
        group = roster.by_name.get(name)
        return group is not None and any(group.has_member_at(daemon) for daemon in self._daemons[site])
