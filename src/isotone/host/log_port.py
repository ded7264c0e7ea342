"""The port of a replica: other processes append, read, follow and ask how it stands. See `log_wire`.

Everything is bounded: a connection that has too much open is not read from until some of it is answered, and what it
follows comes no faster than it takes it. While the kernel takes no more for a client, since it does not read, nothing
is read from it either, and what is large waits to be made: one frame of it more than the transport holds at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from isotone.core.errors import IsotoneError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import Snapshot
from isotone.host import log_wire as wire
from isotone.host.answers import Maybe, Refused
from isotone.host.liveness import notice_loss
from isotone.host.log_offers import PIECE_WITHIN_S, OfferRoom, Offers
from isotone.host.log_work import Work, seconds
from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")

OPEN_APPENDS_MAX = 4_096
OPEN_BYTES_MAX = 16 * 1024 * 1024
CONNECTIONS_MAX = 4_096
HELLO_WITHIN_S = 10.0
ALIVE_EVERY_S = 5.0
"""While it does not read what a client asks, since too much of it is open, a server says so often that it is there."""

NOBODY = 0
"""No client has a request of this number."""

Judge = Callable[[str, bytes, str], str]
"""Why this name, with this credential, from this address, may not use the log; empty if it may."""


def anybody(name: str, credential: bytes, peer: str) -> str:
    """No rule."""
    del name, credential, peer
    return ""


class LogPort:
    """Listens for one replica."""

    def __init__(
        self,
        replica: ReplicaLog,
        *,
        judge: Judge = anybody,
        judge_change: Judge = anybody,
        hello_within_s: float = HELLO_WITHIN_S,
        piece_within_s: float = PIECE_WITHIN_S,
        alive_every_s: float = ALIVE_EVERY_S,
    ) -> None:
        self.replica, self.hello_within_s, self.piece_within_s = replica, hello_within_s, piece_within_s
        self.alive_every_s = alive_every_s
        self.judge = judge  # who may use the log
        self.judge_change = judge_change  # who may change its servers and their rule
        self.address = ""
        self.offers = OfferRoom()
        self.connections: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; `address` says where."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(partial(Connection, self), host, port)
        except OSError as error:
            raise MachineError(
                f"cannot listen on {host}:{port} for clients of the replica: {error.strerror}"
            ) from error
        name = self._server.sockets[0].getsockname()
        self.address = f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
        self._watch = loop.create_task(self._watch_replica())
        log.info("replica %s listens at %s", self.replica.settings.server, self.address)

    async def _watch_replica(self) -> None:
        """A server that ended by itself has no clients any more: they go to another one."""
        await self.replica.until_ended()
        self._close()

    async def stop(self) -> None:
        """Answer what can be answered, and close."""
        if self._watch is not None:
            self._watch.cancel()
        self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, port: LogPort) -> None:
        self._port, self._log = port, port.replica
        self._frames: wire.Frames[wire.ClientFrame] = wire.Frames(wire.CLIENT_FRAMES, wire.HELLO_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        self._hello: wire.Hello | None = None  # of one that may use the log
        self._deadline: asyncio.TimerHandle | None = None  # for it
        self._work = Work(self._log, send=self._send, room=self._room, why_no_change=self._why_no_change)
        self._offers = Offers(port.offers, port.piece_within_s)
        self._open, self._open_bytes = 0, 0
        self._requests: list[int] = []  # ordered in this turn
        self._positions: list[int] = []
        self._flushing = False
        self._writable = asyncio.Event()  # what was written was taken, all but a little
        self._writable.set()
        self._alive: asyncio.TimerHandle | None = None  # runs while nothing is read

    # --- the stream ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # other loops have classes of their own
        notice_loss(self._transport.get_extra_info("socket"))
        self._port.connections[self] = None
        self._deadline = self._loop.call_later(self._port.hello_within_s, self._give_up, "it did not say hello in time")
        if len(self._port.connections) > CONNECTIONS_MAX:
            self._give_up("too many connections")

    def connection_lost(self, error: Exception | None) -> None:
        self._port.connections.pop(self, None)
        self._cancel_deadline()
        self._stop_saying_alive()
        self._offers.drop()
        self._work.end()

    def close(self) -> None:
        """The server ends."""
        self._flush()
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._on_frame(frame)
        except IsotoneError as error:
            self._give_up(str(error), type(error))

    def pause_writing(self) -> None:
        self._writable.clear()
        self._look_at_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._look_at_reading()

    async def _room(self) -> None:
        """Wait until something large may be written; who is second finds it full again."""
        while not self._writable.is_set():
            await self._writable.wait()

    def _look_at_reading(self) -> None:
        """Nothing more is asked while much is open, or answers are not read."""
        if self._transport.is_closing():
            return
        has_room = self._open <= OPEN_APPENDS_MAX and self._open_bytes <= OPEN_BYTES_MAX
        if has_room and self._writable.is_set():
            self._stop_saying_alive()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            if self._alive is None:
                self._alive = self._loop.call_later(self._port.alive_every_s, self._say_alive)

    def _say_alive(self) -> None:
        """To a client whose questions are not read; one that reads nothing itself does not miss it."""
        if self._writable.is_set():
            self._send(wire.Told(NOBODY, None))
        self._alive = self._loop.call_later(self._port.alive_every_s, self._say_alive)

    def _stop_saying_alive(self) -> None:
        if self._alive is not None:
            self._alive.cancel()
            self._alive = None

    def _give_up(self, reason: str, kind: type[IsotoneError] = MachineError) -> None:
        """``kind`` tells the client whether to come again makes sense."""
        log.warning("replica %s: a client is dropped: %s", self._log.settings.server, reason)
        self._send(wire.Failed(0, kind.__name__, reason))
        self._transport.close()

    def _send(self, frame: wire.Said) -> None:
        if not self._transport.is_closing():
            self._transport.write(wire.framed(frame))

    # --- requests --------------------------------------------------------------------------------------------------

    def _on_frame(self, frame: wire.ClientFrame) -> None:
        if isinstance(frame, wire.Hello):
            self._greet(frame)
        elif self._hello is None:
            raise RemoteProtocolError("a client says hello first")
        elif isinstance(frame, wire.AppendMany):
            self._append(frame)
        elif isinstance(frame, wire.Taken):
            self._work.taken(frame.request, frame.size)
        elif isinstance(frame, wire.OfferSnapshot):
            self._take_piece(frame)
        elif isinstance(frame, wire.Cancel):
            self._work.cancel(frame.request)
        else:
            self._work.start(frame)

    def _greet(self, hello: wire.Hello) -> None:
        if hello.version != wire.VERSION:
            raise RemoteProtocolError(f"version {hello.version} is not spoken here, but {wire.VERSION}")
        if reason := self._port.judge(hello.name, hello.credential, self._peer()):
            raise Refused(f"refused: {reason}")
        self._hello = hello
        self._frames.bytes_max = wire.FRAME_BYTES_MAX
        self._cancel_deadline()
        self._send(wire.Welcome(wire.VERSION, self._log.settings.server))

    def _peer(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else ""

    def _why_no_change(self) -> str:
        assert self._hello is not None
        return self._port.judge_change(self._hello.name, self._hello.credential, self._peer())

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _append(self, frame: wire.AppendMany) -> None:
        within_s = seconds(frame.within_ms)
        for request, record in enumerate(frame.records, frame.request):
            self._open += 1
            self._open_bytes += len(record)
            try:
                self._log.submit(record, partial(self._answered, request, len(record)), within_s=within_s)
            except MachineError as error:
                self._answered(request, len(record), Maybe(str(error)))
        if self._open > OPEN_APPENDS_MAX or self._open_bytes > OPEN_BYTES_MAX:
            self._look_at_reading()

    def _answered(self, request: int, size: int, outcome: int | IsotoneError) -> None:
        self._open -= 1
        self._open_bytes -= size
        if isinstance(outcome, int):
            self._requests.append(request)
            self._positions.append(outcome)
        elif isinstance(outcome, Maybe):
            self._send(wire.Unordered(request, True, outcome.reason, outcome.message))
        else:
            self._send(wire.Unordered(request, False, str(outcome)))
        if not self._flushing:
            self._flushing = True
            self._log.host.at_the_end(self._flush)

    def _flush(self) -> None:
        """All that became green in one turn is one frame."""
        self._flushing = False
        if self._requests:
            requests, positions = tuple(self._requests), tuple(self._positions)
            self._requests.clear()
            self._positions.clear()
            self._send(wire.Ordered(requests, positions))
        self._look_at_reading()

    def _take_piece(self, piece: wire.OfferSnapshot) -> None:
        state = self._offers.take(piece)
        if state is None:
            return
        if isinstance(state, str):
            self._send(wire.Failed(piece.request, "LocalProtocolError", state))
            return
        size, room = len(state), self._port.offers
        keeping = self._work.begin(piece.request, self._keep(piece.request, Snapshot(piece.position, state)))
        room.held_bytes += size
        keeping.add_done_callback(lambda _: room.give_back(size))

    async def _keep(self, request: int, snapshot: Snapshot) -> None:
        await self._log.offer_snapshot(snapshot)
        self._send(wire.Told(request, snapshot.position))
