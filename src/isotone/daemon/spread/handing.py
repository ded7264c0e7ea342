"""Handing requests of Spread's clients on to the group service: while it has room, in turn, and if they are permitted.

A session's requests keep their order: one that waits holds those behind it. Only the end of a session needs no room. A
join of a group that the client is just leaving waits until it has left: the boundary wants it so.

Implements: what requests lead to in Spread's client protocol. Deviations: D-names a join of a name that no group can
have is rejected, where Spread's daemon makes a group that nobody can reach.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core import boundary as b4
from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.core.names import check_group_name, is_private_group
from isotone.daemon.spread.actions import Remark, ResumeReading
from isotone.daemon.spread.constants import JOIN, NAME_MAX, SELF_DISCARD
from isotone.daemon.spread.frames import slot_names
from isotone.daemon.spread.session import Asked, SpreadSession, State
from isotone.daemon.spread.settings import GatewaySettings, SpreadCounters
from isotone.evs.sessions.handing import Permit, in_turn

Told = Callable[[SpreadSession, bytes, list[Action]], None]
"""Writes a frame to one client."""


class Handing:
    """The inboxes of all sessions, seen from the group service."""

    def __init__(self, settings: GatewaySettings, counters: SpreadCounters, permit: Permit, tell: Told) -> None:
        self.room: int | None = None  # bytes; None before anybody said: no bound
        self.blocked: frozenset[str] = frozenset()  # groups of slow readers here; only looked up
        self.held: frozenset[str] = frozenset()  # groups of slow readers of others; only looked up
        self._settings = settings
        self._counters = counters
        self._permit = permit
        self._tell = tell
        self._waiting: dict[SpreadSession, None] = {}  # sessions whose next request had to wait, in their turn

    def forget(self, session: SpreadSession) -> None:
        """The session is over."""
        self._waiting.pop(session, None)

    def pump(self, session: SpreadSession, out: list[Action]) -> None:
        """Hand on what may go of one session."""
        while session.inbox and self._passes(session):
            self._hand_on(session, out)
        if session.inbox:
            self._waiting.setdefault(session)
        self._resume_reading(session, out)

    def pump_all(self, out: list[Action]) -> list[SpreadSession]:
        """Hand on what may go, one request of each session in turn; the sessions of which something went."""
        moved = in_turn(self._waiting, self._passes, lambda session: self._hand_on(session, out))
        for session in moved:
            self._resume_reading(session, out)
        return list(moved)

    def _resume_reading(self, session: SpreadSession, out: list[Action]) -> None:
        if session.is_paused and session.stream is not None:
            if session.inbox_bytes <= self._settings.inbox_bytes_max // 2:
                session.is_paused = False
                out.append(ResumeReading(session.stream))

    def _passes(self, session: SpreadSession) -> bool:
        if session.state is State.CONNECTING or (self.room is not None and self.room <= 0):
            return False
        asked = session.inbox[0]
        if asked.groups:
            return self.blocked.isdisjoint(asked.groups) and self.held.isdisjoint(asked.groups)
        return asked.frames[0].head.is_data or _first_name(asked) not in session.leaving

    def _hand_on(self, session: SpreadSession, out: list[Action]) -> None:
        """One request leaves the inbox, to the service or, when it is not permitted, back to its client."""
        asked = session.inbox.popleft()
        session.inbox_bytes -= asked.held_bytes
        head = asked.frames[0].head
        if head.is_data:
            self._send(session, asked, out)
        elif not asked.frames[0].slots:
            return  # a join of nothing
        elif head.type & JOIN:
            self._join(session, asked, out)
        else:
            self._leave(session, asked, out)

    def _send(self, session: SpreadSession, asked: Asked, out: list[Action]) -> None:
        if not asked.groups:
            self._counters.unaddressed += len(asked.frames)
            return
        request = b4.Send(asked.bundle(session.client, session.sequence + 1))
        if reason := self._permit(session.principal, request):
            self.reject(session, asked, reason, out)
            return
        session.sequence += len(asked.frames)
        self._counters.messages_sent += len(asked.frames)
        if self.room is not None:
            self.room -= asked.cost
        self._ask(session, request, out)

    def _join(self, session: SpreadSession, asked: Asked, out: list[Action]) -> None:
        group = _first_name(asked)
        if group in session.wanted:
            return
        request = b4.Join(group)
        reason = self._why_not(session, group) or self._permit(session.principal, request)
        if reason:
            self.reject(session, asked, reason, out)
            return
        session.wanted[group] = asked
        self._ask(session, request, out)

    def _why_not(self, session: SpreadSession, group: str) -> str:
        if len(group) > NAME_MAX:
            return f"a group of Spread's clients has a name of at most {NAME_MAX} characters"
        try:
            check_group_name(group)
        except LocalProtocolError as error:
            return str(error)
        if is_private_group(group):
            return "a private group has its client alone"
        if len(session.wanted) >= self._settings.groups_max:
            return f"a session is in at most {self._settings.groups_max} groups"
        return ""

    def _leave(self, session: SpreadSession, asked: Asked, out: list[Action]) -> None:
        group = _first_name(asked)
        if group not in session.wanted:
            return
        request = b4.Leave(group)
        if reason := self._permit(session.principal, request):
            self.reject(session, asked, reason, out)
            return
        del session.wanted[group]
        session.leaving.add(group)
        self._ask(session, request, out)

    def _ask(self, session: SpreadSession, request: b4.Request, out: list[Action]) -> None:
        self._counters.handed_on += 1
        out.append(b4.Ask(session.client, request))

    def reject(self, session: SpreadSession, asked: Asked, reason: str, out: list[Action]) -> None:
        """Back to the client; a message that it did not want to hear itself is not told."""
        out.append(Remark(session.peer, "rejected", reason))  # the frame has no place for it
        self._counters.rejected += len(asked.frames)
        if session.state is State.OPEN and not asked.frames[0].head.type & SELF_DISCARD:
            self._tell(session, b"".join(asked.rejections(session.client.private_group)), out)


def _first_name(asked: Asked) -> str:
    names = slot_names(asked.frames[0].slots[:32])
    return names[0] if names else ""
