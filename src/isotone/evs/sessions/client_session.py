"""A client's session, from the client's side: boundary B4 over a byte stream that may break and come back.

It takes `Requested` and returns `Indicate`, as a group service does, for one client. The id of the client is given by
the daemon: before `Connected` it is provisional. What the program around it should know beside B4 comes as `Notify`.
See docs/protocols/session.md.

Implements: [Spread 3.2, 3.5], the client's end of a connection. Deviations: Ds1 and Ds2 as in `server`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.codec.control import ControlMessage
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    Event,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import NO_DAEMON, ClientId, MessageId
from isotone.core.names import check_client_name
from isotone.core.versions import VersionRange
from isotone.evs.sessions import messages, notices
from isotone.evs.sessions.asking import Asking
from isotone.evs.sessions.client_stream import Answered, ClientStream, Hearing, Stage
from isotone.evs.sessions.connection import Connection
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.greeting import pack_greeting
from isotone.evs.sessions.indications import decode_told, read_client_id
from isotone.evs.sessions.messages import EndCode, client_codec
from isotone.evs.sessions.requests import NEVER
from isotone.evs.sessions.settings import ClientSettings
from isotone.evs.sessions.tickets import Tickets

HEARTBEAT_US_MIN = 1_000
ELSEWHERE = (EndCode.FULL, EndCode.SHUTDOWN, EndCode.ELSEWHERE)  # another address may do


class Life(Enum):
    """The life of a session, seen from the client."""

    NEW = "not asked for"
    SEEKING = "looks for the daemon"
    OPEN = "open"
    ENDED = "over"


class ClientSession:
    """One session, used once. Streams are numbered ``first_stream``, ``first_stream + stride`` …"""

    periodic_timers = ("session beat",)

    def __init__(
        self,
        name: str,
        addresses: Sequence[Address],
        *,
        choice: Choice,
        credential: bytes = b"",
        settings: ClientSettings | None = None,
        first_stream: int = 0,
        stride: int = 1,
    ) -> None:
        self.name = check_client_name(name)
        self.settings = settings or ClientSettings()
        self.client = ClientId(NO_DAEMON, name, 0)  # provisional until `Connected`
        self.life = Life.NEW
        self.malformed = 0
        self._credential = credential
        self._asking = Asking(self.settings)
        self._connection = Connection(addresses, self.settings, choice, first=first_stream, stride=stride)
        self._due_key: TimerKey = ("session due", name)
        self._beat_key: TimerKey = ("session beat", name)
        self._terms: messages.Welcome | None = None  # what the daemon said; None before the session is open
        self._hearing = Hearing()
        self._attempt = choice.word().to_bytes(8, "big") + choice.word().to_bytes(8, "big")
        self._parting = False  # the caller asked to disconnect and hears nothing more
        self._reading = True
        self._due_at: int | None = None  # when the timer is armed for
        self._beat_at = 0

    # --- to look at ------------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Bytes of messages that may be sent now; 0 means that a send would be refused."""
        return self._asking.requests.room if self._terms is not None and self._may_ask else 0

    @property
    def submitted(self) -> int:
        """The ticket of the last message that was accepted."""
        return self._asking.requests.submitted

    @property
    def settled(self) -> int:
        """Every message up to this ticket was taken by the daemon, or dropped."""
        return self._asking.requests.settled

    @property
    def unwritten(self) -> int:
        """No message from this ticket on ever left this process."""
        return self._asking.requests.unwritten

    @property
    def tickets(self) -> Tickets:
        """Which ticket belongs to a message that one hears of oneself."""
        return self._asking.tickets

    def message_id(self, ticket: int) -> MessageId | None:
        """The name of a message: for good once it is settled, before that unless an earlier one is dropped.

        None before the session is open, since the daemon gives the client its id.
        """
        return None if self._terms is None else MessageId(self.client, self.tickets.sequence_of(ticket))

    @property
    def is_connected(self) -> bool:
        """Whether frames pass at present."""
        return self._connection.is_open

    @property
    def _may_ask(self) -> bool:
        return self.life in (Life.SEEKING, Life.OPEN) and not self._parting

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event: a request, one of this session's streams, or its timers."""
        out: list[Action] = []
        at = event.at
        stream = self._connection.stream
        match event:
            case StreamReceived(stream=number, data=data) if stream and number == stream.number:
                self._on_received(stream, memoryview(data), at, out)
            case StreamWritable(stream=number) if stream and number == stream.number:
                stream.busy = False
            case b4.Requested(client=client, request=request):
                self._on_request(client, request, at, out)
            case notices.SendWanted():
                self._check_open()
                self._asking.send(event)
            case StreamOpened(stream=number, accepted=False) if stream and number == stream.number:
                stream.stage, stream.busy = Stage.GREETING, True
                out.append(WriteStream(number, [pack_greeting(self.settings.versions)]))
            case StreamClosed(stream=number, reason=reason) if stream and number == stream.number:
                self._connection.stream = None
                self._lose(reason, at, out, was_open=stream.stage is Stage.OPEN)
            case TimerFired(key=key) if key in (self._due_key, self._beat_key):
                self._on_timer(key, at, out)
            case notices.ReadingPaused() | notices.ReadingResumed():
                self._reading = isinstance(event, notices.ReadingResumed)
                if stream:
                    stream.heard_at = at
            case _:
                return out
        self._conclude(at, out)
        return out

    def _conclude(self, at: int, out: list[Action]) -> None:
        """After every event: write, tell of room, arm the timer."""
        if self.life is Life.ENDED:
            return
        self._flush(at, out)
        if self._asking.became_roomy():
            self._notify(notices.Roomy(), out)
        self._arm(at, out)

    # --- what the caller asks --------------------------------------------------------------------------------------

    def _on_request(self, client: ClientId, request: b4.Request, at: int, out: list[Action]) -> None:
        if isinstance(request, b4.Connect):
            if self.life is not Life.NEW:
                raise LocalProtocolError("a session is opened once")
            self.client, self.life = client, Life.SEEKING
            self._connection.seek(at, self.settings.connect_within_us, out)
            return
        if client != self.client or not self._may_ask:
            raise LocalProtocolError(f"{client} has no open session here")
        if isinstance(request, b4.Disconnect):
            self._part(at, out)
            return
        self._check_open()
        if isinstance(request, b4.Send):
            self._asking.send_bundle(request)
        else:
            self._asking.change(request)

    def _check_open(self) -> None:
        if self._terms is None or not self._may_ask:
            raise LocalProtocolError(f"the session of {self.name} is not open: {self.life.value}")

    def _part(self, at: int, out: list[Action]) -> None:
        """Disconnect: when all that was asked before is taken, the daemon says farewell."""
        self._parting = True
        if self._terms is None:
            self._end(EndCode.ASKED, "asked for", out)
        else:
            self._asking.requests.add_control(messages.PartAsked(), always=True)

    # --- what the daemon says --------------------------------------------------------------------------------------

    def _on_received(self, stream: ClientStream, data: memoryview, at: int, out: list[Action]) -> None:
        stream.heard_at = at
        place = 0
        try:
            while place < len(data) and self._connection.stream is stream:
                came, place, size = stream.read(data, place)
                if came is not None:
                    self._on_came(stream, came, size, at, out)
        except RemoteProtocolError as error:
            self.malformed += 1
            if stream.stage is Stage.OPEN:
                self._end(EndCode.PROTOCOL, f"the daemon sent {error}", out)
            else:
                self._fail(f"no daemon of ours: {error}", at, out, hopeless=True)

    def _on_came(
        self, stream: ClientStream, came: Answered | ControlMessage | b4.Message, size: int, at: int, out: list[Action]
    ) -> None:
        match came:
            case b4.Message():
                self._on_told(stream, came, size, out)
            case messages.Granted(taken=taken, credit=credit) if stream.stage is Stage.OPEN:
                self._asking.requests.granted(taken, credit)
            case Answered(version=version, theirs=theirs):
                self._on_answered(stream, version, theirs, at, out)
            case messages.Welcome() if stream.stage is Stage.ENTERING and self._terms is None:
                self._on_welcome(stream, came, at, out)
            case messages.Resumed() if stream.stage is Stage.ENTERING and self._terms is not None:
                self._asking.requests.resumed(came.taken, came.credit)
                self._enter_open(stream, at, out)
                self._notify(notices.Reconnected(), out)
            case messages.Farewell(code=code, reason=reason):
                if stream.stage is not Stage.OPEN and code in ELSEWHERE:
                    self._fail(reason, at, out)
                else:
                    self._end(code, reason, out)
            case messages.DroppedTold(first=first, count=count, reason=reason):
                self._on_told(stream, None, size, out)
                self.tickets.drop(first, count)
                self._notify(notices.Dropped(first, count, reason), out)
            case messages.HeldTold(readers=readers) if stream.stage is Stage.OPEN:
                self._notify(notices.Held(tuple(map(read_client_id, readers))), out)
            case messages.SlowTold(held=held, bound=bound):
                self._on_told(stream, None, size, out)
                self._notify(notices.Slow(held, bound), out)
            case _:
                indication = decode_told(came)
                if indication is None:
                    raise RemoteProtocolError(f"{type(came).__name__} while {stream.stage.name.lower()}")
                self._on_told(stream, indication, size, out)

    def _on_told(self, stream: ClientStream, told: b4.Indication | None, size: int, out: list[Action]) -> None:
        """A frame that counts."""
        if stream.stage is not Stage.OPEN:
            raise RemoteProtocolError("an indication before the session is open")
        self._hearing.hear(size)
        if told is not None and not self._parting:
            out.append(b4.Indicate((self.client,), told))

    def _on_answered(
        self, stream: ClientStream, version: int | None, theirs: VersionRange, at: int, out: list[Action]
    ) -> None:
        if version is None:
            reason = f"the daemon speaks versions {theirs}, this client {self.settings.versions}"
            self._fail(reason, at, out, hopeless=True)
            return
        stream.stage = Stage.ENTERING
        hello = messages.Hello if self.settings.resume_within_us else messages.Visit
        entry: ControlMessage = hello(self.name, self._credential, self._attempt)
        if self._terms is not None:
            entry = messages.Resume(str(self.client), self._terms.key, self._hearing.count)
        stream.busy = True
        out.append(WriteStream(stream.number, [control_frame(client_codec.encode(entry))]))

    def _on_welcome(self, stream: ClientStream, welcome: messages.Welcome, at: int, out: list[Action]) -> None:
        client = read_client_id(welcome.client)
        if client.name != self.name or min(welcome.heartbeat_us, welcome.silence_us) < HEARTBEAT_US_MIN:
            raise RemoteProtocolError(f"a welcome for {client}, heartbeats every {welcome.heartbeat_us} us")
        self.client, self._terms = client, welcome
        self._asking.open(client, welcome)
        self._hearing.bytes_max = welcome.acknowledge_bytes
        self._enter_open(stream, at, out)
        out.append(b4.Indicate((client,), b4.Connected()))

    def _enter_open(self, stream: ClientStream, at: int, out: list[Action]) -> None:
        assert self._terms is not None
        stream.stage, self.life = Stage.OPEN, Life.OPEN
        self._hearing.told()
        self._connection.attempts.found()
        self._arm_beat(at, out)

    # --- streams that fail -----------------------------------------------------------------------------------------

    def _lose(self, reason: str, at: int, out: list[Action], *, was_open: bool) -> None:
        """The stream is gone."""
        if not was_open:
            self._fail(reason, at, out)
            return
        assert self._terms is not None
        within_us = min(self._terms.resume_within_us, self.settings.resume_within_us)
        if not within_us:
            self._end(EndCode.UNREACHABLE, reason, out)
            return
        self.life = Life.SEEKING
        self._notify(notices.Broken(reason), out)
        out.append(CancelTimer(self._beat_key))
        self._connection.attempts.last_reason = reason
        self._connection.seek(at, within_us, out)

    def _fail(self, reason: str, at: int, out: list[Action], *, hopeless: bool = False) -> None:
        """This attempt came to nothing."""
        if not self._connection.fail(reason, at, out, hopeless=hopeless):
            self._end(EndCode.UNREACHABLE, self._connection.attempts.last_reason, out)

    def _end(self, code: EndCode, reason: str, out: list[Action]) -> None:
        """Over: the last indication and the last notice."""
        self._connection.drop(out)
        self.life = Life.ENDED
        out += [CancelTimer(self._due_key), CancelTimer(self._beat_key)]
        if not self._parting:
            if self._terms is None and code is EndCode.REFUSED:
                out.append(b4.Indicate((self.client,), b4.Refused("connect", reason)))
            out.append(b4.Indicate((self.client,), b4.Disconnected(reason)))
        untaken = 0 if code is EndCode.ASKED else self._asking.requests.untaken
        self._notify(notices.Ended(code, reason, untaken), out)

    def _notify(self, notice: notices.Notice, out: list[Action]) -> None:
        out.append(notices.Notify(self.name, notice))

    # --- writing ---------------------------------------------------------------------------------------------------

    def _flush(self, at: int, out: list[Action], *, beat: bool = False) -> None:
        """Write what waits, unless a write is under way; what was heard stands before it."""
        stream = self._connection.stream
        if stream is None or stream.busy or stream.stage is not Stage.OPEN:
            return
        self._expire(at, out)
        parts: list[bytes | memoryview] = []
        self._asking.requests.write(at, parts)
        wanted = self._asking.requests.want_credit()
        if wanted:
            parts.append(control_frame(client_codec.encode(messages.CreditWanted(wanted))))
        if beat:
            parts.append(control_frame(client_codec.encode(messages.ClientBeat())))
        if self._hearing.is_due(bool(parts)):
            parts.insert(0, control_frame(client_codec.encode(messages.Heard(self._hearing.told()))))
        if parts:
            stream.busy = stream.wrote = True
            out.append(WriteStream(stream.number, parts))

    def _expire(self, at: int, out: list[Action]) -> None:
        for dropped in self._asking.expire(at):
            self._notify(dropped, out)

    # --- time ------------------------------------------------------------------------------------------------------

    def _arm(self, at: int, out: list[Action]) -> None:
        """One timer for what is due next; early is harmless."""
        first = min([self._asking.requests.first_expiry, *self._connection.dues()])
        if first < NEVER and (self._due_at is None or first < self._due_at):
            self._due_at = first
            out.append(SetTimer(self._due_key, max(0, first - at)))

    def _arm_beat(self, at: int, out: list[Action]) -> None:
        assert self._terms is not None
        self._beat_at = at + self._terms.heartbeat_us
        out.append(SetTimer(self._beat_key, self._terms.heartbeat_us))

    def _on_timer(self, key: TimerKey, at: int, out: list[Action]) -> None:
        if self.life is Life.ENDED:
            return
        if key == self._beat_key:
            self._on_beat(at, out)
            return
        self._due_at = None
        self._expire(at, out)
        connection, stream = self._connection, self._connection.stream
        give_up_at, retry_at = connection.attempts.give_up_at, connection.retry_at
        if give_up_at is not None and at >= give_up_at:
            what = "resumed" if self._terms else "opened"
            reason = f"the session was not {what} in time: {connection.attempts.last_reason}"
            self._end(EndCode.UNREACHABLE, reason, out)
        elif stream is not None and stream.stage is not Stage.OPEN and at >= stream.until:
            self._fail(stream.stage.value, at, out)
        elif retry_at is not None and at >= retry_at:
            connection.open(at, out)

    def _on_beat(self, at: int, out: list[Action]) -> None:
        """Say something, and look whether the daemon does."""
        stream, terms = self._connection.stream, self._terms
        if stream is None or terms is None or stream.stage is not Stage.OPEN:
            return
        late = at - self._beat_at
        if late > terms.heartbeat_us or not self._reading:
            stream.heard_at += late if self._reading else at - stream.heard_at
        silent = at - stream.heard_at
        if silent >= terms.silence_us:
            self._connection.drop(out)
            self._lose(f"nothing was heard for {silent // 1000} ms", at, out, was_open=True)
            return
        self._arm_beat(at, out)
        if not stream.wrote or silent >= terms.heartbeat_us:
            self._flush(at, out, beat=True)
        stream.wrote = False
