"""The lives of a daemon's sessions: begin, lose a stream and go on, hand on, write, end.

States: connecting → open → over, when the group service is done with it, or ending, when the daemon is; see
`server_session.State`. Without a stream a session is parked for a while.
"""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.contract import Action, CloseStream, SetTimer, TimerKey, WriteStream
from isotone.evs.sessions.admission import Admission
from isotone.evs.sessions.backlog import Memory
from isotone.evs.sessions.credit import Pool
from isotone.evs.sessions.entry import Newcomer
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.handing import Handing, Permit
from isotone.evs.sessions.messages import EndCode, Farewell, Hello, Resumed, Visit, Welcome, server_codec, shortened
from isotone.evs.sessions.notices import SessionCounters
from isotone.evs.sessions.requests import NEVER
from isotone.evs.sessions.server_session import ServerSession, State
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.sessions.slow import SlowReaders

DUE: TimerKey = ("sessions due",)


class SessionTable:
    """All sessions, by id and by stream."""

    def __init__(
        self, settings: ServerSettings, counters: SessionCounters, admission: Admission, permit: Permit
    ) -> None:
        self.streams: dict[int, ServerSession] = {}
        self.admission = admission
        self.memory = Memory()
        self.pool = Pool(settings.large_bytes_max)
        self.handing = Handing(self.pool, counters, permit)
        self.slow = SlowReaders(settings, self.memory, counters)
        self._released = False  # a reader ceased to block, and nobody looked yet who may go on
        self.due_at: int | None = None  # when the timer is armed for: never later than the first thing that is due
        self._settings = settings
        self._counters = counters

    # --- beginning and going on ------------------------------------------------------------------------------------

    def open(self, newcomer: Newcomer, hello: Hello, principal: str, at: int, out: list[Action]) -> None:
        """A session begins; the group service is asked."""
        assert newcomer.version is not None
        client = self.admission.next_id(hello.name)
        session = ServerSession(
            client,
            attempt=hello.attempt,
            resumes=not isinstance(hello, Visit),
            principal=principal,
            version=newcomer.version,
            settings=self._settings,
            memory=self.memory,
            window=self._window(),
        )
        self.admission.enter(session)
        self._attach(session, newcomer.stream, at)
        out.append(b4.Ask(client, b4.Connect()))

    def _window(self) -> int:
        """Of one more session."""
        settings, sessions = self._settings, self.admission.sessions.values()
        return settings.window_of_one_more(sum(each.credit.window > settings.window_bytes for each in sessions))

    def resume(self, session: ServerSession, stream: int, at: int, out: list[Action]) -> None:
        """A session goes on, on another stream."""
        if session.stream is not None:  # the client found its stream broken before we did
            del self.streams[session.stream]
            out.append(CloseStream(session.stream))
        self._counters.resumed += 1
        self._attach(session, stream, at)
        session.prompt.append(control_frame(server_codec.encode(Resumed(*session.knows()))))
        self.relieve(session)
        self.flush(session, out)

    def _attach(self, session: ServerSession, stream: int, at: int) -> None:
        self.streams[stream] = session
        session.attach(stream, at)

    def welcome(self, session: ServerSession) -> None:
        """The group service knows the session."""
        session.state, session.is_welcome = State.OPEN, True
        self._counters.opened += 1
        _, credit = session.knows()
        settings = self._settings
        welcome = Welcome(
            client=str(session.client),
            key=self.admission.key_of(session.client),
            credit=credit,
            window=session.credit.window,
            message_bytes_max=settings.message_bytes_max,
            acknowledge_bytes=settings.acknowledge_bytes,
            heartbeat_us=settings.heartbeat_us,
            silence_us=settings.silence_us,
            resume_within_us=settings.resume_within_us if session.resumes else 0,
        )
        session.prompt.append(control_frame(server_codec.encode(welcome)))

    # --- slow readers ----------------------------------------------------------------------------------------------

    def judge(self, session: ServerSession, indication: b4.Indication | None, at: int, out: list[Action]) -> None:
        """More was put into a buffer, with this indication or by ourselves."""
        blocked = session.blocks
        reason = self.slow.judge(session, indication)
        if reason:
            code = EndCode.SLOW if session.stream is not None else EndCode.MISSED
            self.end(session, code, reason, at, out)
        elif session.blocks and not blocked:
            session.blocks_since = at
            self.handing.block(self.slow.blocking)

    def end_fattest(self, at: int, out: list[Action]) -> None:
        """All buffers together hold too much: the one who holds most has to go."""
        fattest = max(self.admission.sessions.values(), key=lambda each: (each.backlog.held_bytes, each.client))
        held = fattest.backlog.held_bytes
        self.end(fattest, EndCode.SLOW, f"{held} bytes were not read and the daemon has no more room", at, out)

    def relieve(self, session: ServerSession) -> None:
        """The client acknowledged something."""
        self._released |= self.slow.relieve(session)

    def settle(self, at: int, out: list[Action]) -> None:
        """After every event: those who were held for a reader, or for credit, may go on."""
        while self._released:
            self._released = False
            self.handing.block(self.slow.blocking)
            self.pump_all(at, out)
        if self.pool.serve():
            for session in list(self.streams.values()):
                self.flush(session, out)

    # --- requests --------------------------------------------------------------------------------------------------

    def pump(self, session: ServerSession, at: int, out: list[Action]) -> None:
        """Hand on what came of one session."""
        self.handing.pump(session, at, out)
        session.wait_for(self.handing.readers_for(session))
        self._after_handing(session, at, out)

    def pump_all(self, at: int, out: list[Action], turns_max: int | None = None) -> None:
        """Hand on what may go of all, or of so many that can go in turn."""
        for session in self.handing.pump_all(at, out, turns_max):
            session.wait_for(self.handing.readers_for(session))
            self._after_handing(session, at, out)
            self.flush(session, out)
        for session in self.handing.waiting if turns_max is None else ():
            if session.wait_for(self.handing.readers_for(session)):
                self.flush(session, out)

    def _after_handing(self, session: ServerSession, at: int, out: list[Action]) -> None:
        if session.first_expiry < NEVER and session.inbox:
            self.due(session.first_expiry, at, out)
        if session.backlog.held_bytes > self.slow.calm_bytes and session.state is State.OPEN:
            self.judge(session, None, at, out)
            if session.client not in self.admission.sessions:
                return  # it was ended for being slow, and what was left was handed on there
        if session.inbox or session.state is State.OVER:
            return
        if session.parting:  # its own Disconnect was the last that was handed on
            session.backlog.clear()
            self.enter_over(session, EndCode.ASKED, "asked for")
        elif session.state is State.ENDING:
            out.append(b4.Ask(session.client, b4.Disconnect()))
            self.admission.remove(session)

    # --- the end ---------------------------------------------------------------------------------------------------

    def park(self, session: ServerSession, reason: str, at: int, out: list[Action]) -> None:
        """The stream is gone; the session may last."""
        session.detach(at + self._settings.resume_within_us)
        self._released |= self.slow.release(session)
        missed = self.slow.judge_parked(session.backlog.held_bytes)
        if session.state is State.CONNECTING or missed or not session.resumes:
            self.end(session, EndCode.MISSED if missed else EndCode.SILENT, missed or reason, at, out)
        else:
            self.due(session.parked_until, at, out)

    def end(self, session: ServerSession, code: EndCode, reason: str, at: int, out: list[Action]) -> None:
        """End a session at once, without what it was not told yet. What was taken from it is still handed on."""
        farewell = Farewell(code, shortened(reason))
        self._let_go(session, farewell)
        session.backlog.clear()
        session.parked_until = NEVER
        if session.stream is not None:
            last = [session.grant()] if session.owes_grant else []
            out.append(WriteStream(session.stream, [*last, control_frame(server_codec.encode(farewell))]))
            self.close(session, out)
        if session.state is State.OVER:
            self.admission.remove(session)
            return
        session.state = State.ENDING
        self.pump(session, at, out)

    def enter_over(self, session: ServerSession, code: EndCode, reason: str) -> None:
        """The group service is done with it: say farewell behind all that it was told."""
        farewell = Farewell(code, shortened(reason))
        self._let_go(session, farewell)
        session.state, session.farewell = State.OVER, farewell
        session.inbox.clear()
        self.admission.free_name(session)
        if session.stream is None and session.backlog.is_written:
            self.admission.remove(session)

    def _let_go(self, session: ServerSession, farewell: Farewell) -> None:
        """It holds nobody any more, neither senders nor those who wait for credit."""
        if session.state is not State.OVER:
            self._counters.ended[farewell.code] += 1
            self.admission.remember(session.client, farewell)
        self.handing.forget(session)
        self.pool.leave(session.credit)
        self._released |= self.slow.release(session)

    def close(self, session: ServerSession, out: list[Action]) -> None:
        """Close its stream."""
        assert session.stream is not None
        del self.streams[session.stream]
        out.append(CloseStream(session.stream))
        session.stream = None

    # --- writing ---------------------------------------------------------------------------------------------------

    def flush(self, session: ServerSession, out: list[Action]) -> None:
        """Write what waits, unless a write is under way."""
        if session.busy or session.stream is None:
            return
        parts = session.write()
        if parts:
            session.busy = True
            self._counters.written += 1
            self._counters.bytes_written += sum(map(len, parts))
            out.append(WriteStream(session.stream, parts))
        if session.farewell is not None and session.backlog.is_written:
            self.close(session, out)
            self.admission.remove(session)

    # --- time ------------------------------------------------------------------------------------------------------

    def due(self, when: int, at: int, out: list[Action]) -> None:
        """Look again then; an early look is harmless."""
        if self.due_at is None or when < self.due_at:
            self.due_at = when
            out.append(SetTimer(DUE, max(0, when - at)))
