"""The groups as one daemon knows them: light-weight joins, leaves and kills, signals, and the merge of group states.

`Groups` is the group membership algorithm of [Spread 6.4] without its messages: the state of a group is a function of
the entries that were applied, in their order. Only connected local clients are told.

Implements: [Spread 6.4.4] to [Spread 6.4.7]. Deviations:
D-ids        view ids as in `isotone.core.ids`; the previous id is kept until the merge instead of overwritten;
D-new-group  a group that is created in transition and lost nobody gets a plain view, as any group that lost nobody;
D-signal     where the merge changes a group, the signal follows its view and does not also precede it: Figure 6.25,
             line 14, signals the old view too, and members who merged before the signal then break Property 2.8.2.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

import msgspec

from isotone.core.boundary import Indicate, SelfLeave, Transitional, View
from isotone.core.contract import Action
from isotone.core.ids import ClientId, DaemonId, GroupViewId
from isotone.core.views import Cause, GroupView

Together = frozenset[DaemonId]
_RECEIVERS_MAX = 4_096


class GroupSnapshot(msgspec.Struct, frozen=True, gc=False):
    """A group at the end of a daemon view: its last view id, who moved on, and whether it was signalled."""

    name: str
    id: GroupViewId
    members: tuple[ClientId, ...]
    signalled: bool


Snapshot = list[GroupSnapshot]


class MergedGroup(msgspec.Struct, frozen=True, gc=False):
    """A group after a merge. ``parts`` are the members by the index of the origin that they came from."""

    id: GroupViewId
    members: tuple[ClientId, ...]
    parts: dict[int, tuple[ClientId, ...]]
    changed: bool


class Group:
    """One group at one daemon."""

    __slots__ = ("absent", "id", "local", "members", "name", "signalled")

    def __init__(self, name: str, id: GroupViewId, members: Iterable[ClientId] = ()) -> None:
        self.name = name
        self.id = id
        self.members = list(members)  # sorted
        self.local: list[ClientId] = []  # those who are told: members here whose sessions are open; sorted
        self.absent: set[ClientId] = set()  # members on daemons that do not come along; never iterated
        self.signalled = False  # in the current view


class Groups:
    """All groups at one daemon, and its open sessions."""

    def __init__(self, daemon: DaemonId) -> None:
        self.daemon = daemon
        self.by_name: dict[str, Group] = {}
        self.open: dict[str, ClientId] = {}  # open sessions by private name
        self._receivers: dict[tuple[str, ...], tuple[ClientId, ...]] = {}

    # --- sessions ------------------------------------------------------------------------------------------------

    def connect(self, client: ClientId) -> None:
        """A session began."""
        self.open[client.name] = client
        self._receivers.clear()

    def disconnect(self, client: ClientId) -> None:
        """A session is over: the client hears no more, and stays a member until its kill is delivered."""
        del self.open[client.name]
        self._receivers.clear()
        for group in self.by_name.values():
            if client in group.local:
                group.local.remove(client)

    def receivers(self, names: tuple[str, ...]) -> tuple[ClientId, ...]:
        """The open local sessions that a bundle to these groups reaches, each once."""
        found = self._receivers.get(names)
        if found is None:
            if len(self._receivers) >= _RECEIVERS_MAX:
                self._receivers.clear()
            found = self._receivers[names] = self._find_receivers(names)
        return found

    def _find_receivers(self, names: tuple[str, ...]) -> tuple[ClientId, ...]:
        found: dict[ClientId, None] = {}
        for name in names:
            if name.startswith("#"):
                _, client_name, daemon_name = name.split("#")
                if daemon_name == self.daemon.name and client_name in self.open:
                    found[self.open[client_name]] = None
            elif name in self.by_name:
                found.update(dict.fromkeys(self.by_name[name].local))
        return tuple(sorted(found))

    # --- light-weight changes ------------------------------------------------------------------------------------

    def join(self, client: ClientId, name: str, id: GroupViewId, together: Together | None, out: list[Action]) -> None:
        """A join is delivered; ``together`` says who moves on, once the daemon's signal has passed."""
        group = self.by_name.get(name)
        if group is None:
            group = self.by_name[name] = Group(name, id)
        self._receivers.clear()
        group.id = id
        insort(group.members, client)
        if together is not None and client.daemon not in together:
            group.absent.add(client)
            group.signalled = True
        self._tell_join(group, client, out)
        if group.signalled and group.local:
            out.append(Indicate(tuple(group.local), Transitional(name, id)))

    def _tell_join(self, group: Group, client: ClientId, out: list[Action]) -> None:
        members = tuple(group.members)
        if group.local:
            stayed = tuple(each for each in members if each != client and each not in group.absent)
            view = GroupView(group.name, group.id, members, stayed, Cause.JOIN, client)
            out.append(Indicate(tuple(group.local), View(view)))
        if self.open.get(client.name) == client:
            insort(group.local, client)
            view = GroupView(group.name, group.id, members, (client,), Cause.JOIN, client)
            out.append(Indicate((client,), View(view)))

    def leave(self, client: ClientId, name: str, id: GroupViewId, cause: Cause, out: list[Action]) -> None:
        """A leave, or a kill's share in one group, is delivered. A group that was signalled gets no view now."""
        group = self.by_name.get(name)
        if group is None or not holds(group.members, client):
            return
        self._receivers.clear()
        group.members.remove(client)
        group.absent.discard(client)
        if client in group.local:
            group.local.remove(client)
            assert cause is Cause.LEAVE, "a killed session is closed"
            out.append(Indicate((client,), SelfLeave(name)))
        if not group.members:
            del self.by_name[name]
        elif not group.signalled:
            group.id = id
            if group.local:
                members = tuple(group.members)
                view = GroupView(name, id, members, members, cause, client)
                out.append(Indicate(tuple(group.local), View(view)))

    def kill(self, client: ClientId, id: GroupViewId, out: list[Action]) -> None:
        """A disconnect is delivered: the client leaves all its groups."""
        for name in list(self.by_name):
            self.leave(client, name, id, Cause.DISCONNECT, out)

    # --- daemon views --------------------------------------------------------------------------------------------

    def signal(self, together: Together, out: list[Action]) -> None:
        """The daemon's signal: groups that lose members are signalled, unless they were in this view already."""
        for group in self.by_name.values():
            group.absent.update([client for client in group.members if client.daemon not in together])
            if group.absent and not group.signalled:
                group.signalled = True
                if group.local:
                    out.append(Indicate(tuple(group.local), Transitional(group.name, group.id)))

    def close(self) -> Snapshot:
        """The end of a daemon view: who does not come along is gone. The state in which the daemon arrives."""
        for group in list(self.by_name.values()):
            if group.absent:
                group.members = [client for client in group.members if client not in group.absent]
                group.absent.clear()
            if not group.members:
                del self.by_name[group.name]
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """The groups as values, sorted."""
        found = sorted(self.by_name.values(), key=_name_of)
        return [GroupSnapshot(group.name, group.id, tuple(group.members), group.signalled) for group in found]

    def copy(self) -> Groups:
        """The same groups where nobody is told: to look ahead."""
        twin = Groups(self.daemon)
        for name, group in self.by_name.items():
            twin.by_name[name] = copied = Group(name, group.id, group.members)
            copied.absent.update(group.absent)
            copied.signalled = group.signalled
        return twin

    def merge(self, merged: dict[str, MergedGroup], origin: int, out: list[Action]) -> None:
        """The group states of a daemon view come together; groups that nothing happened to see nothing."""
        self._receivers.clear()
        for name, result in merged.items():
            group = self.by_name.get(name)
            if group is None:
                group = self.by_name[name] = Group(name, result.id)
            elif not result.changed:
                continue
            group.id = result.id
            group.members = list(result.members)
            group.signalled = False
            if group.local and result.changed:
                view = GroupView(
                    name,
                    result.id,
                    result.members,
                    result.parts[origin],
                    Cause.NETWORK,
                    None,
                    tuple(sorted(result.parts.values())),
                )
                out.append(Indicate(tuple(group.local), View(view)))


