"""Views of groups as Spread's clients are told them: regular, transitional and self-leave frames.

A group id has three words. The first two are a digest of the daemon view (coordinator and epoch, and the next one while
in transition to it) and of who stamped the change; the third is the Lamport time of the change, whose upper half is in
the digest. So every daemon gives the same id to the same view, and no id returns, not even when a group dies and is
made anew in the same daemon view.

Implements: Spread's client protocol, membership messages.
Deviations: D-ids those ids, because Spread's counter begins anew with the group; D-order members are ordered by the
names of their daemons, because no file has them all; D-three clients older than 4.0 get the body that they can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from isotone.core.ids import NO_DAEMON_VIEW, ClientId, DaemonId, GroupViewId
from isotone.core.views import Cause, GroupView
from isotone.daemon.spread.constants import (
    CAUSED_BY_DISCONNECT,
    CAUSED_BY_JOIN,
    CAUSED_BY_LEAVE,
    CAUSED_BY_NETWORK,
    REGULAR_MEMBERSHIP,
    SLOT_BYTES,
    TRANSITION,
)
from isotone.daemon.spread.frames import head_of, slot

Members = Sequence[ClientId]

CAUSES = {
    Cause.JOIN: CAUSED_BY_JOIN,
    Cause.LEAVE: CAUSED_BY_LEAVE,
    Cause.DISCONNECT: CAUSED_BY_DISCONNECT,
    Cause.NETWORK: CAUSED_BY_NETWORK,
}


def group_id(id: GroupViewId) -> bytes:
    """The twelve bytes by which clients know a view."""
    lamport = id.stamp.lamport
    text = f"{id.daemon_view} {id.next_daemon_view} {id.stamp.daemon} {lamport >> 32}"
    return blake2b(text.encode(), digest_size=8).digest() + (lamport & 0xFFFFFFFF).to_bytes(4, "little")


def self_leave_frame(group: str) -> bytes:
    """To who left."""
    return head_of(CAUSED_BY_LEAVE, group, 0, 0)


def transitional_frame(group: str, id: GroupViewId) -> bytes:
    """The view with this id ends."""
    body = group_id(id)
    return head_of(TRANSITION, group, 0, len(body)) + body


class RegularView:
    """A view, for all its receivers: they differ in the set that they came with, and in what they can read."""

    def __init__(self, view: GroupView, *, cause: Cause, sets: Sequence[Members]) -> None:
        self._view = view
        self._type = REGULAR_MEMBERSHIP | CAUSES[cause]
        self._sets = [_set_bytes(each) for each in sets]
        self._place = {client: place for place, each in enumerate(sets) for client in each}
        self._is_network = cause is Cause.NETWORK

    def place_of(self, receiver: ClientId, *, with_sets: bool) -> int:
        """Which of the frames the receiver gets: by its set, below zero for clients that know one set only."""
        place = self._place.get(receiver, 0) if self._is_network else 0
        return place if with_sets else ~place

    def frame(self, place: int) -> bytes:
        """The frame of this place."""
        view, sets = self._view, self._sets
        parts = [group_id(view.id)]
        if place >= 0:
            offset = sum(map(len, sets[:place]))
            parts += [len(sets).to_bytes(4, "little"), offset.to_bytes(4, "little"), *sets]
        else:
            parts.append(sets[~place])
        body = b"".join(parts)
        members = b"".join([slot(member.private_group) for member in view.members])
        return head_of(self._type, view.group, len(members) // SLOT_BYTES, len(body)) + members + body


class Transitions:
    """Which groups were signalled, and whose members are lost with their daemons until the next daemon view."""

    def __init__(self) -> None:
        self._lost: dict[str, frozenset[DaemonId]] = {}  # by group; only looked up

    def on_signal(self, group: str) -> None:
        """The group was signalled."""
        self._lost.setdefault(group, frozenset())

    def forget(self, group: str) -> None:
        """Nobody here is in the group any more."""
        self._lost.pop(group, None)

    def regular(self, view: GroupView) -> RegularView:
        """The view as it is told: in a group that was signalled before, changes look as made by the network."""
        if view.id.next_daemon_view == NO_DAEMON_VIEW:
            self.forget(view.group)
        if view.cause is Cause.NETWORK:
            return RegularView(view, cause=view.cause, sets=_complete(view.members, view.together))
        subject = view.subject
        assert subject is not None, "somebody joined, left or was disconnected"
        if view.group not in self._lost:
            return RegularView(view, cause=view.cause, sets=((subject,),))
        return RegularView(view, cause=Cause.NETWORK, sets=self._sets_in_transition(view, subject))

    def _sets_in_transition(self, view: GroupView, subject: ClientId) -> list[Members]:
        """Who stays, each lost daemon's members, the joiner."""
        if view.transitional != (subject,):  # else it is what the joiner itself is told; the others were told before
            staying = frozenset(view.transitional)
            lost = (each.daemon for each in view.members if each not in staying and each != subject)
            self._lost[view.group] = frozenset(lost)
        gone = self._lost[view.group]
        others = [each for each in view.members if each != subject]
        sets = _complete(others, [[each for each in others if each.daemon not in gone]])
        return [*sets, [subject]] if view.cause is Cause.JOIN else sets


def _complete(members: Iterable[ClientId], sets: Sequence[Members]) -> list[Members]:
    """The sets that are not empty; who is in none stands with the others of its daemon."""
    known = {client for each in sets for client in each}
    rest: dict[DaemonId, list[ClientId]] = {}
    for client in members:
        if client not in known:
            rest.setdefault(client.daemon, []).append(client)
    return [each for each in (*sets, *rest.values()) if each]


def _set_bytes(members: Members) -> bytes:
    return len(members).to_bytes(4, "little") + b"".join([slot(each.private_group) for each in members])
