"""A replica's log from another process: `RemoteLog` is an `OrderedLog` over a stream to one of its servers.

It stays with the first server that answers and goes to another one when the stream breaks. An append whose answer is
lost with the stream is *maybe*: it is never sent a second time by itself, for it may stand in the order already.
Reading and following go on elsewhere, at the same position. The time that a caller gives is kept here, whatever the
server does: one that is stopped, or whose machine is gone, answers nothing. Who gives none is told too (see `pulse`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any

import msgspec

from isotone.client.streams import said
from isotone.core.addresses import split_address
from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import LogEntry, Snapshot
from isotone.corel.configuration import Configuration, encode_rule
from isotone.corel.message import Message
from isotone.corel.quorum import Primary, Rule
from isotone.corel.wire import CODEC, State
from isotone.host import log_wire as wire
from isotone.host.answers import Maybe, NotYet
from isotone.host.arguments import (
    checked_bytes,
    checked_number,
    checked_position,
    checked_range,
    checked_rule,
    checked_snapshot,
    checked_text,
    checked_votes,
    checked_within,
)
from isotone.host.deadline import NO_DEADLINE, Deadline, within
from isotone.host.log_stream import FOLLOW_CREDIT, SILENT, Stream
from isotone.host.pulse import LOOK_EVERY_S

CONNECT_WITHIN_S = 5.0
AGAIN_S = 0.05
AGAIN_MAX_S = 1.0
GRACE_S = 1.0
"""So much longer than its deadline a call waits for the answer of the server, which knows why."""
CLOSE_WITHIN_S = 1.0


class Pauses:
    """Between one attempt and the next, longer and longer."""

    def __init__(self) -> None:
        self.next_s = AGAIN_S

    async def wait(self, deadline: Deadline = NO_DEADLINE) -> None:
        """One of them, not beyond the deadline."""
        left_s = deadline.left_s
        await asyncio.sleep(self.next_s if left_s is None else min(self.next_s, left_s))
        self.next_s = min(2 * self.next_s, AGAIN_MAX_S)


class Unwelcome(MachineError):
    """The server answers, and does not take this client: its credential, its permission, its version."""


class RemoteLog:
    """The log of the servers at these addresses (``host:port``), on the running loop."""

    def __init__(self, addresses: str | Sequence[str], *, name: str = "client", credential: bytes = b"") -> None:
        if not isinstance(addresses, Iterable):
            raise LocalProtocolError(f"name the addresses of servers, host:port each, not {addresses!r}")
        named = (addresses,) if isinstance(addresses, str) else tuple(addresses)
        self.addresses = tuple(checked_text(each, "the address of a server") for each in named)
        if not self.addresses:
            raise LocalProtocolError("name the address of at least one server")
        self.server = ""  # that serves
        self.connect_within_s, self.grace_s, self.look_every_s = CONNECT_WITHIN_S, GRACE_S, LOOK_EVERY_S
        self.tries_again = True  # when no server answers, as long as there is time; or says so at once
        self._hello = wire.Hello(
            wire.VERSION, checked_text(name, "a client's name"), checked_bytes(credential, "a credential")
        )
        self._stream: Stream | None = None
        self._connecting = asyncio.Lock()
        self._next = 0

    async def __aenter__(self) -> RemoteLog:
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Part from the server."""
        stream, self._stream = self._stream, None
        if stream is not None and not stream.lost.done():
            stream.close()
            await asyncio.wait([stream.lost], timeout=CLOSE_WITHIN_S)
            if not stream.lost.done():
                stream.abort("closed here")
                await stream.lost

    # --- connections -----------------------------------------------------------------------------------------------

    async def _connected(self, deadline: Deadline = NO_DEADLINE) -> Stream:
        """The stream that is open, or another one; raises `MachineError` when no server answers in time."""
        if self._stream is not None and self._stream.is_open:
            return self._stream
        left_s = deadline.left_s
        within_s = self.connect_within_s if left_s is None else min(left_s, self.connect_within_s)
        reasons: dict[str, str] = {}
        try:
            async with asyncio.timeout(within_s), self._connecting:
                if self._stream is None or not self._stream.is_open:
                    if self._stream is not None and self._stream.is_silent:
                        self._next += 1
                    self._stream = None
                    self._stream = await self._find(Deadline(within_s), reasons)
                return self._stream
        except TimeoutError:
            raise MachineError(f"no server of the log answers: {_listed(reasons) or 'no answer'}") from None

    async def _find(self, deadline: Deadline, reasons: dict[str, str]) -> Stream:
        """The first that answers. One that says nothing has its share of the time, so that the next has one too.

        What one refuses it refuses again: then the others are tried once, and no more.
        """
        pauses, is_refused = Pauses(), False
        while True:
            for tried in range(len(self.addresses)):
                address = self.addresses[self._next % len(self.addresses)]
                assert deadline.left_s is not None
                try:
                    async with asyncio.timeout(deadline.left_s / (len(self.addresses) - tried)):
                        return await self._open(address)
                except (OSError, MachineError) as error:  # TimeoutError is an OSError
                    known = isinstance(error, OSError) and error.errno
                    reasons[address] = said(error) if known else str(error) or "it does not answer"
                    is_refused = is_refused or isinstance(error, Unwelcome)
                    self._next += 1
            if is_refused:
                raise MachineError(f"no server of the log takes this client: {_listed(reasons)}")
            if not self.tries_again:
                raise MachineError(f"no server of the log answers: {_listed(reasons)}")
            await pauses.wait()

    async def _open(self, address: str) -> Stream:
        try:
            host, port = split_address(address)
        except InputError as error:
            raise LocalProtocolError(str(error)) from None
        loop = asyncio.get_running_loop()
        try:
            made = partial(Stream, self.look_every_s)
            _, stream = await loop.create_connection(made, host, port)
        except ValueError as error:  # no name of a host looks like this
            raise LocalProtocolError(f"{address!r} is no address: {error}") from error
        stream.write(self._hello)
        try:
            self.server = await stream.welcome
        except BaseException as error:
            stream.close()
            if isinstance(error, MachineError) and stream.refusal is not None:
                raise Unwelcome(str(error)) from None
            raise
        return stream

    def _drop_if_silent(self, stream: Stream) -> None:
        """A server answers at a deadline, whatever it answers. One that says nothing at all meanwhile is of no use."""
        silent_s = asyncio.get_running_loop().time() - stream.heard_at
        if silent_s >= self.grace_s:
            stream.drop_silent()

    async def _ask(self, make: Any, deadline: Deadline = NO_DEADLINE) -> Any:
        """A question that may be asked again elsewhere; `TimeoutError` when nobody answers in time."""
        pauses = Pauses()
        while True:
            stream = await self._connected(deadline)
            try:
                return await within(self._patience_s(deadline), stream.ask(make))
            except TimeoutError:
                self._drop_if_silent(stream)
                raise
            except (ConnectionResetError, Maybe):
                if not stream.lost.done():
                    raise
                stream.check_refusal()
            await pauses.wait(deadline)

    def _patience_s(self, deadline: Deadline) -> float | None:
        """A little longer than the server has: it knows better why."""
        return None if deadline.left_s is None else deadline.left_s + self.grace_s

    # --- the log ---------------------------------------------------------------------------------------------------

    async def append(self, record: bytes, *, within_s: float | None = None) -> int:
        """Order the record and return its position; `Maybe` when nobody can say, `Refused` when it is not taken,
        `MachineError` when no server answers, so that it was not sent.

        ``within_s`` is the time for all of it. A server that does not answer at its end has a second more, since it
        knows why the record is not green; then the answer is `Maybe` all the same, and the next call goes elsewhere.
        """
        record, within_s = checked_bytes(record, "a record"), checked_within(within_s)
        deadline = Deadline(within_s)
        while True:
            stream = await self._connected(deadline)
            try:
                await within(deadline.left_s, stream.room())
            except ConnectionResetError:
                continue  # it was not sent
            except TimeoutError:
                self._drop_if_silent(stream)
                raise MachineError(f"the record was not sent: {SILENT}") from None
            try:
                return await within(self._patience_s(deadline), stream.append(record, deadline))
            except TimeoutError:
                self._drop_if_silent(stream)
                raise Maybe(SILENT) from None

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries ``first`` … ``last`` as far as they are green at the server."""
        first, last = checked_range(first, last)
        found: list[LogEntry] = []
        while first <= last:
            begin = first
            answer = await self._ask(lambda request, at=begin: wire.ReadRange(request, at, last))
            if not answer.records:
                break
            found += answer.entries()
            first += len(answer.records)
        return found

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on, without end, through losses of servers."""
        first = checked_position(first)
        async with aclosing(self._followed(lambda request: wire.Follow(request, first, FOLLOW_CREDIT))) as frames:
            async for frame in frames:
                assert isinstance(frame, wire.Entries)
                for entry in frame.entries():
                    yield entry
                first = frame.first + len(frame.records)

    async def red(self) -> AsyncIterator[Message]:
        """Messages from now on as they reach the disk of the server that serves, before any order is known.

        Another server has others: when this one is lost, `MachineError` says so, and who goes on has missed some.
        """
        wanted = self._followed(lambda request: wire.FollowRed(request, FOLLOW_CREDIT), elsewhere=False)
        async with aclosing(wanted) as frames:
            async for frame in frames:
                assert isinstance(frame, wire.RedMessage)
                yield msgspec.msgpack.decode(frame.message, type=Message)

    async def white(self) -> AsyncIterator[int]:
        """The position up to which every server has everything, whenever it rises; through losses of servers."""
        last = 0
        async with aclosing(self._followed(lambda request: wire.FollowWhite(request, 1))) as frames:
            async for frame in frames:
                assert isinstance(frame, wire.White)
                if frame.position > last:  # another server may know less
                    last = frame.position
                    yield last

    async def _followed(
        self, make: Callable[[int], wire.Wanted], *, elsewhere: bool = True
    ) -> AsyncGenerator[wire.Fed, None]:
        """What comes, one after another; ``elsewhere``: it goes on at another server when one is lost."""
        pauses = Pauses()
        while True:
            stream = await self._connected()
            request, follower = stream.follow(make)
            try:
                while not isinstance(frame := await follower.frames.get(), IsotoneError):
                    yield frame
                    pauses = Pauses()
                    if not stream.lost.done():
                        stream.write(wire.Taken(request, frame.size))
                if not (elsewhere and stream.lost.done()):
                    raise frame
                stream.check_refusal()
            finally:
                stream.unfollow(request)
            await pauses.wait()

    async def wait_for(self, position: int, *, within_s: float | None = None) -> None:
        """Until this position is green at the server; `NotYet` when it is not in time."""
        position, deadline = checked_number(position, "a position"), Deadline(checked_within(within_s))
        try:
            await self._ask(lambda request: wire.WaitFor(request, position, deadline.left_ms), deadline)
        except TimeoutError:
            raise NotYet(f"whether position {position} is green is not known: {SILENT}") from None

    async def end(self) -> int:
        """The last position that is green at the server, 0 when there is none."""
        return int(await self._ask(lambda request: wire.Question(request, "end")))

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if there is one."""
        found, pieces, size = (0, b""), list[bytes](), 0
        while True:
            asked = f"{found[0]} {size}"
            told = await self._ask(lambda request, asked=asked: wire.Question(request, "snapshot", asked))
            if told is None:
                return None
            position, digest, whole, piece = told
            if (position, digest) != found:  # a newer one, or that of another server
                behind = position == found[0] and size > 0
                found, pieces, size = (position, digest), [], 0
                if behind:
                    continue
            pieces.append(piece)
            size += len(piece)
            if size >= whole:
                return Snapshot(position, b"".join(pieces))

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand in a snapshot."""
        snapshot = checked_snapshot(snapshot)
        await (await self._connected()).offer(snapshot)

    async def reconfigure(
        self,
        *,
        add: str = "",
        remove: str = "",
        rule: Rule | None = None,
        votes: Mapping[str, int] | None = None,
        within_s: float = 30.0,
    ) -> None:
        """Add a server that has caught up, or remove one, or change the quorum rule or the votes; `Refused` with the
        reason, `Maybe` when it is not green.
        """
        add, remove = checked_text(add, "the name of a server"), checked_text(remove, "the name of a server")
        rule, given, deadline = checked_rule(rule), checked_votes(votes), Deadline(checked_within(within_s))
        encoded = encode_rule(rule) if rule is not None else b""
        stream = await self._connected(deadline)
        try:
            await within(
                self._patience_s(deadline),
                stream.ask(lambda request: wire.Reconfigure(request, add, remove, deadline.left_ms, encoded, given)),
            )
        except TimeoutError:
            self._drop_if_silent(stream)
            raise Maybe(SILENT) from None

    async def status(self) -> dict[str, Any]:
        """How the server stands: a `ReplicaStatus`."""
        status: dict[str, Any] = await self._ask(lambda request: wire.Question(request, "status"))
        return status

    async def messages(self, after: int, count: int) -> list[Message]:
        """The messages behind a place of the order, with all that a server keeps of them, as many as it likes."""
        after, count = checked_number(after, "a place"), checked_number(count, "a count")
        told = await self._ask(lambda request: wire.Question(request, "messages", f"{after} {count}"))
        return [msgspec.msgpack.decode(each, type=Message) for each in told]

    async def primaries(self) -> list[Primary]:
        """The last primary component that the server knows of, and those that may have come after it."""
        told = await self._ask(lambda request: wire.Question(request, "primaries"))
        return [msgspec.msgpack.decode(each, type=Primary) for each in told]

    async def forcings(self) -> list[tuple[int, Configuration]]:
        """The fence that the server knows of, with the configuration that it made and that of the green prefix."""
        fence, *told = await self._ask(lambda request: wire.Question(request, "forcing"))
        return [(int(fence), msgspec.msgpack.decode(each, type=Configuration)) for each in told]

    async def state(self) -> State:
        """What the server would say of itself and of the others in a view."""
        told = CODEC.decode(await self._ask(lambda request: wire.Question(request, "state")))
        if not isinstance(told, State):
            raise RemoteProtocolError("a server said something else than its state")
        return told

    async def ask(self, what: str, argument: str = "") -> Any:
        """The answer to a question of what stands on the log at the server; see `isotone.host.log_questions`."""
        return await self._ask(lambda request: wire.Question(request, what, argument))

    async def explain(self, message: str = "") -> str:
        """Why there is no primary component, or why this message is not green; empty when all is well."""
        name = checked_text(message, "the name of a message")
        return str(await self._ask(lambda request: wire.Question(request, "explain", name)))


def _listed(reasons: dict[str, str]) -> str:
    return "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
