"""Handing requests on to the group service: while it has room, in turn, and not to the groups of a blocked reader.

A session's requests keep their order: one that is held holds those behind it. Joins, leaves and partings need no room.
Room is fair by session: when others filled it, a session of which nothing waits below may still hand on one bundle, out
of a reserve. So who sends a little does not wait for those who send more than goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Protocol, TypeVar

from isotone.core import boundary as b4
from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.contract import Action
from isotone.core.ids import ClientId
from isotone.evs.sessions.credit import Pool
from isotone.evs.sessions.messages import RefusedTold, shortened
from isotone.evs.sessions.notices import SessionCounters
from isotone.evs.sessions.server_session import ServerSession, State

RESERVE_BYTES = 16 * 1024 * 1024  # so far beyond the room, who has nothing waiting may hand on: a large message fits
RESERVED_BYTES_MAX = 2 * BUNDLE_BYTES_MAX  # such a request is a bundle, and no large message
READERS_TOLD_MAX = 16  # so many slow readers are named to a sender that is held
RESERVED_TURNS = 16  # so many sessions are looked at when some of the reserve may have become free

Permit = Callable[[str, b4.Request], str]
"""From a principal and what it asks to why not; empty if it may."""


class Asking(Protocol):
    """A session with requests that wait."""

    @property
    def inbox(self) -> Sized: ...


AnySession = TypeVar("AnySession", bound=Asking)


def in_turn(
    waiting: dict[AnySession, None],
    passes: Callable[[AnySession], bool],
    hand_on: Callable[[AnySession], None],
    turns_max: int | None = None,
) -> dict[AnySession, None]:
    """Hand on what may go, one request of each session in turn; the sessions of which something went.

    It ends when nothing more can go, or so many in a row could not.
    """
    moved: dict[AnySession, None] = {}
    idle = 0
    while waiting and idle < len(waiting) and idle != turns_max:
        session = next(iter(waiting))
        del waiting[session]
        idle += 1
        if session.inbox and passes(session):
            hand_on(session)
            moved[session] = None
            idle = 0
        if session.inbox:
            waiting[session] = None
    return moved


def permit_all(principal: str, request: b4.Request) -> str:
    """Anybody may do anything."""
    del principal, request
    return ""


class Handing:
    """The inboxes of all sessions, seen from the group service."""

    def __init__(self, pool: Pool, counters: SessionCounters, permit: Permit) -> None:
        self.room: int | None = None  # bytes, below 0 when more waits than should; None before anybody said: no bound
        self.has_waiting: Callable[[ClientId], bool] = lambda client: True  # whether something of it waits below
        self.blocked: frozenset[str] = frozenset()  # groups of slow readers here; only looked up
        self.held: frozenset[str] = frozenset()  # groups of slow readers of others; only looked up
        self._blocking: tuple[tuple[frozenset[str], ClientId], ...] = ()  # slow readers here, and what they block
        self._holding: tuple[ClientId, ...] = ()  # those of others
        self._pool = pool
        self._counters = counters
        self._permit = permit
        self._reserved: set[ClientId] = set()  # who took of the reserve since it was last said what waits
        self._held: dict[ServerSession, None] = {}  # sessions whose next request had to wait, in their turn

    def note_room(self, room: int) -> None:
        """There is so much room below; what was handed on counts in it, and is known to `has_waiting`."""
        self.room = room
        self._reserved.clear()

    def block(self, readers: Iterable[ServerSession]) -> None:
        """Nothing goes to the groups of these readers for now."""
        self._blocking = tuple((frozenset((*each.groups, each.client.private_group)), each.client) for each in readers)
        self.blocked = frozenset[str]().union(*(groups for groups, _ in self._blocking))

    def hold(self, groups: Iterable[str], readers: Sequence[ClientId]) -> None:
        """Nothing goes to these groups for now, since these readers of others are slow."""
        self.held, self._holding = frozenset(groups), tuple(readers)

    @property
    def waiting(self) -> tuple[ServerSession, ...]:
        """Sessions whose next request had to wait, if it is known for whom; none while nobody is slow."""
        return tuple(self._held) if self.blocked or self.held else ()

    def readers_for(self, session: ServerSession) -> tuple[ClientId, ...]:
        """For whom the next request of this session is held: slow readers, nobody if it is not held for any."""
        request = session.inbox[0].request if session.inbox else None
        if not isinstance(request, b4.Send):
            return ()
        groups = request.bundle.groups
        here = [client for blocked, client in self._blocking if not blocked.isdisjoint(groups)]
        elsewhere = () if self.held.isdisjoint(groups) else self._holding
        return (*here, *elsewhere)[:READERS_TOLD_MAX]

    @property
    def has_held(self) -> bool:
        """Whether any request had to wait."""
        return bool(self._held)

    def forget(self, session: ServerSession) -> None:
        """The session is over."""
        self._held.pop(session, None)

    def pump(self, session: ServerSession, at: int, out: list[Action]) -> bool:
        """Hand on what may go of one session; whether anything went."""
        went = self._expire(session, at)
        while session.inbox and self._passes(session):
            self._hand_on(session, out)
            went = True
        if session.inbox:
            self._held.setdefault(session)
        return went

    def pump_all(self, at: int, out: list[Action], turns_max: int | None = None) -> list[ServerSession]:
        """Hand on what may go, one request of each session in turn; the sessions of which something went.

        With ``turns_max`` only so many are looked at in vain, and what is out of time waits for its timer.
        """
        moved: dict[ServerSession, None] = {}
        for session in self._held if turns_max is None else ():
            if self._expire(session, at):
                moved[session] = None
        moved |= in_turn(self._held, self._passes, lambda session: self._hand_on(session, out), turns_max)
        return list(moved)

    def _expire(self, session: ServerSession, at: int) -> bool:
        before = session.dropped_messages
        self._pool.free += session.expire(at)
        self._counters.dropped_messages += session.dropped_messages - before
        return session.dropped_messages != before

    def _passes(self, session: ServerSession) -> bool:
        if session.state is State.CONNECTING:
            return False
        request = session.inbox[0].request
        if not isinstance(request, b4.Send):
            return True
        if self.room is not None and self.room <= 0 and not self._may_take_reserve(session):
            return False
        if not self.blocked and not self.held:
            return True
        return self.blocked.isdisjoint(request.bundle.groups) and self.held.isdisjoint(request.bundle.groups)

    def _may_take_reserve(self, session: ServerSession) -> bool:
        assert self.room is not None
        if self.room <= -RESERVE_BYTES or session.inbox[0].cost > RESERVED_BYTES_MAX:
            return False
        return session.client not in self._reserved and not self.has_waiting(session.client)

    def _hand_on(self, session: ServerSession, out: list[Action]) -> None:
        """One request leaves the inbox, to the service or, when it is not permitted, back to its client."""
        asked = session.inbox[0].request
        reason = "" if isinstance(asked, b4.Disconnect) else self._permit(session.principal, asked)
        if reason and isinstance(asked, b4.Send):
            self._pool.free += session.drop(shortened(reason))
            self._counters.dropped_messages += asked.bundle.count
            return
        cost = session.inbox[0].cost
        request, back = session.hand_on()
        self._pool.free += back
        if reason:
            refused = b4.refusal(request, shortened(reason))
            session.tell(RefusedTold(refused.request, refused.reason, refused.group))
            return
        self._counters.handed_on += 1
        if isinstance(request, b4.Send) and self.room is not None:
            if self.room <= 0:
                self._reserved.add(session.client)
            self.room -= cost
        out.append(b4.Ask(session.client, request))
