"""Who is in which group, as one daemon knows it, with the indices that make each change cost what it touches.

A group stands in three indices: by name, by client and by daemon, so that a kill looks at the client's groups only and
the loss of a daemon at the groups of its clients only. Groups that nothing happens to are never looked at.

Implements: [Spread 6.4.3], the state G and LC. Deviations: D-status instead of a status on each member, a group knows
which members are absent (PARTITIONED); NEW is a moment inside one handler.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from isotone.core.ids import ClientId, DaemonId, GroupViewId

_UNIONS_MAX = 4_096


class Group:
    """One group. ``marked``: it was signalled in its current view, or will get a view from the network."""

    __slots__ = ("_told", "absent", "id", "local", "marked", "members", "name")

    def __init__(self, name: str, id: GroupViewId) -> None:
        self.name = name
        self.id = id  # of the view that the members installed last
        self.members: list[ClientId] = []  # sorted
        self.local: list[ClientId] = []  # members here whose sessions are open: those who are told; sorted
        self.absent: set[ClientId] = set()  # members whose daemons do not come along
        self.marked = False
        self._told: tuple[ClientId, ...] | None = None

    @property
    def told(self) -> tuple[ClientId, ...]:
        """The local members as a tuple that is made once."""
        if self._told is None:
            self._told = tuple(self.local)
        return self._told

    def staying(self) -> tuple[ClientId, ...]:
        """The members that come along (ESTABLISHED)."""
        if not self.absent:
            return tuple(self.members)
        return tuple([client for client in self.members if client not in self.absent])

    def has_member_at(self, daemon: DaemonId) -> bool:
        """Whether a client of this daemon is a member."""
        place = bisect_left(self.members, ClientId(daemon, "", 0))
        return place < len(self.members) and self.members[place].daemon == daemon


class Roster:
    """All groups that have members, and the open sessions of this daemon."""

    def __init__(self, me: DaemonId) -> None:
        self.me = me
        self.by_name: dict[str, Group] = {}
        self.marked: dict[str, Group] = {}  # the groups that are marked
        self.open: dict[str, ClientId] = {}  # open sessions by private name
        self._groups_of: dict[ClientId, dict[str, None]] = {}
        self._clients_at: dict[DaemonId, dict[ClientId, None]] = {}
        self._unions: dict[tuple[str, ...], tuple[ClientId, ...]] = {}  # receivers of bundles to several groups

    # --- sessions --------------------------------------------------------------------------------------------------

    def connect(self, client: ClientId) -> None:
        """A session began."""
        self.open[client.name] = client
        self._unions.clear()

    def disconnect(self, client: ClientId) -> None:
        """A session is over: the client hears no more, and stays a member until its kill is delivered."""
        del self.open[client.name]
        for name in self._groups_of.get(client, ()):
            self._untell(self.by_name[name], client)
        self._unions.clear()

    def is_open(self, client: ClientId) -> bool:
        """Whether this very session is open here."""
        return self.open.get(client.name) == client

    # --- receivers -------------------------------------------------------------------------------------------------

    def receivers(self, names: tuple[str, ...]) -> tuple[ClientId, ...]:
        """The open local sessions that a bundle to these groups reaches, each once."""
        if len(names) == 1 and (group := self.by_name.get(names[0])) is not None:
            return group.told
        found = self._unions.get(names)
        if found is None:
            if len(self._unions) >= _UNIONS_MAX:
                self._unions.clear()
            found = self._unions[names] = self._union(names)
        return found

    def _union(self, names: tuple[str, ...]) -> tuple[ClientId, ...]:
        found: dict[ClientId, None] = {}
        for name in names:
            if (group := self.by_name.get(name)) is not None:
                found.update(dict.fromkeys(group.local))
            elif name.startswith("#"):
                _, client, daemon = name.split("#")
                if daemon == self.me.name and client in self.open:
                    found[self.open[client]] = None
        return tuple(found)

    # --- members ---------------------------------------------------------------------------------------------------

    def group(self, name: str, id: GroupViewId) -> Group:
        """The group, which is made with this id if it is not there."""
        group = self.by_name.get(name)
        if group is None:
            group = self.by_name[name] = Group(name, id)
        return group

    def has(self, client: ClientId, name: str) -> bool:
        """Whether the client is a member."""
        return name in self._groups_of.get(client, ())

    def add(self, client: ClientId, group: Group) -> None:
        """The client becomes a member; it is told from now on if its session is open here."""
        insort(group.members, client)
        self._index(client, group.name)
        if client.daemon == self.me and self.is_open(client):
            insort(group.local, client)
            group._told = None
            self._unions.clear()

    def add_all(self, clients: Iterable[ClientId], group: Group) -> None:
        """Clients of other daemons become members together."""
        group.members.extend(clients)
        for client in clients:
            self._index(client, group.name)
        group.members.sort()

    def remove(self, client: ClientId, group: Group) -> None:
        """The member is gone; a group without members is, too."""
        del group.members[bisect_left(group.members, client)]
        group.absent.discard(client)
        if client.daemon == self.me:
            self._untell(group, client)
        names = self._groups_of[client]
        del names[group.name]
        if not names:
            self._forget(client)
        if not group.members:
            self.unmark(group)
            del self.by_name[group.name]

    def groups_of(self, client: ClientId) -> list[str]:
        """The groups that the client is in."""
        return list(self._groups_of.get(client, ()))

    def clients_at(self, daemon: DaemonId) -> list[ClientId]:
        """The clients of a daemon that are in any group."""
        return list(self._clients_at.get(daemon, ()))

    def daemons(self) -> list[DaemonId]:
        """The daemons whose clients are in any group."""
        return list(self._clients_at)

    # --- marks -----------------------------------------------------------------------------------------------------

    def mark(self, group: Group) -> None:
        """The group was signalled in its current view."""
        group.marked = True
        self.marked[group.name] = group

    def unmark(self, group: Group) -> None:
        """The group has a new view, without a signal so far."""
        group.marked = False
        self.marked.pop(group.name, None)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _index(self, client: ClientId, name: str) -> None:
        names = self._groups_of.get(client)
        if names is None:
            names = self._groups_of[client] = {}
            self._clients_at.setdefault(client.daemon, {})[client] = None
        names[name] = None

    def _forget(self, client: ClientId) -> None:
        del self._groups_of[client]
        clients = self._clients_at[client.daemon]
        del clients[client]
        if not clients:
            del self._clients_at[client.daemon]

    def _untell(self, group: Group, client: ClientId) -> None:
        if client in group.local:
            group.local.remove(client)
            group._told = None
            self._unions.clear()
