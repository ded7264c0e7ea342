"""Slow readers: what becomes of a client that does not take what it is told.

At half of its bound a reader is warned. At the bound the policy says what happens, that of the reader or else of the
group whose message came: `disconnect` ends the session with a reason; `block` holds sends to the groups that the reader
is in, so that their senders run out of credit: here at once, at other daemons when they hear of it. What is under way
until then still comes, so at twice the bound a blocked reader is disconnected too.
"""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.evs.sessions.backlog import Memory
from isotone.evs.sessions.messages import SlowTold
from isotone.evs.sessions.notices import SessionCounters
from isotone.evs.sessions.server_session import ServerSession
from isotone.evs.sessions.settings import ServerSettings, SlowPolicy


class SlowReaders:
    """Judges the buffers of a daemon's sessions."""

    def __init__(self, settings: ServerSettings, memory: Memory, counters: SessionCounters) -> None:
        self.blocking: dict[ServerSession, None] = {}  # in the order in which they began to block
        self.calm_bytes = min(settings.buffer_bytes_max // 2, settings.resume_bytes_max)
        self._settings = settings
        self._memory = memory
        self._counters = counters

    def judge(self, session: ServerSession, indication: b4.Indication | None) -> str:
        """After more was put into a buffer: why the session has to end, or nothing."""
        held, settings = session.backlog.held_bytes, self._settings
        if session.stream is None:
            return self.judge_parked(held)
        bound = settings.buffer_bytes_max
        if session.backlog.is_single:
            return ""
        if held > bound // 2 and not session.warned:
            session.warned = True
            self._counters.warnings += 1
            session.tell(SlowTold(held, bound))
        if held <= bound:
            return ""
        if self._policy(session.client.name, indication) is SlowPolicy.DISCONNECT:
            return f"{held} bytes were not read; the bound is {bound}"
        if held > settings.blocked_bytes_max:
            return f"{held} bytes were not read while senders were blocked; the bound is {settings.blocked_bytes_max}"
        if not session.blocks:
            session.blocks = True
            self.blocking[session] = None
            self._counters.blocked += 1
        return ""

    def judge_parked(self, held: int) -> str:
        """Without a stream a session blocks nobody, and has a bound of its own: why it has to end, or nothing."""
        bound = self._settings.resume_bytes_max
        return f"{held} bytes were missed; no more than {bound} are kept" if held > bound else ""

    def relieve(self, session: ServerSession) -> bool:
        """The client acknowledged something; whether senders may go on."""
        held, bound = session.backlog.held_bytes, self._settings.buffer_bytes_max
        if held < bound // 4:
            session.warned = False
        return session.blocks and held <= bound // 2 and self.release(session)

    def release(self, session: ServerSession) -> bool:
        """It blocks nobody any more; whether it did."""
        blocked, session.blocks = session.blocks, False
        self.blocking.pop(session, None)
        return blocked

    @property
    def is_exhausted(self) -> bool:
        """Whether all buffers together hold too much."""
        return self._memory.held_bytes > self._settings.buffers_bytes_max

    def _policy(self, reader: str, indication: b4.Indication | None) -> SlowPolicy:
        settings = self._settings
        if settings.client_policies and reader in settings.client_policies:
            return settings.client_policies[reader]
        if isinstance(indication, b4.Message) and settings.policies:
            named = [settings.policies[group] for group in indication.bundle.groups if group in settings.policies]
            if named:
                return SlowPolicy.DISCONNECT if SlowPolicy.DISCONNECT in named else SlowPolicy.BLOCK
        return settings.policy