def merge_of(origins: list[Snapshot], concerns: list[dict[str, None]], id: GroupViewId) -> dict[str, MergedGroup]:
    """What becomes of the groups that the origins bring. No two origins bring a group under the same view id.

    A group of one origin changes also when clients of another were in it until shortly before: what they sent in their
    views of it arrives now, and must not arrive in an earlier view [Spread 2.9.1].
    """
    found: dict[str, list[tuple[int, GroupSnapshot]]] = {}
    for index, snapshot in enumerate(origins):
        for group in snapshot:
            found.setdefault(group.name, []).append((index, group))
    merged = {}
    for name in sorted(found):
        parts = found[name]
        assert len({group.id for _, group in parts}) == len(parts), f"{name}: one view, two histories"
        elsewhere = any(name in names for index, names in enumerate(concerns) if index != parts[0][0])
        changed = len(parts) > 1 or parts[0][1].signalled or elsewhere
        merged[name] = MergedGroup(
            id if changed else parts[0][1].id,
            tuple(sorted(client for _, group in parts for client in group.members)),
            {index: group.members for index, group in parts},
            changed,
        )
    return merged


def holds(members: list[ClientId], client: ClientId) -> bool:
    """Whether the sorted list has the client."""
    place = bisect_left(members, client)
    return place < len(members) and members[place] == client


_name_of: Callable[[Group], str] = lambda group: group.name  # noqa: E731
