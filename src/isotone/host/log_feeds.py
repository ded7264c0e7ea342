"""What is sent through the port to those who follow, frame by frame, each made when it is asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from isotone.core.ordered_log import LogEntry
from isotone.corel.port import wire
from isotone.host.replica_log import ReplicaLog

READ_BYTES_MAX = 4 * 1024 * 1024
FOLLOW_BATCH = 512


def feed(log: ReplicaLog, wanted: wire.Wanted) -> AsyncGenerator[wire.Fed, None]:
    """One frame after another; they end when the server does."""
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
