"""One stream to a server of a replicated log: requests, their answers, and what is followed. See `log_wire`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import Snapshot
from isotone.host import log_wire as wire
from isotone.host.answers import FellBehind, Maybe, NotYet, Refused
from isotone.host.deadline import Deadline
from isotone.host.liveness import notice_loss
from isotone.host.pulse import LOOK_EVERY_S, Pulse

FOLLOW_CREDIT = 4 * 1024 * 1024
OPEN_MAX = 65_536
TURN_BYTES_MAX = 4 * 1024 * 1024
"""Appends of one turn travel together up to this size; a larger one travels alone."""
RECORD_BYTES_MAX = wire.FRAME_BYTES_MAX - 1024
"""A frame holds no larger record."""
SILENT = "the server did not answer in time"
_KINDS: dict[str, type[IsotoneError]] = {
    "NotYet": NotYet,
    "FellBehind": FellBehind,
    "LocalProtocolError": LocalProtocolError,
    "InputError": InputError,
    "Refused": Refused,
    "Maybe": Maybe,
}


class Follower:
    """What is on its way to one who follows; bounded by its credit."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[wire.Fed | IsotoneError] = asyncio.Queue()


class Stream(asyncio.Protocol):
    """One connection."""

    def __init__(self, look_every_s: float = LOOK_EVERY_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: wire.Frames[wire.ServerFrame] = wire.Frames(wire.SERVER_FRAMES)
        self.welcome: asyncio.Future[str] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.reason = "the stream broke"
        self.refusal: IsotoneError | None = None  # the two do not fit, or one broke a rule: to ask again is no use
        self.heard_at = self._loop.time()  # when something came last
        self.is_silent = False  # it was given up since nothing came any more
        self._pulse = Pulse(look_every_s, is_awaited=self._is_awaited, ask=self._ask_pulse, give_up=self.drop_silent)
        self._last = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._followers: dict[int, Follower] = {}
        self._waiting: list[bytes] = []  # appends of this turn
        self._waiting_first, self._waiting_within, self._waiting_bytes = 0, 0, 0
        self._writable = asyncio.Event()
        self._writable.set()

    # --- the stream ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # other loops have classes of their own
        notice_loss(self._transport.get_extra_info("socket"))

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and self.refusal is None:
            self.reason = str(error)
        self._pulse.end()
        self._writable.set()
        self._waiting.clear()
        if not self.welcome.done():
            self.welcome.set_exception(MachineError(self.reason))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Maybe(f"the server is gone: {self.reason}"))
        for follower in self._followers.values():
            follower.frames.put_nowait(MachineError(f"the server is gone: {self.reason}"))
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def close(self) -> None:
        """We are done."""
        self.reason = "closed here"
        self._flush()
        self._transport.close()

    def abort(self, reason: str) -> None:
        """It is of no use: whoever waits for something hears it at once."""
        self.reason = reason
        self._transport.abort()

    @property
    def is_open(self) -> bool:
        """Whether anything can be asked here."""
        return not (self.lost.done() or self.is_silent)

    def drop_silent(self) -> None:
        """Nothing comes any more: its process is stopped, or hangs."""
        self.is_silent = True
        self.abort(SILENT)

    def _is_awaited(self) -> bool:
        return bool(self._answers or self._followers)

    def _ask_pulse(self) -> None:
        """Whatever it says is a sign of life; nobody waits for this answer."""
        self.write(wire.Question(self._number(), "end"))

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self._pulse.heard()
        try:
            for frame in self._frames.feed(data):
                self._on_frame(frame)
        except RemoteProtocolError as error:
            self.reason = str(error)
            self._transport.close()
        except Refused as error:
            self.reason, self.refusal = str(error), MachineError(str(error))
            self._transport.close()

    def _on_frame(self, frame: wire.ServerFrame) -> None:
        match frame:
            case wire.Ordered(requests=requests, positions=positions):
                for request, position in zip(requests, positions, strict=False):
                    self._settle(request, position)
            case wire.Unordered(request=request, is_maybe=is_maybe, reason=reason, message=message):
                self._settle(request, Maybe(reason, message) if is_maybe else Refused(reason))
            case wire.Entries(request=request) | wire.RedMessage(request=request) | wire.White(request=request):
                if request in self._followers:
                    self._followers[request].frames.put_nowait(frame)
                else:
                    self._settle(request, frame)
            case wire.Told(request=request, answer=answer):
                self._settle(request, answer)
            case wire.Failed(request=0, kind=kind, reason=reason):
                self.reason = reason
                if kind == "RemoteProtocolError":
                    self.refusal = LocalProtocolError(f"the server ended the connection: {reason}")
                elif kind == "Refused":
                    self.refusal = MachineError(reason)
            case wire.Failed(request=request, kind=kind, reason=reason):
                error = _KINDS.get(kind, MachineError)(reason)
                if request in self._followers:
                    self._followers[request].frames.put_nowait(error)
                self._settle(request, error)
            case wire.Welcome(version=version, server=server):
                if version != wire.VERSION:
                    raise Refused(f"{server} speaks version {version} of the log's port, this client {wire.VERSION}")
                if not self.welcome.done():
                    self.welcome.set_result(server)
                    self._pulse.begin()

    def _settle(self, request: int, outcome: object) -> None:
        answer = self._answers.pop(request, None)
        if answer is None or answer.done():
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    # --- asking ----------------------------------------------------------------------------------------------------

    def write(self, frame: wire.Said) -> None:
        """Behind the appends that wait."""
        self._flush()
        self._transport.write(wire.framed(frame))

    def _number(self) -> int:
        self._last += 1
        return self._last

    def check_refusal(self) -> None:
        """Raise why it ended, if that would be the same again."""
        if self.refusal is not None:
            raise self.refusal

    async def room(self) -> None:
        """Wait until the server takes more; `ConnectionResetError` when it is gone."""
        await self._writable.wait()
        if self.lost.done():
            raise ConnectionResetError(self.reason)

    async def append(self, record: bytes, deadline: Deadline) -> int:
        """Appends of one turn travel together, as far as a frame goes; there was `room` in this turn."""
        within_ms = deadline.left_ms
        if len(self._answers) >= OPEN_MAX:
            raise Refused(f"{OPEN_MAX} appends are open already")
        if len(record) > RECORD_BYTES_MAX:
            raise Refused(f"a record of {len(record)} bytes; through the port at most {RECORD_BYTES_MAX}")
        if self._waiting_within != within_ms or self._waiting_bytes + len(record) > TURN_BYTES_MAX:
            self._flush()
        request = self._number()
        answer: asyncio.Future[int] = self._loop.create_future()
        self._answers[request] = answer
        if not self._waiting:
            self._waiting_first, self._waiting_within = request, within_ms
            self._loop.call_soon(self._flush)
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        try:
            return await answer
        finally:
            self._answers.pop(request, None)

    def _flush(self) -> None:
        if self._waiting:
            records, self._waiting, self._waiting_bytes = tuple(self._waiting), [], 0
            frame = wire.AppendMany(self._waiting_first, self._waiting_within, records)
            self._transport.write(wire.framed(frame))

    async def ask(self, make: Any) -> Any:
        """Make a frame with a number, send it, wait for the answer."""
        if self.lost.done():
            raise ConnectionResetError(self.reason)
        request = self._number()
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[request] = answer
        self.write(make(request))
        try:
            return await answer
        except asyncio.CancelledError:
            if self._answers.pop(request, None) is not None and not self.lost.done():
                self.write(wire.Cancel(request))
            raise

    async def offer(self, snapshot: Snapshot) -> None:
        """Hand it over piece by piece, no faster than they are taken; wait for the answer."""
        state, size = memoryview(snapshot.state), wire.PIECE_BYTES_MAX
        request = self._number()
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[request] = answer
        for begin in range(0, len(state) or 1, size):
            await self._writable.wait()
            if self.lost.done():
                break  # then it is answered
            is_last = begin + size >= len(state)
            self.write(wire.OfferSnapshot(request, snapshot.position, bytes(state[begin : begin + size]), is_last))
        await answer

    def follow(self, make: Callable[[int], wire.Wanted]) -> tuple[int, Follower]:
        """Begin to follow what the frame that is made with a number asks for."""
        request = self._number()
        follower = self._followers[request] = Follower()
        self.write(make(request))
        return request, follower

    def unfollow(self, request: int) -> None:
        """Enough."""
        if self._followers.pop(request, None) is not None and not self.lost.done():
            self.write(wire.Cancel(request))
