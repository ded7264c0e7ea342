"""What a server's port wants of its log: tasks that are answered when done, and end when nobody waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing

from isotone.core.contract import Event
from isotone.core.errors import IsotoneError, MachineError
from isotone.core.ordered_log import Snapshot
from isotone.corel.configuration import decode_rule
from isotone.corel.port import wire
from isotone.corel.port.events import NextFound, NextWanted, SnapshotCame, WorkDone, WorkUnwanted, WorkWanted
from isotone.host.arguments import WITHIN_MAX_S
from isotone.host.log_feeds import FOLLOW_BATCH, feed
from isotone.host.log_questions import answer
from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")

MS = 1_000
Key = tuple[int, int]
"""A stream and a request."""


class Work:
    """Of one port; ``tell`` gets the answers."""

    def __init__(self, replica: ReplicaLog, tell: Callable[[Event], None]) -> None:
        self._log, self._tell = replica, tell
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._wanted: dict[Key, asyncio.Event] = {}  # set when one who follows may have the next frame

    def take(self, action: WorkWanted | NextWanted | SnapshotCame | WorkUnwanted) -> None:
        """Do what the port says."""
        match action:
            case WorkWanted(stream=stream, frame=wire.ReadRange() as frame):
                self._tell(self._read(stream, frame))
            case WorkWanted(stream=stream, frame=frame):
                self._begin((stream, frame.request), self._work(frame))
            case SnapshotCame(stream=stream, request=request):
                self._begin((stream, request), self._keep(action))
            case NextWanted(stream=stream, wanted=wanted):
                key = (stream, wanted.request)
                if key not in self._tasks:
                    self._wanted[key] = asyncio.Event()
                    self._begin(key, self._feed(key, wanted))
                self._wanted[key].set()
            case WorkUnwanted(stream=stream, request=request):
                if (task := self._tasks.get((stream, request))) is not None:
                    task.cancel()

    def end(self) -> None:
        """Nobody waits for anything any more."""
        for task in self._tasks.values():
            task.cancel()

    def _begin(self, key: Key, work: Coroutine[None, None, wire.Said | None]) -> None:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(self._answer(key, work))

        def ended(task: asyncio.Task[None]) -> None:
            work.close()  # if nobody waited any more before it began
            if self._tasks.get(key) is task:
                del self._tasks[key]
                self._wanted.pop(key, None)

        task.add_done_callback(ended)

    async def _answer(self, key: Key, work: Coroutine[None, None, wire.Said | None]) -> None:
        stream, request = key
        try:
            answered = await work
        except IsotoneError as error:
            answered = wire.Failed(request, type(error).__name__, str(error))
        except Exception:
            log.exception("replica: a request failed")
            answered = wire.Failed(request, MachineError.__name__, "the server's log says why")
        if answered is not None:
            self._tell(WorkDone(self._log.host.now(), stream, request, answered))

    def _read(self, stream: int, frame: wire.ReadRange) -> WorkDone:
        answered: wire.Said
        try:
            entries = self._log.entries.read(frame.first, min(frame.last, frame.first + FOLLOW_BATCH - 1))
            answered = wire.fitting(frame.request, frame.first, entries)
        except IsotoneError as error:
            answered = wire.Failed(frame.request, type(error).__name__, str(error))
        return WorkDone(self._log.host.now(), stream, frame.request, answered)

    async def _work(self, frame: wire.ReadRange | wire.WaitFor | wire.Question | wire.Reconfigure) -> wire.Said:
        match frame:
            case wire.WaitFor(request=request, position=position, within_ms=within_ms):
                await self._log.wait_for(position, within_s=seconds(within_ms))
                return wire.Told(request, position)
            case wire.Reconfigure(request=request):
                await self._log.reconfigure(
                    add=frame.add,
                    remove=frame.remove,
                    rule=decode_rule(frame.rule) if frame.rule else None,
                    votes=dict(frame.votes),
                    within_s=seconds(frame.within_ms),
                )
                return wire.Told(request, True)
            case wire.Question(request=request, what=what, argument=argument):
                return wire.Told(request, await answer(self._log, what, argument))
            case _:
                raise AssertionError(f"entries are read at once: {frame}")

    async def _keep(self, came: SnapshotCame) -> wire.Said:
        await self._log.offer_snapshot(Snapshot(came.position, came.state))
        return wire.Told(came.request, came.position)

    async def _feed(self, key: Key, wanted: wire.Wanted) -> None:
        """When the server ends, so does its port, and nothing more is to be said."""
        stream, request = key
        may_have = self._wanted[key]
        async with aclosing(feed(self._log, wanted)) as frames:
            while True:
                await may_have.wait()
                may_have.clear()
                try:
                    frame = await anext(frames, None)
                except MachineError:
                    if self._log.has_ended:
                        return
                    raise
                if frame is None:
                    return
                self._tell(NextFound(self._log.host.now(), stream, request, frame))


def seconds(within_ms: int) -> float | None:
    """A deadline as a client says it: 0 is none."""
    return min(within_ms / MS, WITHIN_MAX_S) if within_ms else None
