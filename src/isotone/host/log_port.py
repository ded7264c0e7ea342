"""The port of a replica: other processes append, read, follow and ask how it stands. See `log_wire`.

Everything is bounded: a connection that has too much open is not read from until some of it is answered, and what it
follows comes no faster than it takes it. While the kernel takes no more for a client, since it does not read, nothing
is read from it either, and what is large waits to be made: one frame of it more than the transport holds at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import cast

from isotone.core.errors import IsotoneError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import Snapshot
from isotone.corel.configuration import decode_rule
from isotone.host import log_wire as wire
from isotone.host.answers import Maybe, Refused
from isotone.host.arguments import WITHIN_MAX_S
from isotone.host.liveness import notice_loss
from isotone.host.log_feeds import FOLLOW_BATCH, Credit, feed, fitting
from isotone.host.log_questions import answer
from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")

OPEN_APPENDS_MAX = 4_096
OPEN_BYTES_MAX = 16 * 1024 * 1024
CONNECTIONS_MAX = 4_096
TASKS_MAX = 256
HELLO_WITHIN_S = 10.0
STATE_BYTES_MAX = 1 << 31
"""Of all snapshots that come in pieces just now, or are being written: they are kept in memory."""
PIECE_WITHIN_S = 60.0
"""A snapshot of which no piece comes for so long holds no memory any more."""
NO_ROOM = "there is no room for this state: all that come at once have at most {} bytes"
TOO_SLOW = "the state did not come in time: its pieces were too far apart"
MS = 1_000

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
    ) -> None:
        self.replica, self.hello_within_s, self.piece_within_s = replica, hello_within_s, piece_within_s
        self.judge = judge  # who may use the log
        self.judge_change = judge_change  # who may change its servers and their rule
        self.address = ""
        self.coming_bytes = 0  # of snapshots that are not written yet
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
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._credits: dict[int, Credit] = {}
        self._open, self._open_bytes = 0, 0
        self._requests: list[int] = []  # ordered in this turn
        self._positions: list[int] = []
        self._flushing = False
        self._writable = asyncio.Event()  # what was written was taken, all but a little
        self._writable.set()
        self._offer: _Offer | None = None  # a snapshot that is coming

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
        self._drop_offer()
        for task in self._tasks.values():
            task.cancel()

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
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

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
        if isinstance(frame, wire.AppendMany) and self._hello is not None:
            self._append(frame)
        elif isinstance(frame, wire.Hello):
            self._greet(frame)
        elif self._hello is None:
            raise RemoteProtocolError("a client says hello first")
        elif isinstance(frame, wire.Taken):
            if (credit := self._credits.get(frame.request)) is not None:
                credit.add(frame.size)
        elif isinstance(frame, wire.OfferSnapshot):
            self._take_piece(frame)
        elif isinstance(frame, wire.Cancel):
            if (task := self._tasks.get(frame.request)) is not None:
                task.cancel()
        else:
            self._begin(frame.request, self._work(frame.request, frame))

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

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _append(self, frame: wire.AppendMany) -> None:
        within_s = _within_s(frame.within_ms)
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
        """One state at a time comes over a connection; one that is not taken is passed over to its end."""
        if self._offer is None or self._offer.request != piece.request:
            self._drop_offer()
            self._offer = _Offer(piece.request)
        offer = self._offer
        if self._port.coming_bytes + len(piece.piece) > STATE_BYTES_MAX:
            self._refuse_offer(offer, NO_ROOM.format(STATE_BYTES_MAX))
        if not offer.refused:
            offer.pieces.append(piece.piece)
            self._port.coming_bytes += len(piece.piece)
            offer.await_piece(self._loop.call_later(self._port.piece_within_s, self._refuse_offer, offer, TOO_SLOW))
        if not piece.is_last:
            return
        state = b"".join(offer.pieces)
        self._drop_offer()
        if offer.refused:
            self._send(wire.Failed(piece.request, "LocalProtocolError", offer.refused))
            return
        keeping = self._begin(piece.request, self._keep(piece.request, Snapshot(piece.position, state)))
        self._port.coming_bytes += len(state)
        keeping.add_done_callback(lambda _: self._give_back(len(state)))

    def _refuse_offer(self, offer: _Offer, reason: str) -> None:
        """What came of it is gone; the client hears why at its end."""
        self._give_back(offer.empty())
        offer.refused = offer.refused or reason

    def _drop_offer(self) -> None:
        if self._offer is not None:
            self._give_back(self._offer.empty())
            self._offer = None

    def _give_back(self, size: int) -> None:
        self._port.coming_bytes -= size

    async def _keep(self, request: int, snapshot: Snapshot) -> None:
        await self._log.offer_snapshot(snapshot)
        self._send(wire.Told(request, snapshot.position))

    # --- what takes time -------------------------------------------------------------------------------------------

    def _begin(self, request: int, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        if request in self._tasks:
            work.close()
            raise RemoteProtocolError(f"request {request} is open already")
        if len(self._tasks) >= TASKS_MAX:
            work.close()
            work = _refuse(f"{TASKS_MAX} requests are open already: this one is too many")
        task = self._loop.create_task(self._answer(request, work))
        self._tasks[request] = task
        task.add_done_callback(partial(self._ended, request, work))
        return task

    def _ended(self, request: int, work: Coroutine[None, None, None], task: asyncio.Task[None]) -> None:
        work.close()  # if its client was gone before it began
        del self._tasks[request]
        self._credits.pop(request, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("replica: a request failed", exc_info=task.exception())
            self._send(wire.Failed(request, "MachineError", "the server's log says why"))

    async def _answer(self, request: int, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except IsotoneError as error:
            self._send(wire.Failed(request, type(error).__name__, str(error)))

    async def _work(self, request: int, frame: wire.ClientFrame) -> None:
        replica = self._log
        match frame:
            case wire.ReadRange(first=first, last=last):
                await self._room()
                self._read(request, first, last)
            case wire.Follow() | wire.FollowRed() | wire.FollowWhite():
                await self._follow(frame)
            case wire.WaitFor(position=position, within_ms=within_ms):
                await replica.wait_for(position, within_s=_within_s(within_ms))
                self._send(wire.Told(request, position))
            case wire.Reconfigure():
                await self._change(frame)
                self._send(wire.Told(request, True))
            case wire.Question(what=what, argument=argument):
                await self._room()
                self._send(wire.Told(request, await answer(replica, what, argument)))

    async def _change(self, wanted: wire.Reconfigure) -> None:
        """Judged anew each time: what the client may do may have changed."""
        assert self._hello is not None
        if reason := self._port.judge_change(self._hello.name, self._hello.credential, self._peer()):
            raise Refused(reason)
        await self._log.reconfigure(
            add=wanted.add,
            remove=wanted.remove,
            rule=decode_rule(wanted.rule) if wanted.rule else None,
            votes=dict(wanted.votes),
            within_s=_within_s(wanted.within_ms),
        )

    def _read(self, request: int, first: int, last: int) -> None:
        entries = self._log.entries.read(first, min(last, first + FOLLOW_BATCH - 1))
        self._send(fitting(request, first, entries))

    async def _follow(self, wanted: wire.Wanted) -> None:
        """When the server ends, so does this connection, and nothing more is to be said."""
        credit = self._credits[wanted.request] = Credit(wanted.credit)
        async with aclosing(feed(self._log, wanted)) as frames:
            while True:
                await credit.any()
                frame = await self._next(frames)
                if frame is None:
                    return
                await self._room()
                credit.take(frame.size)
                self._send(frame)

    async def _next(self, frames: AsyncGenerator[wire.Fed, None]) -> wire.Fed | None:
        try:
            return await anext(frames, None)
        except MachineError:
            if self._log.has_ended:
                return None
            raise


async def _refuse(reason: str) -> None:
    raise Refused(reason)


def _within_s(within_ms: int) -> float | None:
    """As a client says it: 0 is no deadline."""
    return min(within_ms / MS, WITHIN_MAX_S) if within_ms else None


class _Offer:
    """A snapshot on its way here."""

    def __init__(self, request: int) -> None:
        self.request, self.refused = request, ""  # why it is not taken
        self.pieces: list[bytes] = []
        self._deadline: asyncio.TimerHandle | None = None  # for the next piece

    def await_piece(self, deadline: asyncio.TimerHandle) -> None:
        """One came: the next has as long again."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = deadline

    def empty(self) -> int:
        """Hold nothing, and wait for nothing; how much that was."""
        if self._deadline is not None:
            self._deadline.cancel()
        pieces, self.pieces = self.pieces, []
        return sum(map(len, pieces))
