"""Reading at the service levels [COReL 3.3]: red as it reaches the disk, green in the one order, white everywhere.

Whoever reads waits for *news*: an event that is replaced whenever the replica told something.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

from isotone.core.errors import MachineError
from isotone.core.ordered_log import LogEntry
from isotone.corel.message import Message
from isotone.host.answers import FellBehind, NotYet
from isotone.host.arguments import checked_number, checked_position, checked_range, checked_within
from isotone.host.entries import Entries

FOLLOW_BATCH_MAX = 1024
Seen = TypeVar("Seen")
RED_MAX = 65_536
RED_BYTES_MAX = 64 * 1024 * 1024
"""Red messages, and bytes of them, that wait for one reader; one that is slower has missed some, and is told."""


class _RedFeed:
    """Red messages for one reader."""

    def __init__(self) -> None:
        self.waiting: deque[Message] = deque()
        self.lost = ""  # what it was too slow for
        self._size = 0

    def take(self, messages: tuple[Message, ...]) -> None:
        """Keep them, as far as the bounds allow; none once some are lost."""
        if self.lost:
            return
        self.waiting.extend(messages)
        self._size += sum(message.size for message in messages)
        if len(self.waiting) > RED_MAX:
            self._lose(f"more than {RED_MAX} red messages waited")
        elif self._size > RED_BYTES_MAX:
            self._lose(f"more than {RED_BYTES_MAX} bytes of red messages waited")

    def next(self) -> Message:
        """The first that waits."""
        message = self.waiting.popleft()
        self._size -= message.size
        return message

    def _lose(self, why: str) -> None:
        self.lost, self._size = why, 0
        self.waiting.clear()


class Levels(ABC):
    """What a replica told, for any number of readers on one loop."""

    def __init__(self) -> None:
        self.entries = Entries()
        self.white_position = 0
        self.has_ended = False  # nothing comes any more
        self.end_reason = ""  # why, unless it was asked to stop
        self._reds: list[_RedFeed] = []
        self._changed = asyncio.Event()  # set, and replaced, when anything was told

    @abstractmethod
    def why_no_primary(self) -> str:
        """In a sentence; empty in a primary component."""

    def tell(self) -> None:
        """Something is new."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def tell_red(self, messages: tuple[Message, ...]) -> None:
        """Messages are on this server's disk."""
        for feed in self._reds:
            feed.take(messages)
        if self._reds:
            self.tell()

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries ``first`` … ``last`` as far as they are green here."""
        return self.entries.read(*checked_range(first, last))

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All green entries from ``first`` on, until the server is stopped; `MachineError` when it ends by itself."""
        first = checked_position(first)
        while entries := await self.batch(first):
            for entry in entries:
                yield entry
            first += len(entries)
        self._check_end()

    async def batch(self, first: int, count: int = FOLLOW_BATCH_MAX) -> list[LogEntry]:
        """The next entries from ``first`` on, when there are some; none when the server ended."""
        while True:
            changed = self._changed
            entries = self.entries.read(first, first + count - 1)
            if entries or await self._waits_no_more(changed):
                return entries

    async def red(self) -> AsyncGenerator[Message, None]:
        """Messages from now on as they reach this server's disk, before any order is known; ends as `follow` does."""
        feed = _RedFeed()
        self._reds.append(feed)
        try:
            while True:
                changed = self._changed
                while feed.waiting:
                    yield feed.next()
                if feed.lost:
                    raise FellBehind(feed.lost)
                if await self._waits_no_more(changed):
                    break
            self._check_end()
        finally:
            self._reds.remove(feed)

    async def white(self) -> AsyncIterator[int]:
        """The position up to which every server has everything, whenever it rises; ends as `follow` does."""
        async for position in self.each(lambda: self.white_position):
            if position:
                yield position

    async def each(self, look: Callable[[], Seen]) -> AsyncIterator[Seen]:
        """What there is to see now, and then whenever it is something else; ends as `follow` does."""
        seen: Seen | None = None
        while True:
            changed = self._changed
            if (now := look()) != seen:
                seen = now
                yield now
            elif await self._waits_no_more(changed):
                break
        self._check_end()

    async def wait_for(self, position: int, *, within_s: float | None = None) -> None:
        """Until this position is green here; `NotYet` when it is not in time."""
        position, within_s = checked_number(position, "a position"), checked_within(within_s)
        try:
            async with asyncio.timeout(within_s):
                while self.entries.end < position:
                    if await self._waits_no_more(self._changed):
                        raise NotYet(f"the server ended. {self.why_no_primary()}")
        except TimeoutError:
            why = self.why_no_primary()
            raise NotYet(f"position {position} is not green: the order ends at {self.entries.end}. {why}") from None

    async def end(self) -> int:
        """The last position that is green here, 0 when there is none."""
        return self.entries.end

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something holds that changes with what the replica tells; returns also when the server ended."""
        while not is_so():
            if await self._waits_no_more(self._changed):
                return

    async def until_ended(self) -> None:
        """Wait for the end of the server; all that was open is answered then."""
        await self.until(lambda: False)

    def _check_end(self) -> None:
        """Nothing comes any more: who reads may think that it has all only if somebody asked for that."""
        if self.end_reason:
            raise MachineError(self.end_reason)

    async def _waits_no_more(self, changed: asyncio.Event) -> bool:
        """Wait for news; True when none will come."""
        if self.has_ended:
            return True
        await changed.wait()
        return False
