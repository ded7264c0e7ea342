"""The port of a server of a replicated log: all its clients, as an automaton over byte streams.

It greets them, hands their requests to the log and its answers to them, and keeps the bounds; what finds the answers
is around it (`events`). It always reads: what a client may have open is said in its `Welcome`.

Implements: docs/protocols/host.md "The port". Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
)
from isotone.core.errors import IsotoneError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import Maybe, Refused
from isotone.corel.port import wire
from isotone.corel.port.connection import OPEN_APPENDS_MAX, OPEN_BYTES_MAX, REQUESTS_MAX, Connection
from isotone.corel.port.events import (
    AppendsAnswered,
    Dropped,
    LogEnded,
    NextFound,
    RecordsCame,
    SnapshotCame,
    WorkDone,
    WorkWanted,
)
from isotone.corel.port.offers import OfferRoom

Judge = Callable[[str, bytes, Address], str]
"""Why this name, with this credential, from this address, may not use the log; empty if it may."""


def anybody(name: str, credential: bytes, peer: Address) -> str:
    """No rule."""
    del name, credential, peer
    return ""


class PortTimes(msgspec.Struct):
    """How long a server waits for its clients, and how many it has."""

    hello_within_us: int = 10_000_000
    piece_within_us: int = 60_000_000
    """A snapshot of which no piece comes for so long holds no memory any more."""
    connections_max: int = 4_096


class PortServer:
    """The clients of one server. ``judge``: who may use the log; ``judge_change``: who may change its servers."""

    def __init__(
        self,
        server: str,
        *,
        judge: Judge = anybody,
        judge_change: Judge = anybody,
        times: PortTimes | None = None,
    ) -> None:
        self.server, self.times = server, times or PortTimes()
        self.judge, self.judge_change = judge, judge_change
        self.room = OfferRoom()
        self.connections: dict[int, Connection] = {}

    def handle(self, event: Event) -> list[Action]:
        """Let the client whose stream it is have it."""
        out: list[Action] = []
        match event:
            case StreamOpened(stream=stream, peer=peer):
                self._greet(stream, peer, out)
            case StreamReceived(stream=stream, data=data):
                if (client := self.connections.get(stream)) is not None:
                    self._receive(client, data, out)
            case AppendsAnswered():
                self._answer_appends(event, out)
            case LogEnded():
                for client in list(self.connections.values()):
                    self._close(client, out)
            case StreamClosed(stream=stream):
                if (client := self.connections.pop(stream, None)) is not None:
                    self._forget(client, out)
            case StreamWritable() | WorkDone() | NextFound():
                if (client := self.connections.get(event.stream)) is not None:
                    self._serve(client, event, out)
            case TimerFired(key=(str(what), int(stream))):
                if (client := self.connections.get(stream)) is not None:
                    self._on_timer(client, what, out)
        return out

    # --- streams -----------------------------------------------------------------------------------------------------

    def _greet(self, stream: int, peer: Address, out: list[Action]) -> None:
        client = self.connections[stream] = Connection(stream, peer, self.room)
        out.append(SetTimer(("hello", stream), self.times.hello_within_us))
        if len(self.connections) > self.times.connections_max:
            self._drop(client, "too many connections", out)

    def _receive(self, client: Connection, data: bytes | memoryview, out: list[Action]) -> None:
        try:
            for frame in client.frames.feed(data):
                self._on_frame(client, frame, out)
        except IsotoneError as error:
            self._drop(client, str(error), out, type(error))

    def _serve(self, client: Connection, event: StreamWritable | WorkDone | NextFound, out: list[Action]) -> None:
        try:
            if isinstance(event, StreamWritable):
                client.writable(out)
            elif isinstance(event, NextFound):
                client.found(event.request, event.frame, out)
            else:
                client.done(event.request, event.answer, out)
        except IsotoneError as error:
            self._drop(client, str(error), out, type(error))

    def _on_timer(self, client: Connection, what: str, out: list[Action]) -> None:
        if what == "hello":
            self._drop(client, "it did not say hello in time", out)
        else:
            client.offers.late()

    def _drop(
        self, client: Connection, reason: str, out: list[Action], kind: type[IsotoneError] = MachineError
    ) -> None:
        """``kind`` tells the client whether to come again makes sense."""
        out.append(Dropped(client.stream, reason))
        client.tell(wire.Failed(0, kind.__name__, reason), out)
        self._close(client, out)

    def _close(self, client: Connection, out: list[Action]) -> None:
        del self.connections[client.stream]
        self._forget(client, out)
        out.append(CloseStream(client.stream))

    def _forget(self, client: Connection, out: list[Action]) -> None:
        client.end(out)
        out += [CancelTimer(("hello", client.stream)), CancelTimer(("piece", client.stream))]

    # --- requests ----------------------------------------------------------------------------------------------------

    def _on_frame(self, client: Connection, frame: wire.ClientFrame, out: list[Action]) -> None:
        if isinstance(frame, wire.Hello):
            self._welcome(client, frame, out)
        elif client.hello is None:
            raise RemoteProtocolError("a client says hello first")
        elif isinstance(frame, wire.AppendMany):
            client.open(frame)
            out.append(RecordsCame(client.stream, frame.request, frame.within_ms, frame.records))
        elif isinstance(frame, wire.Taken):
            client.taken(frame.request, frame.size, out)
        elif isinstance(frame, wire.OfferSnapshot):
            self._take_piece(client, frame, out)
        elif isinstance(frame, wire.Cancel):
            client.cancel(frame.request, out)
        elif self._begins(client, frame.request, out):
            self._work(client, frame, out)

    def _welcome(self, client: Connection, hello: wire.Hello, out: list[Action]) -> None:
        if hello.version != wire.VERSION:
            raise RemoteProtocolError(f"version {hello.version} is not spoken here, but {wire.VERSION}")
        if client.hello is not None:
            raise RemoteProtocolError("a client says hello once")
        if reason := self.judge(hello.name, hello.credential, client.peer):
            raise Refused(f"refused: {reason}")
        client.hello = hello
        client.frames.bytes_max = wire.FRAME_BYTES_MAX
        out.append(CancelTimer(("hello", client.stream)))
        client.say(wire.Welcome(wire.VERSION, self.server, OPEN_APPENDS_MAX, OPEN_BYTES_MAX), out)

    def _begins(self, client: Connection, request: int, out: list[Action]) -> bool:
        if client.begin(request):
            return True
        reason = f"{REQUESTS_MAX} requests are open already: this one is too many"
        client.say(wire.Failed(request, Refused.__name__, reason), out)
        return False

    def _work(self, client: Connection, frame: wire.Lasting, out: list[Action]) -> None:
        match frame:
            case wire.Follow() | wire.FollowRed() | wire.FollowWhite():
                client.follow(frame, out)
            case wire.Reconfigure():
                assert client.hello is not None
                if reason := self.judge_change(client.hello.name, client.hello.credential, client.peer):
                    client.done(frame.request, wire.Failed(frame.request, Refused.__name__, reason), out)
                else:
                    out.append(WorkWanted(client.stream, frame))
            case wire.ReadRange() | wire.WaitFor() | wire.Question():
                client.work(frame, out)
            case _:
                assert_never(frame)

    def _take_piece(self, client: Connection, piece: wire.OfferSnapshot, out: list[Action]) -> None:
        state = client.offers.take(piece)
        key = ("piece", client.stream)
        out.append(
            SetTimer(key, self.times.piece_within_us)
            if client.offers.is_waiting and state is None
            else CancelTimer(key)
        )
        if state is None:
            return
        if isinstance(state, str):
            client.say(wire.Failed(piece.request, "LocalProtocolError", state), out)
        elif self._begins(client, piece.request, out):
            out.append(SnapshotCame(client.stream, piece.request, piece.position, state))
        else:
            client.offers.written(piece.request)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answer_appends(self, event: AppendsAnswered, out: list[Action]) -> None:
        """All that became green in one turn is one frame for each client."""
        ordered: dict[int, tuple[list[int], list[int]]] = {}
        for answer in event.answers:
            client = self.connections.get(answer.stream)
            if client is None or not client.answered(answer.request):
                continue
            if isinstance(answer.outcome, int):
                requests, positions = ordered.setdefault(answer.stream, ([], []))
                requests.append(answer.request)
                positions.append(answer.outcome)
            else:
                self._say(client, _unordered(answer.request, answer.outcome), out)
        for stream, (requests, positions) in ordered.items():
            if (client := self.connections.get(stream)) is not None:
                self._say(client, wire.Ordered(tuple(requests), tuple(positions)), out)

    def _say(self, client: Connection, frame: wire.Said, out: list[Action]) -> None:
        try:
            client.say(frame, out)
        except IsotoneError as error:
            self._drop(client, str(error), out)


def _unordered(request: int, outcome: IsotoneError) -> wire.Unordered:
    if isinstance(outcome, Maybe):
        return wire.Unordered(request, True, outcome.reason, outcome.message)
    return wire.Unordered(request, False, str(outcome))
