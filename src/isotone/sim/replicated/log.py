"""The log of one simulated server as the objects see it: an `OrderedLog` over its replica, in the same process.

As `isotone.host.replica_log` does: an append waits for green, and is *maybe* where no primary component is for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Protocol

from isotone.core.choice import Choice
from isotone.core.errors import LocalProtocolError, MachineError
from isotone.core.ordered_log import LogEntry, Maybe, Refused, Snapshot
from isotone.corel.message import Message, Origin
from isotone.replicated.provisional import RedMessages

MAYBE_AFTER_S = 0.4
BROKEN = 0.15


class FutureMaker(Protocol):
    """A loop, as far as it is needed here."""

    def create_future(self) -> asyncio.Future[int]:
        """A new one."""
        ...


class NodeLog:
    """Of one incarnation. ``send`` hands records to the replica, ``offer`` a snapshot."""

    def __init__(
        self,
        loop: FutureMaker,
        *,
        choice: Choice | None = None,
        maybe_after_s: float = MAYBE_AFTER_S,
        send: Callable[[int, bytes], None],
        offer: Callable[[Snapshot], None],
    ) -> None:
        self._loop, self._send, self._offer, self._choice = loop, send, offer, choice
        self._maybe_after_s = maybe_after_s
        self._ended: MachineError | None = None
        self._requests = 0
        self._open: dict[int, asyncio.Future[int]] = {}
        self._named: dict[tuple[Origin, int], tuple[int, ...]] = {}
        self._entries: deque[LogEntry] = deque()
        self._end = 0
        self.first = 1  # the oldest entry that a follower may still ask for
        self._snapshot: Snapshot | None = None
        self._news = asyncio.Event()
        self.is_primary = False
        self.red_messages = RedMessages()
        self.told_red: dict[tuple[Origin, int], Message] = {}  # the same once more, for those who judge
        self.keeps_all = False  # several follow, so nothing is forgotten before a snapshot

    # --- what the replica says ---------------------------------------------------------------------------------------

    def begin(self, snapshot: Snapshot | None, position: int, messages: list[Message]) -> None:
        """What a start finds on disk: the snapshot, and what is green behind it."""
        self._snapshot = snapshot
        self._end = position
        self.first = position + 1
        self.on_green(position + 1, messages)

    def on_named(self, requests: tuple[int, ...], message: Message) -> None:
        """These requests travel in this message."""
        self._named[message.name] = requests

    def on_refused(self, request: int, reason: str) -> None:
        """It will not be ordered."""
        self._resolve(request, Refused(reason))

    def on_red(self, messages: Iterable[Message]) -> None:
        """They are on this server's disk, and in no final order."""
        messages = tuple(messages)
        self.red_messages.take(messages)
        self.told_red.update((message.name, message) for message in messages)

    def told_records(self) -> list[bytes]:
        """What is red here."""
        return [record for message in self.told_red.values() for record in message.records]

    def on_green(self, position: int, messages: list[Message] | tuple[Message, ...]) -> None:
        """Records in their order; some perhaps a second time."""
        self.red_messages.greened(messages)
        for message in messages:
            self.told_red.pop(message.name, None)
            answered = self._named.pop(message.name, ())
            for place, record in enumerate(message.records):
                if place < len(answered):
                    self._resolve(answered[place], position)
                if position == self._end + 1:
                    self._entries.append(LogEntry(position, record))
                    self._end = position
                position += 1
        self.tell()

    def on_install(self, position: int, state: bytes, passed: Callable[[tuple[Origin, int]], bool]) -> None:
        """The state of another stands for everything up to a position."""
        self._snapshot = Snapshot(position, state)
        if position > self._end:
            self._entries.clear()
            self._end = position
            self.first = position + 1
        self.red_messages.passed(passed)
        self.told_red = {name: message for name, message in self.told_red.items() if not passed(name)}
        for name in [name for name in self._named if passed(name)]:
            for request in self._named.pop(name):
                self._resolve(request, Maybe("a snapshot passed over it", "passed"))
        self.tell()

    def on_standing(self, *, primary: bool) -> None:
        """Whether messages are ordered now."""
        self.is_primary = primary
        self.tell()

    def break_off(self, reason: str) -> None:
        """The process is gone."""
        self._ended = MachineError(reason)
        for request in list(self._open):
            self._resolve(request, Maybe(reason, "lost with the process"))
        self.tell()

    def tell(self) -> None:
        """Something is new."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _resolve(self, request: int, outcome: int | Exception) -> None:
        future = self._open.pop(request, None)
        if future is None or future.done():
            return
        if isinstance(outcome, int):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    # --- what objects ask --------------------------------------------------------------------------------------------

    async def append(self, record: bytes) -> int:
        """Order the record; `Maybe` after a while without a primary component."""
        if self._ended is not None:
            raise self._ended
        self._requests += 1
        request = self._requests
        future = self._open[request] = self._loop.create_future()
        self._send(request, record)
        if self._choice is not None and self._choice.chance(
            BROKEN
        ):  # as over a stream that breaks: whoever asked sends it again
            with suppress(TimeoutError):
                async with asyncio.timeout(self._choice.between(0, 50) / 1_000):
                    return await asyncio.shield(future)
            raise Maybe("the stream broke")
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._maybe_after_s):
                    return await asyncio.shield(future)
            if not self.is_primary:
                self._open.pop(request, None)
                raise Maybe("there is no primary component", f"request {request}")

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """Entries that are kept."""
        if first < self.first:
            raise LocalProtocolError(f"position {first} is not kept; the oldest is {self.first}")
        return [entry for entry in self._entries if first <= entry.position <= last]

    async def batch(self, first: int, count: int) -> list[LogEntry]:
        """The next entries from ``first`` on, when there are some; only where all are kept."""
        while first > self._end:
            if self._ended is not None:
                raise self._ended
            await self._news.wait()
        if first < self.first:
            raise LocalProtocolError(f"position {first} is not kept; the oldest is {self.first}")
        return list(islice(self._entries, first - self.first, first - self.first + count))

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on; those that were handed out are forgotten, since one follows."""
        while True:
            if first < self.first:
                raise LocalProtocolError(f"position {first} is not kept; the oldest is {self.first}")
            if self.keeps_all:
                if first <= self._end:
                    yield self._entries[first - self.first]
                    first += 1
                    continue
            while not self.keeps_all and self._entries and self._entries[0].position < first:
                self._entries.popleft()
            if self._entries and not self.keeps_all:
                entry = self._entries.popleft()
                if entry.position != first:
                    raise MachineError(f"position {entry.position} follows {first - 1}")
                self.first = first = first + 1
                yield entry
            elif self._ended is not None:
                raise self._ended
            else:
                await self._news.wait()

    async def end(self) -> int:
        """The last position that is green here."""
        return self._end

    async def snapshot(self) -> Snapshot | None:
        """The newest, if there is one."""
        return self._snapshot

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand it to the replica."""
        self._snapshot = snapshot
        self._offer(snapshot)
