"""A resilient object, and a group with tools, as a program of the toolkit uses them. Public in `isotone.isis`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from isotone.isis.toolkit.boards import Boards
from isotone.isis.toolkit.data import Data
from isotone.isis.toolkit.layer import Order
from isotone.isis.toolkit.objects import OperationCall, OperationFailed
from isotone.isis.toolkit.wire import encode

if TYPE_CHECKING:
    from isotone.host.isis_tools import Tools

Handler = Callable[[bytes], Awaitable[bytes]]


class ObjectProxy:
    """A resilient object, wherever its components are: ``await tools.object("calendar").add("noon", "lunch")``."""

    def __init__(self, tools: Tools, name: str) -> None:
        self._tools, self._name = tools, name

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        if method.startswith("_"):
            raise AttributeError(method)

        async def call(*args: Any, **kwargs: Any) -> Any:
            body = encode(OperationCall(method, list(args), kwargs))
            answer = await self._tools.ask(self._name, body)
            value = msgspec.msgpack.decode(answer.result, strict=False)
            if answer.failed:
                raise OperationFailed(str(value))
            return value

        return call


class ToolGroup:
    """A group with actions, locks, data, boards and properties; this process is a member of it."""

    def __init__(self, tools: Tools, name: str) -> None:
        self.name = name
        self._tools = tools

    @property
    def members(self) -> tuple[str, ...]:
        """By rank, from the oldest."""
        member = self._tools.toolkit.members.get(self.name)
        return member.applied.members if member is not None else ()

    @property
    def properties(self) -> dict[str, bytes]:
        """Global properties of the group."""
        member = self._tools.toolkit.members.get(self.name)
        return dict(member.properties) if member is not None else {}

    def set_property(self, key: str, value: bytes) -> None:
        """At one instant for all members."""
        self._use("", "set_property", key, value)

    def checkpoint(self) -> None:
        """All members save the state of one instant."""
        self._use("", "checkpoint")

    def handle(self, handler: Handler) -> None:
        """Carry out actions that are asked of the group: at the coordinator, and at a cohort if that fails."""
        self._tools.handlers[self.name] = handler

    async def ask(self, data: bytes) -> bytes:
        """An action of the group, carried out by one member."""
        answer = await self._tools.ask(self.name, data)
        if answer.failed:
            raise OperationFailed(str(msgspec.msgpack.decode(answer.result)))
        return answer.result

    @asynccontextmanager
    async def lock(self, *items: str, writes: bool = True) -> AsyncIterator[None]:
        """Hold replicated locks while the block lasts; to read with ``writes=False``."""
        owner = self._tools.new_owner()
        asked: list[str] = []
        try:
            for item in sorted(set(items)):
                held = self._tools.expect_lock(owner, item)
                asked.append(item)
                self._use("locks", "ask", item, owner, writes)
                await held
            yield
        finally:
            self._tools.forget_locks(owner)
            for item in asked:
                self._tools.use_if_there(self.name, "locks", "free", item, owner)

    def put(self, item: str, value: bytes) -> None:
        """A new value of a replicated item; hold its lock, or be its only writer."""
        self._use("data", "put", item, value)

    def get(self, item: str) -> bytes | None:
        """The value of an item here."""
        data = self._tools.toolkit.tool(self.name, "data")
        assert isinstance(data, Data)
        return data.get(item)

    def post(self, board: str, value: bytes, *, order: str = "causal") -> None:
        """On a bulletin board; order: ``unordered``, ``causal`` or ``total``."""
        self._use("boards", "post", board, Order(order), value)

    def remove(self, board: str, post: str, *, order: str = "causal") -> None:
        """Take a post away everywhere."""
        self._use("boards", "remove", board, Order(order), post)

    def read(self, board: str, *, order: str = "causal") -> list[tuple[str, bytes]]:
        """What is on a board here and now: names of posts, and values."""
        boards = self._tools.toolkit.tool(self.name, "boards")
        assert isinstance(boards, Boards)
        return boards.read(board, Order(order))

    async def changed(self) -> None:
        """Wait until anything in the group changes here."""
        await self._tools.changed(self.name)

    def _use(self, tool: str, deed: str, *arguments: Any) -> None:
        self._tools.use(self.name, tool, deed, *arguments)
