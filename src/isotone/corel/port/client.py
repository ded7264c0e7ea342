"""A client of a replicated log's port, as an automaton over byte streams: it finds a server, asks, and keeps its time.

It stays with the first server that answers and goes to another one when the stream breaks. An append whose answer is
lost with the stream is *maybe*: it is never sent a second time by itself, for it may stand in the order already.
Questions and what is followed go on elsewhere. The time that a caller gives is kept here, whatever the server does: one
that is stopped, or whose machine is gone, answers nothing. So while somebody waits, looks are taken at a steady pace:
after one in vain the server is asked something, and after three more it is left. Looks are counted, and not time: who
was stopped itself has read what came before it looks again.

Implements: docs/protocols/host.md "The port". Deviations: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
)
from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import Maybe, Refused
from isotone.corel.port import wire
from isotone.corel.port.events import (
    AppendsWanted,
    FrameCame,
    FrameTaken,
    Parting,
    Settled,
    Ticket,
    Unanswered,
    Unwanted,
    Unwelcome,
    error_of,
)
from isotone.corel.port.requests import AGAIN, RECORD_BYTES_MAX, UNKNOWN, Kind, Outgoing, Pending, pending_of
from isotone.corel.port.search import AGAIN_US, Patience, Search, Verdict

SILENT = "the server did not answer in time"
OPEN_MAX = 65_536
ASK_AT, GIVE_UP_AT = 2, 5
"""The second look in a row is the first before which nothing came for a whole pace."""


class Stage(Enum):
    """How far a client is with the server that it uses."""

    IDLE = "no server is needed"
    PAUSING = "no server was found; it looks again"
    OPENING = "a stream opens"
    GREETING = "the server has not answered yet"
    OPEN = "requests pass"


class PortClient:
    """One client of the servers at these addresses."""

    periodic_timers = frozenset({"look"})

    def __init__(self, addresses: Sequence[Address], hello: wire.Hello, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self.server = ""  # that serves, or did last
        self.stage = Stage.IDLE
        self.search = Search(addresses)
        self.looks = 0  # since something was heard, or is awaited
        self._hello = hello
        self._streams = 0
        self._stream = -1
        self._frames: wire.Frames[wire.ServerFrame] = wire.Frames(wire.SERVER_FRAMES)
        self._out = Outgoing(-1)  # of the stream that is open
        self._heard_at = 0
        self._reason = ""  # what the server said before it closed the stream
        self._refusal: IsotoneError | None = None  # to ask again is no use
        self._pending: dict[Ticket, Pending] = {}
        self._appends: deque[Pending] = deque()  # not sent yet
        self._others: dict[Ticket, Pending] = {}  # the same

    def handle(self, event: Event) -> list[Action]:
        """Take requests and what the server says, and go on with all that waits."""
        out: list[Action] = []
        at = event.at
        match event:
            case StreamReceived(stream=stream, data=data) if stream == self._stream:
                self._receive(at, data, out)
            case AppendsWanted(appends=appends):
                for wanted in appends:
                    self._add_append(at, wanted.ticket, wanted.record, wanted.within_us, out)
            case StreamWritable(stream=stream) if stream == self._stream:
                self._out.written()
            case FrameTaken():
                self._take_frame(event, out)
            case TimerFired(key=key):
                self._on_timer(at, key if isinstance(key, tuple) else (key,), out)
            case StreamOpened(stream=stream) if stream == self._stream:
                self.stage = Stage.GREETING
                self._out.say(self._hello, out)
            case StreamClosed(stream=stream, reason=reason) if stream == self._stream:
                self._lose(at, self._reason or reason, out)
            case Unwanted(ticket=ticket):
                self._cancel(ticket, out)
            case Parting():
                self._part(out)
            case _:
                self._add(event, out)
        self._go_on(at, out)
        return out

    # --- requests ----------------------------------------------------------------------------------------------------

    def _add_append(self, at: int, ticket: Ticket, record: bytes, within_us: int | None, out: list[Action]) -> None:
        if len(self._pending) >= OPEN_MAX:
            out.append(Settled(ticket, Refused(f"{OPEN_MAX} requests are open already")))
        elif len(record) > RECORD_BYTES_MAX:
            reason = f"a record of {len(record)} bytes; through the port at most {RECORD_BYTES_MAX}"
            out.append(Settled(ticket, Refused(reason)))
        else:
            deadline = None if within_us is None else at + within_us
            pending = self._pending[ticket] = Pending(Kind.APPEND, ticket, record, deadline)
            self._appends.append(pending)
            self._wait(at, pending, out)

    def _add(self, event: Event, out: list[Action]) -> None:
        pending = pending_of(event)
        if pending is None:
            return  # of a stream that is closed
        if len(self._pending) >= OPEN_MAX:
            out.append(Settled(pending.ticket, Refused(f"{OPEN_MAX} requests are open already")))
            return
        self._pending[pending.ticket] = self._others[pending.ticket] = pending
        self._wait(event.at, pending, out)

    def _wait(self, at: int, pending: Pending, out: list[Action]) -> None:
        """It is not sent; from now on a server has so much time to be found."""
        pending.wait(at, self.patience.connect_within_us)
        self._arm(at, pending, out)

    def _arm(self, at: int, pending: Pending, out: list[Action]) -> None:
        """Its next time: for a server to be found, for room, for the answer."""
        due: int | None
        if pending.request:
            due = None if pending.deadline is None else pending.deadline + self.patience.grace_us
        elif not pending.may_go:
            due = None
        else:
            due = pending.deadline if self.stage is Stage.OPEN else pending.send_by
        if due is not None:
            pending.is_armed = True
            out.append(SetTimer(("time", pending.ticket), max(0, due - at)))
        elif pending.is_armed:
            pending.is_armed = False
            out.append(CancelTimer(("time", pending.ticket)))

    def _settle(self, pending: Pending, outcome: object, out: list[Action]) -> None:
        del self._pending[pending.ticket]
        if pending.is_armed:
            out.append(CancelTimer(("time", pending.ticket)))
        if pending.is_resting:
            out.append(CancelTimer(("rest", pending.ticket)))
        out.append(Settled(pending.ticket, outcome))

    def _take_frame(self, taken: FrameTaken, out: list[Action]) -> None:
        """Who follows has used a frame."""
        pending = self._pending.get(taken.ticket)
        if pending is None:
            return
        pending.untaken -= 1
        if pending.request:
            self._out.say(wire.Taken(pending.request, taken.size), out)
        elif pending.may_go:
            self._wait(taken.at, pending, out)

    def _take_out(self, pending: Pending) -> None:
        """Remove a request from those that wait for a server."""
        if pending.kind is Kind.APPEND:
            self._appends.remove(pending)
        else:
            self._others.pop(pending.ticket, None)

    def _cancel(self, ticket: Ticket, out: list[Action]) -> None:
        pending = self._pending.get(ticket)
        if pending is None:
            return
        if not pending.request:
            self._take_out(pending)
        else:
            self._others.pop(ticket, None)  # a state of which some pieces were sent
            self._out.forget(pending)
            if pending.kind is not Kind.APPEND:
                self._out.say(wire.Cancel(pending.request), out)
        self._settle(pending, None, out)

    def _go_on(self, at: int, out: list[Action]) -> None:
        if self.stage is Stage.IDLE and any(each.may_go for each in self._waiting()):
            self.search.begin()
            self._attempt(at, out)
        elif self.stage is Stage.OPEN:
            self._send(at, out)

    def _waiting(self) -> list[Pending]:
        return [*self._appends, *self._others.values()]

    def _send(self, at: int, out: list[Action]) -> None:
        """What waits, as far as there is room."""
        for pending in list(self._others.values()):
            if not pending.may_go:
                continue
            if pending.kind is Kind.CONNECT:
                del self._others[pending.ticket]
                self._settle(pending, self.server, out)
            elif pending.kind is not Kind.OFFER:
                del self._others[pending.ticket]
                self._out.send(pending, at, out)
                self._arm(at, pending, out)
            elif self._send_pieces(pending, out):
                del self._others[pending.ticket]
        while self._appends and (went := self._out.append(self._appends, at, out)):
            for pending in went:
                if pending.is_armed or pending.deadline is not None:
                    self._arm(at, pending, out)

    def _send_pieces(self, pending: Pending, out: list[Action]) -> bool:
        """As many as there is room for; whether it was the last."""
        state, size = pending.body, wire.PIECE_BYTES_MAX
        assert isinstance(state, bytes)
        if not pending.request:
            pending.request = self._out.number()
            self._out.sent[pending.request] = pending
        while self._out.has_room:
            piece = state[pending.offset : pending.offset + size]
            pending.offset += size
            is_last = pending.offset >= len(state)
            self._out.say(wire.OfferSnapshot(pending.request, pending.position, piece, is_last), out)
            if is_last:
                return True
        return False

    # --- finding a server --------------------------------------------------------------------------------------------

    def _attempt(self, at: int, out: list[Action]) -> None:
        waiting = [each for each in self._waiting() if each.may_go]
        if not waiting:
            self.stage = Stage.IDLE
            return
        self._stream = self._streams
        self._streams += 1
        self.stage, self._reason, self._refusal = Stage.OPENING, "", None
        self._frames, self._out = wire.Frames(wire.SERVER_FRAMES), Outgoing(self._stream)
        out.append(OpenStream(self._stream, self.search.address))
        patience_us = self.patience.connect_within_us
        left_us = max(patience_us if each.send_by is None else each.send_by - at for each in waiting)
        out.append(SetTimer("attempt", self.search.share_us(left_us)))

    def _fail_attempt(self, at: int, reason: str, out: list[Action]) -> None:
        out.append(CancelTimer("attempt"))
        self.stage, self._stream = Stage.PAUSING, -1
        is_refused = self._refusal is not None
        match self.search.failed(reason, is_refused=is_refused, tries_again=self.patience.tries_again):
            case Verdict.NEXT:
                self._attempt(at, out)
            case Verdict.PAUSE:
                out.append(SetTimer("again", self.search.next_pause_us()))
            case Verdict.GIVE_UP:
                self.stage = Stage.IDLE
                kind = Unwelcome if self.search.is_refused else MachineError
                for pending in self._waiting():
                    if pending.may_go:
                        self._take_out(pending)
                        self._settle(pending, kind(self.search.why()), out)

    def _on_welcome(self, at: int, welcome: wire.Welcome, out: list[Action]) -> None:
        if welcome.version != wire.VERSION:
            said = f"{welcome.server} speaks version {welcome.version} of the log's port, this client {wire.VERSION}"
            self._refusal = MachineError(said)
            raise RemoteProtocolError(said)
        self._out.appends_max, self._out.append_bytes_max = welcome.appends_max, welcome.append_bytes_max
        self.server, self.stage, self.looks = welcome.server, Stage.OPEN, 0
        out += [CancelTimer("attempt"), SetTimer("look", self.patience.look_every_us)]
        for pending in self._waiting():
            self._arm(at, pending, out)

    # --- losing one --------------------------------------------------------------------------------------------------

    def _close(self, at: int, reason: str, out: list[Action]) -> None:
        """We are done with this stream."""
        if self._stream >= 0:
            out.append(CloseStream(self._stream))
            self._lose(at, reason, out)

    def _lose(self, at: int, reason: str, out: list[Action]) -> None:
        if self.stage is not Stage.OPEN:
            self._fail_attempt(at, reason, out)
            return
        out.append(CancelTimer("look"))
        self.stage, self._stream = Stage.IDLE, -1
        for pending in self._waiting():  # they were not sent
            if pending.kind is not Kind.OFFER or not pending.request:
                self._wait(at, pending, out)
        lost, self._out = list(self._out.sent.values()), Outgoing(-1)
        for pending in lost:
            self._others.pop(pending.ticket, None)  # a state of which some pieces were sent
            pending.request = 0
            if pending.kind in UNKNOWN:
                self._settle(pending, Maybe(f"the server is gone: {reason}"), out)
            elif pending.kind in AGAIN and self._refusal is None:
                self._rest(at, pending, out)
            else:
                self._settle(pending, self._refusal or MachineError(f"the server is gone: {reason}"), out)

    def _rest(self, at: int, pending: Pending, out: list[Action]) -> None:
        """It is asked elsewhere, after a pause."""
        pending.is_resting = True
        self._others[pending.ticket] = pending
        self._wait(at, pending, out)
        out.append(SetTimer(("rest", pending.ticket), pending.next_pause_us()))

    def _leave_if_silent(self, at: int, out: list[Action]) -> None:
        """A server answers at a deadline, whatever it answers. One that says nothing at all meanwhile is of no use."""
        if self.stage is Stage.OPEN and at - self._heard_at >= self.patience.grace_us:
            self._leave(at, out)

    def _leave(self, at: int, out: list[Action]) -> None:
        """Nothing comes any more: its process is stopped, or hangs."""
        self.search.leave()
        self._close(at, SILENT, out)

    def _part(self, out: list[Action]) -> None:
        out += [CancelTimer("attempt"), CancelTimer("again"), CancelTimer("look")]
        if self._stream >= 0:
            out.append(CloseStream(self._stream))
        self.stage, self._stream = Stage.IDLE, -1
        self._appends.clear()
        self._others.clear()
        for pending in list(self._pending.values()):
            was_sent = bool(pending.request)
            closed = Maybe if was_sent and pending.kind in UNKNOWN else MachineError
            self._settle(pending, closed("the server is gone: closed here"), out)

    # --- time --------------------------------------------------------------------------------------------------------

    def _on_timer(self, at: int, key: tuple[str | int, ...], out: list[Action]) -> None:
        match key:
            case ("time", int(ticket)):
                if (pending := self._pending.get(ticket)) is not None:
                    pending.is_armed = False
                    self._expire(at, pending, out)
            case ("rest", int(ticket)):
                if (pending := self._pending.get(ticket)) is not None:
                    pending.is_resting = False
                    self._wait(at, pending, out)
            case ("attempt",):
                out.append(CloseStream(self._stream))
                self._fail_attempt(at, self._reason or "it does not answer", out)
            case ("again",):
                self.search.begin_round()
                self._attempt(at, out)
            case ("look",):
                self._look(at, out)

    def _expire(self, at: int, pending: Pending, out: list[Action]) -> None:
        """Settle a request whose deadline has passed."""
        if pending.request:
            self._out.forget(pending)
            is_unknown = pending.kind in UNKNOWN
            self._settle(pending, Maybe(SILENT) if is_unknown else Unanswered(SILENT), out)
            self._leave_if_silent(at, out)
            return
        self._take_out(pending)
        if self.stage is Stage.OPEN:
            is_question = pending.kind is Kind.QUESTION
            outcome = Unanswered(SILENT) if is_question else MachineError(f"the record was not sent: {SILENT}")
            self._settle(pending, outcome, out)
            self._leave_if_silent(at, out)
        else:
            self._settle(pending, MachineError(self.search.why()), out)

    def _look(self, at: int, out: list[Action]) -> None:
        """Whether the process at the other end still answers, also where nobody gave a deadline."""
        self.looks = self.looks + 1 if self._out.sent else 0
        if self.looks >= GIVE_UP_AT:
            self._leave(at, out)
            return
        if self.looks == ASK_AT:  # whatever it says is a sign of life; nobody waits for this answer
            self._out.say(wire.Question(self._out.number(), "end"), out)
        out.append(SetTimer("look", self.patience.look_every_us))

    # --- what the server says ----------------------------------------------------------------------------------------

    def _receive(self, at: int, data: bytes | memoryview, out: list[Action]) -> None:
        self._heard_at, self.looks = at, 0
        stream = self._stream
        try:
            for frame in self._frames.feed(data):
                self._on_frame(at, frame, out)
                if self._stream != stream:
                    return
        except RemoteProtocolError as error:
            self._close(at, str(error), out)

    def _on_frame(self, at: int, frame: wire.ServerFrame, out: list[Action]) -> None:
        match frame:
            case wire.Ordered(requests=requests, positions=positions):
                for request, position in zip(requests, positions, strict=False):
                    self._on_answer(request, position, out)
            case wire.Unordered(request=request, is_maybe=is_maybe, reason=reason, message=message):
                self._on_answer(request, Maybe(reason, message) if is_maybe else Refused(reason), out)
            case wire.Entries(request=request) | wire.RedMessage(request=request) | wire.White(request=request):
                pending = self._out.sent.get(request)
                if pending is not None and pending.kind in (Kind.FOLLOW, Kind.RED):
                    self._on_fed(pending, frame, out)
                else:
                    self._on_answer(request, frame, out)
            case wire.Told(request=request, answer=answer):
                self._on_answer(request, answer, out)
            case wire.Failed(request=0, kind=kind, reason=reason):
                self._reason = reason
                if kind == "RemoteProtocolError":
                    self._refusal = LocalProtocolError(f"the server ended the connection: {reason}")
                elif kind == "Refused":
                    self._refusal = MachineError(reason)
            case wire.Failed(request=request, kind=kind, reason=reason):
                self._on_answer(request, error_of(kind, reason), out)
            case wire.Welcome():
                if self.stage is Stage.GREETING:
                    self._on_welcome(at, frame, out)

    def _on_fed(self, pending: Pending, frame: wire.Fed, out: list[Action]) -> None:
        """It goes on behind this, wherever."""
        pending.pause_us, pending.untaken = AGAIN_US, pending.untaken + 1
        if isinstance(pending.body, wire.Follow) and isinstance(frame, wire.Entries):
            pending.body = wire.Follow(0, frame.first + len(frame.records), pending.body.credit)
        out.append(FrameCame(pending.ticket, frame))

    def _on_answer(self, request: int, outcome: object, out: list[Action]) -> None:
        pending = self._out.answered(request)
        if pending is not None:
            self._others.pop(pending.ticket, None)  # a state that is answered before its last piece
            self._settle(pending, outcome, out)
