"""Requests of a client that take time: each is a task, answered when it is done, and ended when nobody waits for it.

What is large waits until the client has read what was written before: one frame more than the transport holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial

from isotone.core.errors import IsotoneError, MachineError, RemoteProtocolError
from isotone.corel.configuration import decode_rule
from isotone.host import log_wire as wire
from isotone.host.answers import Refused
from isotone.host.arguments import WITHIN_MAX_S
from isotone.host.log_feeds import FOLLOW_BATCH, Credit, feed, fitting
from isotone.host.log_questions import answer
from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")

TASKS_MAX = 256
MS = 1_000


class Work:
    """Of one connection."""

    def __init__(
        self,
        replica: ReplicaLog,
        *,
        send: Callable[[wire.Said], None],
        room: Callable[[], Awaitable[None]],
        why_no_change: Callable[[], str],
    ) -> None:
        self._log, self._send, self._room = replica, send, room
        self._why_no_change = why_no_change  # why this client may not change servers and rule; empty if it may
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._credits: dict[int, Credit] = {}

    def start(self, frame: wire.Lasting) -> None:
        """A request has come."""
        self.begin(frame.request, self._work(frame.request, frame))

    def begin(self, request: int, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """This is to be done for a request."""
        if request in self._tasks:
            work.close()
            raise RemoteProtocolError(f"request {request} is open already")
        if len(self._tasks) >= TASKS_MAX:
            work.close()
            work = _refuse(f"{TASKS_MAX} requests are open already: this one is too many")
        task = asyncio.get_running_loop().create_task(self._answer(request, work))
        self._tasks[request] = task
        task.add_done_callback(partial(self._ended, request, work))
        return task

    def taken(self, request: int, size: int) -> None:
        """The client took so much of what it follows."""
        if (credit := self._credits.get(request)) is not None:
            credit.add(size)

    def cancel(self, request: int) -> None:
        """Nobody waits for it any more."""
        if (task := self._tasks.get(request)) is not None:
            task.cancel()

    def end(self) -> None:
        """The client is gone."""
        for task in self._tasks.values():
            task.cancel()

    def _ended(self, request: int, work: Coroutine[None, None, None], task: asyncio.Task[None]) -> None:
        work.close()  # if its client was gone before it began
        del self._tasks[request]
        self._credits.pop(request, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("replica: a request failed", exc_info=task.exception())
            self._send(wire.Failed(request, "MachineError", "the server's log says why"))

    async def _answer(self, request: int, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except IsotoneError as error:
            self._send(wire.Failed(request, type(error).__name__, str(error)))

    async def _work(self, request: int, frame: wire.Lasting) -> None:
        replica = self._log
        match frame:
            case wire.ReadRange(first=first, last=last):
                await self._room()
                self._read(request, first, last)
            case wire.Follow() | wire.FollowRed() | wire.FollowWhite():
                await self._follow(frame)
            case wire.WaitFor(position=position, within_ms=within_ms):
                await replica.wait_for(position, within_s=seconds(within_ms))
                self._send(wire.Told(request, position))
            case wire.Reconfigure():
                await self._change(frame)
                self._send(wire.Told(request, True))
            case wire.Question(what=what, argument=argument):
                await self._room()
                self._send(wire.Told(request, await answer(replica, what, argument)))

    async def _change(self, wanted: wire.Reconfigure) -> None:
        """Judged anew each time: what the client may do may have changed."""
        if reason := self._why_no_change():
            raise Refused(reason)
        await self._log.reconfigure(
            add=wanted.add,
            remove=wanted.remove,
            rule=decode_rule(wanted.rule) if wanted.rule else None,
            votes=dict(wanted.votes),
            within_s=seconds(wanted.within_ms),
        )

    def _read(self, request: int, first: int, last: int) -> None:
        entries = self._log.entries.read(first, min(last, first + FOLLOW_BATCH - 1))
        self._send(fitting(request, first, entries))

    async def _follow(self, wanted: wire.Wanted) -> None:
        """When the server ends, so does this connection, and nothing more is to be said."""
        credit = self._credits[wanted.request] = Credit(wanted.credit)
        async with aclosing(feed(self._log, wanted)) as frames:
            while True:
                await credit.any()
                frame = await self._next(frames)
                if frame is None:
                    return
                await self._room()
                credit.take(frame.size)
                self._send(frame)

    async def _next(self, frames: AsyncGenerator[wire.Fed, None]) -> wire.Fed | None:
        try:
            return await anext(frames, None)
        except MachineError:
            if self._log.has_ended:
                return None
            raise


async def _refuse(reason: str) -> None:
    raise Refused(reason)


def seconds(within_ms: int) -> float | None:
    """A deadline as a client says it: 0 is none."""
    return min(within_ms / MS, WITHIN_MAX_S) if within_ms else None
