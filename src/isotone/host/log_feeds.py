"""What is sent through the port to those who follow, frame by frame, each made when it is asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from isotone.corel.port import wire
from isotone.host.replica_log import ReplicaLog

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
        frame = wire.fitting(request, first, entries)
        first += len(frame.records)
        yield frame


async def _red(log: ReplicaLog, request: int) -> AsyncGenerator[wire.RedMessage, None]:
    async with aclosing(log.red()) as messages:  # who goes is forgotten at once
        async for message in messages:
            yield wire.RedMessage(request, msgspec.msgpack.encode(message))


async def _white(log: ReplicaLog, request: int) -> AsyncGenerator[wire.White, None]:
    async for position in log.white():
        yield wire.White(request, position)
