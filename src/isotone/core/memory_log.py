"""An ordered log in memory, for tests of what stands on one. Implements `isotone.core.ordered_log.OrderedLog`.

It keeps the whole promise but durability: dense positions, entries that never change, followers that see every entry
once and in order, and forgetting behind a snapshot. It is bounded: when it is full it refuses to append until a
snapshot lets it forget.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import LogEntry, Snapshot

ENTRIES_MAX = 1_000_000
FOLLOW_BATCH_MAX = 1024


class MemoryLog:
    """For one event loop; not for several threads."""

    def __init__(self, *, entries_max: int = ENTRIES_MAX, kept_behind: int = 0) -> None:
        assert entries_max > 0 and kept_behind >= 0
        self._entries_max = entries_max
        self._kept_behind = kept_behind  # entries that stay although a snapshot stands for them
        self._entries: list[LogEntry] = []  # invariant: positions are first, first + 1, … without a hole
        self._first = 1  # the oldest position kept, or the next one when none is
        self._snapshot: Snapshot | None = None
        self._grown = asyncio.Event()  # set, and replaced, when an entry was appended

    async def append(self, record: bytes) -> int:
        """Order the record and return its position."""
        if len(self._entries) >= self._entries_max:
            raise LocalProtocolError(f"the log is full: {self._entries_max} entries; offer a snapshot")
        position = self._first + len(self._entries)
        self._entries.append(LogEntry(position, bytes(record)))
        self._grown.set()
        self._grown = asyncio.Event()
        return position

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries first … last as far as they exist."""
        if first < self._first:
            raise LocalProtocolError(f"position {first} is not kept; the oldest is {self._first}")
        return self._entries[first - self._first : max(0, last + 1 - self._first)]

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on, without end; raises as `read` does when it falls behind what is kept."""
        while True:
            grown = self._grown
            entries = await self.read(first, first + FOLLOW_BATCH_MAX - 1)
            for entry in entries:
                yield entry
            first += len(entries)
            if not entries:
                await grown.wait()

    async def end(self) -> int:
        """The last position that is ordered, 0 when there is none."""
        return self._first + len(self._entries) - 1

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if there is one."""
        return self._snapshot

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Take a snapshot that is newer than the one we have, and forget entries that it stands for."""
        if not 1 <= snapshot.position <= await self.end():
            raise LocalProtocolError(f"a snapshot at {snapshot.position}; the log ends at {await self.end()}")
        if self._snapshot is not None and snapshot.position <= self._snapshot.position:
            return
        self._snapshot = snapshot
        keep_from = max(self._first, snapshot.position + 1 - self._kept_behind)
        del self._entries[: keep_from - self._first]
        self._first = keep_from
