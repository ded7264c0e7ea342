"""The sessions of a daemon's clients, each over a byte stream: at boundary B4 one automaton that plays all of them.

It returns `Ask` and takes `Indicated`, as any client automaton does, so that the shell, the stack and the trace need
not know that its clients live elsewhere. An indication is encoded once, whoever receives it. What a peer sends wrongly
ends its own session with a reason, and nothing else. See docs/protocols/session.md.

Implements: [Spread 3.2, 3.5], the connections of clients to their daemon. Deviations: Ds1 credits, and policies for who
reads slowly; Ds2 sessions outlive their streams. Both stand in docs/protocols/session.md with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core import boundary as b4
from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    Event,
    SetTimer,
    Started,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.evs.sessions.admission import Admission, Admit, admit_all
from isotone.evs.sessions.backlog import Parcel
from isotone.evs.sessions.entry import Newcomer, Newcomers
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.handing import RESERVED_TURNS, Permit, permit_all
from isotone.evs.sessions.indications import encode_indication
from isotone.evs.sessions.messages import EndCode, Farewell, Hello, Resume, server_codec, shortened
from isotone.evs.sessions.notices import GroupsHeld, RoomChanged, SessionCounters
from isotone.evs.sessions.requests import NEVER
from isotone.evs.sessions.server_session import ServerSession, State
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.sessions.table import DUE, SessionTable

ANSWERS = (b4.Connected, b4.Disconnected, b4.Refused)
SWEEP: TimerKey = ("sessions sweep",)
SWEEPS = 4  # in the time after which silence counts
UNUSED_SILENCES = 3  # so many times the same, credit for a large message may lie unused


class ServerSessions:
    """All sessions of one daemon. ``secret`` comes from the shell, and nobody else knows it."""

    periodic_timers = ("sessions sweep",)

    def __init__(
        self,
        daemon: DaemonId,
        *,
        secret: bytes,
        settings: ServerSettings | None = None,
        admit: Admit = admit_all,
        permit: Permit = permit_all,
    ) -> None:
        self.settings = settings or ServerSettings()
        self.counters = SessionCounters()
        admission = Admission(daemon, secret, admit, self.settings.sessions_max)
        self._table = SessionTable(self.settings, self.counters, admission, permit)
        self._newcomers = Newcomers(self.settings.handshakes_max, self.settings.handshake_us)
        self._sweep_at: int | None = None
        self._stopped = False

    # --- to look at ------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> int:
        """How many there are."""
        return len(self._table.admission.sessions)

    @property
    def all(self) -> tuple[ServerSession, ...]:
        """The sessions themselves, to look at."""
        return tuple(self._table.admission.sessions.values())

    @property
    def held_bytes(self) -> int:
        """Bytes kept for clients that did not acknowledge them; what several receive counts once."""
        return self._table.memory.held_bytes

    @property
    def blocking(self) -> tuple[ClientId, ...]:
        """Readers for which senders are held."""
        return tuple(session.client for session in self._table.slow.blocking)

    @property
    def is_blocking(self) -> bool:
        """Whether there are such readers."""
        return bool(self._table.slow.blocking)

    @property
    def has_held(self) -> bool:
        """Whether requests wait for room, or for a reader."""
        return self._table.handing.has_held

    def note_room(self, room: int) -> list[Action]:
        """As `RoomChanged`, while nobody waits for it."""
        self._table.handing.note_room(room)
        return []

    def ask_for_waiting(self, has_waiting: Callable[[ClientId], bool]) -> None:
        """How to know whether something of a client waits below: `Handing` keeps a reserve for whom nothing does."""
        self._table.handing.has_waiting = has_waiting

    def departed(self, count: int) -> list[tuple[ClientId, Farewell]]:
        """The last so many whose sessions ended and why, the latest first."""
        return self._table.admission.departed(count)

    def next_id(self, name: str) -> ClientId:
        """An id for a client that is played beside this automaton: all numbers of sessions come from here."""
        return self._table.admission.next_id(name)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event: of a stream, of boundary B4, `RoomChanged`, `GroupsHeld`, or one of the two timers."""
        out: list[Action] = []
        if self._stopped:
            return out
        if isinstance(event, StreamWritable):
            self._on_writable(event.stream, out)
            return out  # nobody was waiting for that but the stream itself
        match event:
            case b4.Indicated(receivers=receivers, indication=indication):
                self._on_indicated(receivers, indication, event.at, out)
            case StreamReceived(stream=stream, data=data):
                self._on_received(stream, memoryview(data), event.at, out)
            case StreamOpened(stream=stream, peer=peer, accepted=True):
                self._on_opened(stream, peer, event.at, out)
            case StreamClosed(stream=stream, reason=reason):
                self._on_closed(stream, reason, event.at, out)
            case RoomChanged(room=room):
                self._table.handing.note_room(room)  # said whenever something was stamped: without room look at a few
                self._table.pump_all(event.at, out, RESERVED_TURNS if room <= 0 else None)
            case GroupsHeld(groups=groups, readers=readers):
                self._table.handing.hold(groups, readers)
                self._table.pump_all(event.at, out)
            case TimerFired(key=key):
                self._on_timer(key, event.at, out)
            case Stopping():
                self._on_stopping(out)
            case Started():
                return out
        self._table.settle(event.at, out)
        if self._sweep_at is None and self._table.streams:
            self._arm_sweep(event.at, out)
        return out

    # --- streams ---------------------------------------------------------------------------------------------------

    def _on_opened(self, stream: int, peer: Address, at: int, out: list[Action]) -> None:
        self.counters.accepted += 1
        gone = self._newcomers.enter(stream, peer, at)
        if gone is not None:
            out.append(CloseStream(gone))
        self._table.due(at + self.settings.handshake_us, at, out)

    def _on_writable(self, stream: int, out: list[Action]) -> None:
        session = self._table.streams.get(stream)
        if session is not None:
            session.busy = False
            self._table.flush(session, out)

    def _on_received(self, stream: int, data: memoryview, at: int, out: list[Action]) -> None:
        newcomer = self._newcomers.get(stream)
        if newcomer is not None:
            data = self._on_newcomer(newcomer, data, at, out)
        session = self._table.streams.get(stream)
        if session is not None and data:
            self._on_data(session, data, at, out)

    def _on_newcomer(self, newcomer: Newcomer, data: memoryview, at: int, out: list[Action]) -> memoryview:
        """Read who it is; what is left of the data belongs to its session."""
        stream = newcomer.stream
        try:
            data, answer = newcomer.greet(data, self.settings.versions)
            if answer:
                out.append(WriteStream(stream, [answer]))
            if answer and newcomer.version is None:
                self._turn_away(stream, None, EndCode.VERSION, out)
                return data[:0]
            if not data:
                return data
            message, data = newcomer.read(data)
            if message is not None:
                self._on_first_message(newcomer, message, at, out)
        except RemoteProtocolError as error:
            self.counters.malformed += 1
            farewell = Farewell(EndCode.PROTOCOL, shortened(str(error)))
            self._turn_away(stream, farewell if newcomer.version else None, EndCode.PROTOCOL, out)
            return data[:0]
        return data

    def _turn_away(self, stream: int, farewell: Farewell | None, code: EndCode, out: list[Action]) -> None:
        self.counters.turned_away[code] += 1
        self._newcomers.remove(stream)
        if farewell is not None:
            out.append(WriteStream(stream, [control_frame(server_codec.encode(farewell))]))
        out.append(CloseStream(stream))

    def _on_data(self, session: ServerSession, data: memoryview, at: int, out: list[Action]) -> None:
        """Frames of a session; those before a wrong one count."""
        session.heard_at = at
        self.counters.bytes_received += len(data)
        taken, place = session.taken, 0
        try:
            while place < len(data):
                place = session.read(data, place, at)
                self.counters.frames_received += 1
        except RemoteProtocolError as error:
            self.counters.malformed += 1
            self._table.end(session, EndCode.PROTOCOL, str(error), at, out)
            return
        if session.credit.asked:
            self._table.pool.ask(session.credit)
        self._table.relieve(session)
        if session.taken != taken:
            self._table.pump(session, at, out)
        self._table.flush(session, out)

    def _on_closed(self, stream: int, reason: str, at: int, out: list[Action]) -> None:
        session = self._table.streams.pop(stream, None)
        if session is not None:
            self._table.park(session, reason, at, out)
        self._newcomers.remove(stream)

    # --- beginning and going on ------------------------------------------------------------------------------------

    def _on_first_message(self, newcomer: Newcomer, message: Hello | Resume, at: int, out: list[Action]) -> None:
        assert newcomer.version is not None
        if isinstance(message, Hello):
            verdict, parked = self._table.admission.judge_hello(message, newcomer.peer)
            if isinstance(verdict, Farewell):
                self._turn_away(newcomer.stream, verdict, verdict.code, out)
                return
            if parked is not None:
                self._table.end(parked, EndCode.REPLACED, "another client came under this name", at, out)
            self._newcomers.remove(newcomer.stream)
            self._table.open(newcomer, message, verdict.principal, at, out)
            return
        found = self._table.admission.judge_resume(message, newcomer.version)
        if isinstance(found, Farewell):
            self._turn_away(newcomer.stream, found, found.code, out)
            return
        found.backlog.acknowledge(message.heard)
        self._newcomers.remove(newcomer.stream)
        self._table.resume(found, newcomer.stream, at, out)

    # --- indications -----------------------------------------------------------------------------------------------

    def _on_indicated(
        self, receivers: tuple[ClientId, ...], indication: b4.Indication, at: int, out: list[Action]
    ) -> None:
        if isinstance(indication, ANSWERS):
            self._on_answer(receivers[0], indication, at, out)
            return
        sessions, calm = self._table.admission.sessions, self._table.slow.calm_bytes
        parcel: Parcel | None = None
        for receiver in receivers:
            session = sessions.get(receiver)
            if session is None or session.state is not State.OPEN:
                continue
            if parcel is None:
                self.counters.encoded += 1
                parcel = Parcel(*encode_indication(indication, self.settings.message_bytes_max))
            session.backlog.push(parcel)
            if type(indication) is not b4.Message:
                self._note_membership(session, indication)
            if session.backlog.held_bytes > calm:
                self._table.judge(session, indication, at, out)
            if not session.busy:
                self._table.flush(session, out)
        while self._table.slow.is_exhausted:
            self._table.end_fattest(at, out)

    def _on_answer(
        self, client: ClientId, answer: b4.Connected | b4.Disconnected | b4.Refused, at: int, out: list[Action]
    ) -> None:
        """What concerns one session: its beginning, its end, a refusal."""
        session = self._table.admission.sessions.get(client)
        if session is None:
            return
        connecting = session.state is State.CONNECTING
        match answer:
            case b4.Connected() if connecting:
                self._table.welcome(session)
                self._table.pump(session, at, out)
            case b4.Refused(reason=reason) if connecting:
                self._table.enter_over(session, EndCode.REFUSED, reason)
            case b4.Refused() if session.state is State.OPEN:
                session.backlog.push(Parcel(*encode_indication(answer, self.settings.message_bytes_max)))
                self._table.judge(session, None, at, out)
            case b4.Disconnected(reason=reason) if session.state is not State.OVER:
                self._table.enter_over(session, EndCode.REFUSED if connecting else EndCode.SERVICE, reason)
        self._table.flush(session, out)

    def _note_membership(self, session: ServerSession, indication: b4.Indication) -> None:
        """Which groups to hold if this reader blocks."""
        if isinstance(indication, b4.View):
            session.groups.add(indication.view.group)
        elif isinstance(indication, b4.SelfLeave):
            session.groups.discard(indication.group)
        if session.blocks:
            self._table.handing.block(self._table.slow.blocking)

    def _on_stopping(self, out: list[Action]) -> None:
        farewell = control_frame(server_codec.encode(Farewell(EndCode.SHUTDOWN, "the daemon stops")))
        for session in self._table.admission.sessions.values():
            if session.stream is not None:
                out += [WriteStream(session.stream, [farewell]), CloseStream(session.stream)]
            if session.state is not State.OVER:
                self.counters.ended[EndCode.SHUTDOWN] += 1
                out.append(b4.Ask(session.client, b4.Disconnect()))
        out += [CloseStream(stream) for stream in self._newcomers.streams()]
        self._stopped = True

    # --- time ------------------------------------------------------------------------------------------------------

    def _arm_sweep(self, at: int, out: list[Action]) -> None:
        every = self.settings.silence_us // SWEEPS
        self._sweep_at = at + every
        out.append(SetTimer(SWEEP, every))

    def _on_timer(self, key: TimerKey, at: int, out: list[Action]) -> None:
        if key == SWEEP:
            self._sweep(at, out)
        elif key == DUE:
            self._table.due_at = None
            self._on_due(at, out)

    def _sweep(self, at: int, out: list[Action]) -> None:
        """Give up streams on which nothing comes; what came while this process slept is still to be read."""
        assert self._sweep_at is not None
        late, self._sweep_at = at - self._sweep_at, None
        for session in list(self._table.streams.values()):
            if late > self.settings.silence_us // SWEEPS:
                session.heard_at += late
            if at - session.heard_at >= self.settings.silence_us:
                self._table.close(session, out)
                self._table.park(session, f"nothing was heard for {(at - session.heard_at) // 1000} ms", at, out)
            elif session.hoards(at, UNUSED_SILENCES * self.settings.silence_us):
                self._table.end(session, EndCode.PROTOCOL, "credit for a large message was not used", at, out)

    def _on_due(self, at: int, out: list[Action]) -> None:
        for stream in self._newcomers.expire(at):
            out.append(CloseStream(stream))
        self._table.pump_all(at, out)
        dues = [self._newcomers.first_expiry or NEVER]
        for session in list(self._table.admission.sessions.values()):
            if session.parked_until <= at:
                waited = self.settings.resume_within_us // 1000
                self._table.end(session, EndCode.GONE, f"the client did not come back within {waited} ms", at, out)
            else:
                dues += [session.parked_until, session.first_expiry if session.inbox else NEVER]
        first = min(dues)
        if first < NEVER:
            self._table.due(first, at, out)
