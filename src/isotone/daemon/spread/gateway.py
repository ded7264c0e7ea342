"""Spread's clients at a daemon: at boundary B4 one automaton that plays all of them.

It takes the events of their streams and returns `Ask`, takes `Indicated` and returns frames. They share groups, names
and one order with native clients; bundles are split into single messages here and nowhere else. What a peer sends
wrongly ends its own session and nothing else. See docs/protocols/spread-clients.md.

Implements: Spread's client protocol, and [Spread 3.2, 3.5] for them. Deviations: those of the modules around.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core import boundary as b4
from isotone.core.bundles import Bundle
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
from isotone.core.ids import ClientId, DaemonId
from isotone.daemon.spread.actions import Remark
from isotone.daemon.spread.authentication import Authentication, CheckPassword, Rejected
from isotone.daemon.spread.constants import FLAG_SELF_DISCARD, SLOT_BYTES, Code
from isotone.daemon.spread.frames import message_frames
from isotone.daemon.spread.handshake import Handshake
from isotone.daemon.spread.memberships import self_leave_frame, transitional_frame
from isotone.daemon.spread.newcomers import Names, Newcomer, Newcomers
from isotone.daemon.spread.session import Parcel, SpreadSession, State
from isotone.daemon.spread.settings import GatewaySettings, Oversize, SpreadCounters
from isotone.daemon.spread.short_names import ShortNames
from isotone.daemon.spread.table import SessionTable
from isotone.evs.sessions.admission import Admit, Denied, admit_all
from isotone.evs.sessions.handing import Permit, permit_all
from isotone.evs.sessions.notices import GroupsHeld, RoomChanged

HANDSHAKES: TimerKey = ("spread", "handshakes")


class SpreadGateway:
    """All sessions of Spread's clients at one daemon. ``next_id`` gives ids that no other session has."""

    periodic_timers: tuple[str, ...] = ()

    def __init__(
        self,
        daemon: DaemonId,
        *,
        next_id: Callable[[str], ClientId],
        settings: GatewaySettings | None = None,
        name_in_use: Callable[[str], bool] = lambda name: False,
        admit: Admit = admit_all,
        permit: Permit = permit_all,
        check_password: CheckPassword | None = None,
        seed: bytes = b"",
    ) -> None:
        self.daemon = daemon
        self.settings = settings or GatewaySettings()
        self.counters = SpreadCounters()
        self._next_id = next_id
        self._admit = admit
        names = Names(name_in_use, seed)
        self._newcomers = Newcomers(self.settings, Authentication(self.settings, check_password), names)
        self._table = SessionTable(self.settings, self.counters, permit)
        self._table.on_freed = names.free
        self._short_names = ShortNames()
        self._is_armed = False
        self._stopped = False

    # --- to look at ------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> int:
        """How many there are."""
        return len(self._table.sessions)

    @property
    def clients(self) -> tuple[ClientId, ...]:
        """Who they are."""
        return tuple(self._table.sessions)

    def plays(self, client: ClientId) -> bool:
        """Whether this client is one of them."""
        return client in self._table.sessions

    @property
    def held_bytes(self) -> int:
        """Bytes kept for clients that did not read them; what several receive counts once."""
        return self._table.memory.held_bytes

    @property
    def blocking(self) -> tuple[ClientId, ...]:
        """Readers for which senders are held."""
        return tuple(session.client for session in self._table.slow.blocking)

    @property
    def blocked_groups(self) -> frozenset[str]:
        """Groups to which Spread's clients here do not send for now."""
        return self._table.handing.blocked

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event: of a stream, of boundary B4, `RoomChanged`, `GroupsHeld`, or the timer."""
        out: list[Action] = []
        if self._stopped:
            return out
        match event:
            case b4.Indicated(receivers=receivers, indication=indication):
                self._on_indicated(receivers, indication, out)
            case StreamReceived(stream=stream, data=data):
                self._on_received(stream, data, out)
            case StreamWritable(stream=stream):
                session = self._table.streams.get(stream)
                if session is not None:
                    self._table.on_writable(session, out)
            case StreamOpened(stream=stream, peer=peer, accepted=True):
                self._on_opened(stream, peer, event.at, out)
            case StreamClosed(stream=stream, reason=reason):
                self._on_closed(stream, reason, out)
            case RoomChanged(room=room):
                self._table.handing.room = room
                self._table.pump_all(out)
            case GroupsHeld(groups=groups):
                self._table.handing.held = frozenset(groups)
                self._table.pump_all(out)
            case TimerFired():
                self._is_armed = False
                self._on_due(event.at, out)
            case Stopping():
                self._on_stopping(out)
            case Started():
                return out
        self._table.settle(out)
        return out

    # --- streams ---------------------------------------------------------------------------------------------------

    def _on_opened(self, stream: int, peer: Address, at: int, out: list[Action]) -> None:
        self.counters.accepted += 1
        if self.sessions >= self.settings.sessions_max:
            self._turn_away(stream, peer, Rejected(Code.QUOTA, f"there are {self.sessions} sessions"), out)
            return
        gone = self._newcomers.enter(stream, peer, at)
        if gone is not None:
            self.counters.turned_away["crowded"] += 1
            out.append(CloseStream(gone))
        self._arm(at, out)

    def _on_received(self, stream: int, data: bytes | memoryview, out: list[Action]) -> None:
        newcomer = self._newcomers.get(stream)
        if newcomer is not None:
            self._on_newcomer(newcomer, data, out)
            return
        session = self._table.streams.get(stream)
        if session is not None:
            self._table.read(session, data, out)

    def _on_newcomer(self, newcomer: Newcomer, data: bytes | memoryview, out: list[Action]) -> None:
        handshake, stream = newcomer.handshake, newcomer.stream
        out += [WriteStream(stream, [answer]) for answer in handshake.take(data)]
        rejection = handshake.rejection or (self._judged(handshake) if handshake.is_done else None)
        if rejection is not None:
            self._newcomers.leave(stream)
            self._turn_away(stream, handshake.peer, rejection, out)
        elif handshake.is_done:
            self._newcomers.remove(stream)
            self._open(handshake, stream, out)

    def _judged(self, handshake: Handshake) -> Rejected | None:
        """Whether a client that is who it says may open a session."""
        if self.sessions >= self.settings.sessions_max:
            return Rejected(Code.QUOTA, f"there are {self.sessions} sessions")
        admitted = self._admit(handshake.name, handshake.credential, handshake.peer)
        return Rejected(Code.AUTHENTICATION, admitted.reason) if isinstance(admitted, Denied) else None

    def _open(self, handshake: Handshake, stream: int, out: list[Action]) -> None:
        session = SpreadSession(
            self._next_id(handshake.name),
            stream,
            handshake.peer,
            version=handshake.version,
            wants_membership=handshake.wants_membership,
            memory=self._table.memory,
            full_name=self._short_names.full_name,
        )
        self._table.open(session, handshake.left(), out)

    def _turn_away(self, stream: int, peer: Address, rejection: Rejected, out: list[Action]) -> None:
        code = rejection.code.name.lower()
        self.counters.turned_away[code] += 1
        out += [WriteStream(stream, [rejection.code.byte]), CloseStream(stream), Remark(peer, code, str(rejection))]

    def _on_closed(self, stream: int, reason: str, out: list[Action]) -> None:
        if self._newcomers.leave(stream):
            self.counters.turned_away["left"] += 1
        session = self._table.streams.pop(stream, None)
        if session is not None:
            session.stream = None
            self._table.end(session, "closed", reason, out)

    # --- indications -----------------------------------------------------------------------------------------------

    def _on_indicated(self, receivers: tuple[ClientId, ...], indication: b4.Indication, out: list[Action]) -> None:
        found = self._table.sessions.get
        sessions = [session for session in map(found, receivers) if session is not None]
        if not sessions:
            return
        match indication:
            case b4.Message(bundle=bundle):
                self._on_message(bundle, sessions, out)
            case b4.View():
                self._on_view(indication, sessions, out)
            case b4.Transitional(group=group, view=id):
                self._table.transitions.on_signal(group)
                self._tell_members(sessions, group, transitional_frame(group, id), out)
            case b4.SelfLeave(group=group):
                self._tell_members(sessions, group, self_leave_frame(group), out)
                self._table.note_left(sessions[0], group, out)
            case b4.Connected() | b4.Refused() | b4.Disconnected():
                self._on_answer(sessions[0], indication, out)

    def _on_message(self, bundle: Bundle, sessions: list[SpreadSession], out: list[Action]) -> None:
        if bundle.flags & FLAG_SELF_DISCARD:
            sessions = [session for session in sessions if session.client != bundle.sender]
        sessions = [session for session in sessions if session.state is State.OPEN]
        fitting = self._fitting(bundle)
        if len(fitting) < bundle.count:
            self._on_oversize(bundle, bundle.count - len(fitting), sessions)
        if not fitting or not sessions:
            return
        for name in (bundle.sender.private_group, *bundle.groups):
            self._short_names.note(name)
        self.counters.encoded += 1
        self.counters.messages_told += len(fitting)
        parcel = Parcel(message_frames(bundle, fitting))
        for session in sessions:
            self._table.push(session, parcel, bundle.groups, out)

    def _fitting(self, bundle: Bundle) -> range | list[int]:
        """The places of the messages that these clients can take."""
        bound = self.settings.message_bytes_max - SLOT_BYTES * len(bundle.groups)
        if max(bundle.lengths) <= bound:
            return range(bundle.count)
        return [place for place, length in enumerate(bundle.lengths) if length <= bound]

    def _on_oversize(self, bundle: Bundle, count: int, sessions: list[SpreadSession]) -> None:
        if self.settings.oversize is Oversize.SKIP:
            self.counters.oversize_skipped += count * len(sessions)
            return
        for session in sessions:
            reason = f"{bundle.sender} sent {max(bundle.lengths)} bytes; Spread's clients take no more than "
            self._table.condemn(session, "oversize", f"{reason}{self.settings.message_bytes_max}")

    def _on_view(self, indication: b4.View, sessions: list[SpreadSession], out: list[Action]) -> None:
        view = indication.view
        for member in view.members:
            self._short_names.note(member.private_group)
        regular = self._table.transitions.regular(view)
        parcels: dict[int, Parcel] = {}
        for session in sessions:
            self._table.note_view(session, view.group)
            if not session.wants_membership or session.state is not State.OPEN:
                continue
            place = regular.place_of(session.client, with_sets=session.with_sets)
            parcel = parcels.get(place)
            if parcel is None:
                self.counters.encoded += 1
                parcel = parcels[place] = Parcel(regular.frame(place))
            self._table.push(session, parcel, (view.group,), out)

    def _tell_members(self, sessions: list[SpreadSession], group: str, frame: bytes, out: list[Action]) -> None:
        parcel = Parcel(frame)
        self.counters.encoded += 1
        for session in sessions:
            if session.wants_membership and session.state is State.OPEN:
                self._table.push(session, parcel, (group,), out)

    def _on_answer(
        self, session: SpreadSession, answer: b4.Connected | b4.Refused | b4.Disconnected, out: list[Action]
    ) -> None:
        """What concerns one session: its beginning, its end, a refusal."""
        is_new = session.state is State.CONNECTING
        match answer:
            case b4.Connected() if is_new:
                self._table.welcome(session, out)
            case b4.Refused(reason=reason) | b4.Disconnected(reason=reason) if is_new:
                self._table.refuse(session, reason, out)
            case b4.Refused():
                self._table.on_refused(session, answer, out)
            case b4.Disconnected(reason=reason):
                self._table.lose(session, reason, out)

    # --- time, and the end -----------------------------------------------------------------------------------------

    def _arm(self, at: int, out: list[Action]) -> None:
        due = self._newcomers.first_expiry
        if due is not None and not self._is_armed:
            self._is_armed = True
            out.append(SetTimer(HANDSHAKES, max(1, due - at)))

    def _on_due(self, at: int, out: list[Action]) -> None:
        for stream in self._newcomers.expire(at):
            self.counters.turned_away["silent"] += 1
            out.append(CloseStream(stream))
        self._arm(at, out)

    def _on_stopping(self, out: list[Action]) -> None:
        """These clients know no farewell: they read the end of the stream."""
        for session in self._table.sessions.values():
            if session.state is not State.ENDING:
                self.counters.ended["shutdown"] += 1
            if session.stream is not None:
                out.append(CloseStream(session.stream))
            out.append(b4.Ask(session.client, b4.Disconnect()))
        out += [CloseStream(stream) for stream in self._newcomers.streams()]
        self._stopped = True
