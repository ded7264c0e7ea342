"""A replica's log from another process: `RemoteLog` is an `OrderedLog` over a stream to one of its servers.

It stays with the first server that answers and goes to another one when the stream breaks; what is said, and when, is
the affair of `isotone.corel.port.client`. The time that a caller gives is kept here, whatever the server does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

import msgspec

from isotone.core.addresses import split_address
from isotone.core.contract import Action, Address
from isotone.core.errors import InputError, LocalProtocolError, RemoteProtocolError
from isotone.core.ordered_log import LogEntry, Snapshot
from isotone.corel.configuration import Configuration, encode_rule
from isotone.corel.message import Message
from isotone.corel.port import wire
from isotone.corel.port.client import SILENT, PortClient
from isotone.corel.port.events import Parting, Unanswered
from isotone.corel.port.search import Patience
from isotone.corel.quorum import Primary, Rule
from isotone.corel.wire import CODEC, State
from isotone.host.answers import NotYet
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
from isotone.host.port_shell import PortShell
from isotone.replicated.port_log import FOLLOW_CREDIT, PortLog

CLOSE_WITHIN_S = 1.0


class RemoteLog:
    """The log of the servers at these addresses (``host:port``), on the running loop."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        name: str = "client",
        credential: bytes = b"",
        patience: Patience | None = None,
    ) -> None:
        if not isinstance(addresses, Iterable):
            raise LocalProtocolError(f"name the addresses of servers, host:port each, not {addresses!r}")
        named = (addresses,) if isinstance(addresses, str) else tuple(addresses)
        self.addresses = tuple(checked_text(each, "the address of a server") for each in named)
        if not self.addresses:
            raise LocalProtocolError("name the address of at least one server")
        hello = wire.Hello(
            wire.VERSION, checked_text(name, "a client's name"), checked_bytes(credential, "a credential")
        )
        self.client = PortClient([Address(each) for each in self.addresses], hello, patience)
        self._shell: PortShell | None = None
        self._opened: PortLog | None = None

    @property
    def server(self) -> str:
        """That serves, or did last."""
        return self.client.server

    @property
    def patience(self) -> Patience:
        """How long it waits for servers; may be changed."""
        return self.client.patience

    @property
    def _log(self) -> PortLog:
        """On the running loop."""
        if self._opened is None:
            for each in self.addresses:
                try:
                    split_address(each)[0].encode("idna")
                except (InputError, ValueError) as error:
                    raise LocalProtocolError(f"{each!r} is no address: {error}") from None
            self._shell = PortShell(self.client, self._perform)
            self._opened = PortLog(self.client, self._shell)
        return self._opened

    def _perform(self, action: Action) -> None:
        assert self._opened is not None
        taken = self._opened.take(action)
        assert taken, f"a client of the port has no such action: {action}"

    async def __aenter__(self) -> RemoteLog:
        await self._log.connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Part from the server."""
        shell = self._shell
        if shell is None:
            return
        shell.hand(Parting(shell.now()))
        shell.shut()
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await shell.gone()
        except TimeoutError:
            for stream in list(shell.streams.values()):
                stream.abort()
            await shell.gone()

    # --- the log ---------------------------------------------------------------------------------------------------

    async def append(self, record: bytes, *, within_s: float | None = None) -> int:
        """Order the record and return its position; `Maybe` when nobody can say, `Refused` when it is not taken,
        `MachineError` when no server answers, so that it was not sent.

        ``within_s`` is the time for all of it. A server that does not answer at its end has a second more, since it
        knows why the record is not green; then the answer is `Maybe` all the same, and the next call goes elsewhere.
        """
        return await self._log.append(checked_bytes(record, "a record"), within_s=checked_within(within_s))

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries ``first`` … ``last`` as far as they are green at the server."""
        return await self._log.read(*checked_range(first, last))

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on, without end, through losses of servers."""
        async for entry in self._log.follow(checked_position(first)):
            yield entry

    async def red(self) -> AsyncIterator[Message]:
        """Messages from now on as they reach the disk of the server that serves, before any order is known.

        Another server has others: when this one is lost, `MachineError` says so, and who goes on has missed some.
        """
        async with aclosing(self._log.followed(wire.FollowRed(0, FOLLOW_CREDIT), elsewhere=False)) as frames:
            async for frame in frames:
                assert isinstance(frame, wire.RedMessage)
                yield msgspec.msgpack.decode(frame.message, type=Message)

    async def white(self) -> AsyncIterator[int]:
        """The position up to which every server has everything, whenever it rises; through losses of servers."""
        last = 0
        async with aclosing(self._log.followed(wire.FollowWhite(0, 1))) as frames:
            async for frame in frames:
                assert isinstance(frame, wire.White)
                if frame.position > last:  # another server may know less
                    last = frame.position
                    yield last

    async def wait_for(self, position: int, *, within_s: float | None = None) -> None:
        """Until this position is green at the server; `NotYet` when it is not in time."""
        position, within_s = checked_number(position, "a position"), checked_within(within_s)
        try:
            await self._log.asked(wire.WaitFor(0, position, 0), within_s=within_s)
        except Unanswered:
            raise NotYet(f"whether position {position} is green is not known: {SILENT}") from None

    async def end(self) -> int:
        """The last position that is green at the server, 0 when there is none."""
        return await self._log.end()

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if there is one."""
        return await self._log.snapshot()

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand in a snapshot."""
        await self._log.offer_snapshot(checked_snapshot(snapshot))

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
        rule, given = checked_rule(rule), checked_votes(votes)
        encoded = encode_rule(rule) if rule is not None else b""
        frame = wire.Reconfigure(0, add, remove, 0, encoded, given)
        await self._log.asked(frame, within_s=checked_within(within_s), is_change=True)

    async def status(self) -> dict[str, Any]:
        """How the server stands: a `ReplicaStatus`."""
        status: dict[str, Any] = await self.ask("status")
        return status

    async def messages(self, after: int, count: int) -> list[Message]:
        """The messages behind a place of the order, with all that a server keeps of them, as many as it likes."""
        after, count = checked_number(after, "a place"), checked_number(count, "a count")
        told = await self.ask("messages", f"{after} {count}")
        return [msgspec.msgpack.decode(each, type=Message) for each in told]

    async def primaries(self) -> list[Primary]:
        """The last primary component that the server knows of, and those that may have come after it."""
        told = await self.ask("primaries")
        return [msgspec.msgpack.decode(each, type=Primary) for each in told]

    async def forcings(self) -> list[tuple[int, Configuration]]:
        """The fence that the server knows of, with the configuration that it made and that of the green prefix."""
        fence, *told = await self.ask("forcing")
        return [(int(fence), msgspec.msgpack.decode(each, type=Configuration)) for each in told]

    async def state(self) -> State:
        """What the server would say of itself and of the others in a view."""
        told = CODEC.decode(await self.ask("state"))
        if not isinstance(told, State):
            raise RemoteProtocolError("a server said something else than its state")
        return told

    async def ask(self, what: str, argument: str = "") -> Any:
        """The answer to a question of what stands on the log at the server; see `isotone.host.log_questions`."""
        return await self._log.asked(wire.Question(0, what, argument))

    async def explain(self, message: str = "") -> str:
        """Why there is no primary component, or why this message is not green; empty when all is well."""
        name = checked_text(message, "the name of a message")
        return str(await self.ask("explain", name))
