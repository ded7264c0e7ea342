"""The sessions of Spread's clients at one daemon, from the end of the handshake to the end of all they asked.

A session ends once, whatever the reason: its client hears nothing more and reads the end of the stream; what it asked
before is still handed on, then it disconnects. Ends that are decided while others are told something happen behind it.

Implements: Spread's client protocol, the lives of connections. Deviations: every end has a reason, in log and counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from isotone.core import boundary as b4
from isotone.core.contract import Action, CloseStream, WriteStream
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId
from isotone.daemon.spread.actions import PauseReading, Remark
from isotone.daemon.spread.constants import Code
from isotone.daemon.spread.handing import Handing
from isotone.daemon.spread.memberships import Transitions
from isotone.daemon.spread.session import Parcel, SpreadSession, State
from isotone.daemon.spread.settings import HANDSHAKE_BYTES_MAX, GatewaySettings, SpreadCounters
from isotone.daemon.spread.slow import SlowReaders
from isotone.evs.sessions.backlog import Memory
from isotone.evs.sessions.handing import Permit


class SessionTable:
    """All sessions, and the rules that concern several of them."""

    def __init__(self, settings: GatewaySettings, counters: SpreadCounters, permit: Permit) -> None:
        self.sessions: dict[ClientId, SpreadSession] = {}
        self.streams: dict[int, SpreadSession] = {}
        self.memory = Memory()
        self.slow = SlowReaders(settings, self.memory, counters)
        self.handing = Handing(settings, counters, permit, self.tell)
        self.transitions = Transitions()
        self.on_freed: Callable[[str], None] = lambda name: None  # a private name may be used again
        self._settings = settings
        self._counters = counters
        self._members: dict[str, int] = {}  # sessions that were told a view of the group
        self._condemned: dict[SpreadSession, tuple[str, str]] = {}  # to be ended behind the event, with code and reason

    # --- beginning -------------------------------------------------------------------------------------------------

    def open(self, session: SpreadSession, early: bytes, out: list[Action]) -> None:
        """The handshake is done; the group service has the last word."""
        assert session.stream is not None
        session.early = early
        self.sessions[session.client] = self.streams[session.stream] = session
        out.append(b4.Ask(session.client, b4.Connect()))

    def welcome(self, session: SpreadSession, out: list[Action]) -> None:
        """The session is open; the client may have written frames already."""
        session.state = State.OPEN
        self._counters.opened += 1
        if session.stream is None:
            return
        session.busy = True
        out.append(WriteStream(session.stream, [session.acceptance(self._settings.version)]))
        early, session.early = session.early, b""
        if early:
            self.read(session, early, out)

    def refuse(self, session: SpreadSession, reason: str, out: list[Action]) -> None:
        """The group service does not want it; only a name that is in use can be the reason."""
        self._counters.turned_away[Code.NOT_UNIQUE.name.lower()] += 1
        out.append(Remark(session.peer, "not_unique", reason))
        if session.stream is not None:
            out.append(WriteStream(session.stream, [Code.NOT_UNIQUE.byte]))
        self._forget(session)
        self._detach(session, out)

    # --- requests --------------------------------------------------------------------------------------------------

    def read(self, session: SpreadSession, data: bytes | memoryview, out: list[Action]) -> None:
        """Frames of a client; those before a wrong one count."""
        self._counters.bytes_received += len(data)
        if session.state is State.CONNECTING:
            self._read_early(session, data, out)
            return
        try:
            count, parts = session.read(data)
        except RemoteProtocolError as error:
            self._counters.malformed[str(error)] += 1
            self.end(session, "protocol", str(error), out)
            return
        self._counters.frames_received += count
        if parts:
            self.end(session, "asked", "", out)
            return
        self.handing.pump(session, out)
        if (
            session.inbox_bytes > self._settings.inbox_bytes_max
            and not session.is_paused
            and session.stream is not None
        ):
            session.is_paused = True
            self._counters.paused += 1
            out.append(PauseReading(session.stream))

    def _read_early(self, session: SpreadSession, data: bytes | memoryview, out: list[Action]) -> None:
        session.early += bytes(data)
        if len(session.early) > HANDSHAKE_BYTES_MAX:
            self.end(session, "protocol", "too many bytes before an answer", out)

    def pump_all(self, out: list[Action]) -> None:
        """There may be room."""
        for session in self.handing.pump_all(out):
            self._part_if_done(session, out)

    # --- telling ---------------------------------------------------------------------------------------------------

    def tell(self, session: SpreadSession, frame: bytes, out: list[Action]) -> None:
        """One client alone."""
        self.push(session, Parcel(frame), (), out)

    def push(self, session: SpreadSession, parcel: Parcel, groups: Iterable[str], out: list[Action]) -> None:
        """One more parcel, about these groups; a reader that is too slow ends behind the event."""
        session.outbox.push(parcel)
        if session.outbox.held_bytes > self.slow.calm_bytes:
            self._judge(session, groups)
        if not session.busy:
            self.flush(session, out)

    def _judge(self, session: SpreadSession, groups: Iterable[str]) -> None:
        was_blocking = session.blocks
        if reason := self.slow.judge(session, groups):
            self.condemn(session, "slow", reason)
        if session.blocks is not was_blocking:
            self.handing.blocked = self.slow.blocked_groups

    def flush(self, session: SpreadSession, out: list[Action]) -> None:
        """Write what waits, if nothing is under way."""
        if session.busy or session.stream is None:
            return
        data = session.outbox.write(self._settings.write_bytes_max)
        if data:
            session.busy = True
            self._counters.written += 1
            self._counters.bytes_written += sum(map(len, data))
            out.append(WriteStream(session.stream, data))

    def on_writable(self, session: SpreadSession, out: list[Action]) -> None:
        """The system below took what was written."""
        session.busy = False
        session.outbox.taken()
        if self.slow.relieve(session):
            self._unblock(out)
        self.flush(session, out)

    def _unblock(self, out: list[Action]) -> None:
        self.handing.blocked = self.slow.blocked_groups
        self.pump_all(out)

    # --- groups ----------------------------------------------------------------------------------------------------

    def note_view(self, session: SpreadSession, group: str) -> None:
        """The session is told a view of the group."""
        if session.wanted.get(group) is not None:
            session.wanted[group] = None
        if group in session.groups:
            return
        session.groups[group] = None
        self._members[group] = self._members.get(group, 0) + 1
        if session.blocks:
            self.handing.blocked = self.slow.blocked_groups

    def note_left(self, session: SpreadSession, group: str, out: list[Action]) -> None:
        """The session left the group; it may join again."""
        session.leaving.discard(group)
        self._leave(session, group)
        if session.blocks:
            self._unblock(out)
        self.handing.pump(session, out)
        self._part_if_done(session, out)

    def _leave(self, session: SpreadSession, group: str) -> None:
        if session.groups.pop(group, 0) == 0:
            return
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]
            self.transitions.forget(group)

    # --- ends ------------------------------------------------------------------------------------------------------

    def condemn(self, session: SpreadSession, code: str, reason: str) -> None:
        """The session ends behind the event."""
        self._condemned.setdefault(session, (code, reason))

    def settle(self, out: list[Action]) -> None:
        """Behind every event: ends that were decided, and those that memory demands."""
        while self._condemned or self.slow.is_exhausted:
            if not self._condemned:
                fattest = max(self.streams.values(), key=lambda each: each.outbox.held_bytes)
                self.condemn(
                    fattest, "memory", f"{fattest.outbox.held_bytes} bytes were not read; all buffers are full"
                )
            session, (code, reason) = next(iter(self._condemned.items()))
            del self._condemned[session]
            self.end(session, code, reason, out)

    def end(self, session: SpreadSession, code: str, reason: str, out: list[Action]) -> None:
        """The client is gone, or has to go; what it asked is still handed on."""
        if session.state is State.ENDING:
            return
        self._counters.ended[code] += 1
        if reason:
            out.append(Remark(session.peer, code, reason))
        session.state = State.ENDING
        self._detach(session, out)
        self.handing.pump(session, out)
        self._part_if_done(session, out)

    def _part_if_done(self, session: SpreadSession, out: list[Action]) -> None:
        if session.state is State.ENDING and not session.inbox and session.client in self.sessions:
            out.append(b4.Ask(session.client, b4.Disconnect()))
            self._forget(session)

    def on_refused(self, session: SpreadSession, refused: b4.Refused, out: list[Action]) -> None:
        """The group service is at a limit. A join is told; else these clients could not know, and end."""
        join = session.refused_join(refused.group) if refused.request == "join" else None
        if join is not None:
            self.handing.reject(session, join, refused.reason, out)
        else:
            self.end(session, "refused", f"{refused.request}: {refused.reason}", out)

    def lose(self, session: SpreadSession, reason: str, out: list[Action]) -> None:
        """The group service ended the session."""
        if session.state is not State.ENDING:
            self._counters.ended["service"] += 1
            out.append(Remark(session.peer, "service", reason))
        self._forget(session)
        self._detach(session, out)

    def _detach(self, session: SpreadSession, out: list[Action]) -> None:
        """No stream any more, and nothing is told."""
        if session.stream is not None:
            out.append(CloseStream(session.stream))
            self.streams.pop(session.stream, None)
            session.stream = None
        session.outbox.clear()
        self._condemned.pop(session, None)
        if self.slow.release(session):
            self._unblock(out)

    def _forget(self, session: SpreadSession) -> None:
        for group in list(session.groups):
            self._leave(session, group)
        session.state = State.ENDING
        session.inbox.clear()
        del self.sessions[session.client]
        self.handing.forget(session)
        self.on_freed(session.client.name)
