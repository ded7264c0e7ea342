"""Which sites have members of which groups, told to the transport so that it need not send content in vain.

Implements: [Spread 3.4.2], the knowledge that pruning needs. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action
from isotone.core.ids import ClientId, DaemonId
from isotone.evs.groups.actions import ChangeInterest, StateInterest
from isotone.evs.groups.roster import Roster
from isotone.evs.ordering.units import Position
from isotone.evs.overlay.topology import Topology


class Sites:
    """The daemons of a daemon view by site; with one site alone there is nothing to tell."""

    def __init__(self, daemons: dict[str, list[DaemonId]]) -> None:
        self._daemons = daemons if len(daemons) > 1 else {}
        self._site_of = {daemon: site for site, members in self._daemons.items() for daemon in members}

    @classmethod
    def none(cls) -> Sites:
        """Before the first daemon view."""
        return cls({})

    @classmethod
    def of(cls, topology: Topology, members: Sequence[DaemonId]) -> Sites:
        """The sites of a daemon view."""
        by_name = {daemon.name: daemon for daemon in members}
        return cls({site.name: [by_name[name] for name in site.daemons if name in by_name] for site in topology.sites})

    def state(self, roster: Roster) -> list[Action]:
        """All groups of every site."""
        out: list[Action] = []
        for site, daemons in self._daemons.items():
            groups: dict[str, None] = {}
            for daemon in daemons:
                for client in roster.clients_at(daemon):
                    groups.update(dict.fromkeys(roster.groups_of(client)))
            out.append(StateInterest(site, tuple(sorted(groups))))
        return out

    def joined(self, roster: Roster, client: ClientId, name: str, position: Position) -> list[Action]:
        """A client is about to become a member."""
        site = self._site_of.get(client.daemon)
        if site is None or self._has_members(roster, site, name):
            return []
        return [ChangeInterest(site, name, True, position)]

    def left(self, roster: Roster, client: ClientId, names: Sequence[str], position: Position) -> list[Action]:
        """A client is no member of these any more."""
        site = self._site_of.get(client.daemon)
        if site is None:
            return []
        return [
            ChangeInterest(site, name, False, position) for name in names if not self._has_members(roster, site, name)
        ]

    def _has_members(self, roster: Roster, site: str, name: str) -> bool:
        group = roster.by_name.get(name)
        return group is not None and any(group.has_member_at(daemon) for daemon in self._daemons[site])
