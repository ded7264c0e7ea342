"""What is sent through the port to those who follow, frame by frame, and how much of it may be on its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from isotone.core.ordered_log import LogEntry
from isotone.host import log_wire as wire
from isotone.host.replica_log import ReplicaLog

READ_BYTES_MAX = 4 * 1024 * 1024
FOLLOW_BATCH = 512
CREDIT_BYTES_MAX = 16 * 1024 * 1024
"""Of one follower: who gives more gives this much."""


def feed(log: ReplicaLog, wanted: wire.Wanted) -> AsyncGenerator[wire.Fed, None]:
    """One frame after another, each made when it is asked for; they end when the server does."""
    match wanted:
        case wire.Follow(request=request, first=first):
            return _green(log, request, first)
        case wire.FollowRed(request=request):
            return _red(log, request)
        case wire.FollowWhite(request=request):
            return _white(log, request)


async def _green(log: ReplicaLog, request: int, first: int) -> AsyncGenerator[wire.Entries, None]:
    while entries := await log.batch(first, FOLLOW_BATCH):
        frame = fitting(request, first, entries)
        first += len(frame.records)
        yield frame


async def _red(log: ReplicaLog, request: int) -> AsyncGenerator[wire.RedMessage, None]:
    async with aclosing(log.red()) as messages:  # who goes is forgotten at once
        async for message in messages:
            yield wire.RedMessage(request, msgspec.msgpack.encode(message))


async def _white(log: ReplicaLog, request: int) -> AsyncGenerator[wire.White, None]:
    async for position in log.white():
        yield wire.White(request, position)


def fitting(request: int, first: int, entries: Sequence[LogEntry]) -> wire.Entries:
    """As much of them as one frame may hold; who asks goes on behind it."""
    records: list[bytes] = []
    messages: list[tuple[int, str]] = []
    size = 0
    for entry in entries:
        if records and size + len(entry.record) > READ_BYTES_MAX:
            break
        records.append(entry.record)
        size += len(entry.record)
        if messages and messages[-1][1] == entry.message:
            messages[-1] = (messages[-1][0] + 1, entry.message)
        else:
            messages.append((1, entry.message))
    return wire.Entries(request, first, tuple(records), tuple(messages))


class Credit:
    """How much more a follower may be sent."""

    def __init__(self, size: int) -> None:
        self._left = min(max(1, size), CREDIT_BYTES_MAX)
        self._some = asyncio.Event()
        self._some.set()

    def take(self, size: int) -> None:
        """So much is on its way."""
        self._left -= size
        if self._left <= 0:
            self._some.clear()

    def add(self, size: int) -> None:
        """So much was taken."""
        self._left = min(self._left + size, CREDIT_BYTES_MAX)
        if self._left > 0:
            self._some.set()

    async def any(self) -> None:
        """Wait until there is some."""
        await self._some.wait()
