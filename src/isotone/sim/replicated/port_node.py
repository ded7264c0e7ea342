"""The port of a simulated server: the very automaton of `isotone.corel.port`, beside the replica's in one process.

What it wants of the log is done on the loop of the server, and comes back as an event.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from isotone.core.contract import Action, Address, CancelTimer, CloseStream, Event, SetTimer, Stopping, WriteStream
from isotone.core.errors import IsotoneError, LocalProtocolError
from isotone.core.ordered_log import Maybe, Snapshot
from isotone.corel.port import wire
from isotone.corel.port.events import (
    AppendAnswer,
    AppendsAnswered,
    LogEnded,
    NextFound,
    NextWanted,
    RecordsCame,
    SnapshotCame,
    WorkDone,
    WorkUnwanted,
    WorkWanted,
)
from isotone.corel.port.server import PortServer
from isotone.sim.replicated.log import NodeLog

PORT_LABEL = "port"
BATCH = 64
MS_PER_S = 1_000
OF_STREAMS = (WriteStream, CloseStream, SetTimer, CancelTimer)

Work = Coroutine[Any, Any, None]


class PortNode:
    """Of one incarnation. ``run`` has work done on the server's loop, ``tell`` hands an event to this automaton."""

    periodic_timers = frozenset({"hello", "piece"})

    def __init__(
        self,
        server: str,
        log: NodeLog,
        *,
        run: Callable[[Callable[[], Work]], None],
        tell: Callable[[Event], None],
        door: str = "",
    ) -> None:
        self.port = PortServer(server)
        self.door = Address(door)
        self._log, self._run, self._tell = log, run, tell
        self._unwanted: set[tuple[int, int]] = set()  # of what is worked on
        self._working: set[tuple[int, int]] = set()

    def handle(self, event: Event) -> list[Action]:
        """What is of streams and time is the world's; the rest is work."""
        if isinstance(event, Stopping):
            event = LogEnded(event.at)
        out: list[Action] = []
        for action in self.port.handle(event):
            if isinstance(action, OF_STREAMS):
                out.append(action)
            else:
                self._take(action)
        return out

    def _take(self, action: Action) -> None:
        match action:
            case RecordsCame(stream=stream, request=first, within_ms=within_ms, records=records):
                for request, record in enumerate(records, first):
                    self._run(lambda request=request, record=record: self._append(stream, request, record, within_ms))  # type: ignore[misc]
            case WorkWanted(stream=stream, frame=frame):
                self._begin((stream, frame.request), lambda: self._work(stream, frame))
            case SnapshotCame(stream=stream, request=request):
                self._begin((stream, request), lambda: self._keep(action))
            case NextWanted(stream=stream, wanted=wire.Follow() as wanted):
                self._begin((stream, wanted.request), lambda: self._next(stream, wanted))
            case WorkUnwanted(stream=stream, request=request):
                if (stream, request) in self._working:
                    self._unwanted.add((stream, request))

    def _begin(self, key: tuple[int, int], make: Callable[[], Work]) -> None:
        async def work() -> None:
            try:
                await make()
            finally:
                self._working.discard(key)
                self._unwanted.discard(key)

        self._working.add(key)
        self._run(work)

    async def _append(self, stream: int, request: int, record: bytes, within_ms: int) -> None:
        outcome: int | IsotoneError
        try:
            async with asyncio.timeout(within_ms / MS_PER_S if within_ms else None):
                outcome = await self._log.append(record)
        except TimeoutError:
            outcome = Maybe("it is not green in time")
        except IsotoneError as error:
            outcome = error
        self._tell(AppendsAnswered(0, (AppendAnswer(stream, request, outcome),)))

    async def _work(self, stream: int, frame: wire.Lasting) -> None:
        answer: wire.Said
        try:
            answer = await self._answer(frame)
        except IsotoneError as error:
            answer = wire.Failed(frame.request, type(error).__name__, str(error))
        self._tell(WorkDone(0, stream, frame.request, answer))

    async def _answer(self, frame: wire.Lasting) -> wire.Said:
        match frame:
            case wire.Question(request=request, what="end"):
                return wire.Told(request, await self._log.end())
            case wire.Question(request=request, what="snapshot", argument=argument):
                return wire.Told(request, self._piece(await self._log.snapshot(), *map(int, argument.split())))
            case wire.ReadRange(request=request, first=first, last=last):
                entries = await self._log.read(first, min(last, first + BATCH - 1))
                return wire.fitting(request, first, entries)
            case _:
                raise LocalProtocolError("nobody asks this in a simulated run")

    def _piece(self, snapshot: Snapshot | None, position: int, offset: int) -> list[object] | None:
        if snapshot is None:
            return None
        begin = offset if position == snapshot.position else 0
        piece = snapshot.state[begin : begin + wire.PIECE_BYTES_MAX]
        return [snapshot.position, snapshot.digest, len(snapshot.state), piece]

    async def _keep(self, came: SnapshotCame) -> None:
        await self._log.offer_snapshot(Snapshot(came.position, came.state))
        self._tell(WorkDone(0, came.stream, came.request, wire.Told(came.request, came.position)))

    async def _next(self, stream: int, wanted: wire.Follow) -> None:
        """The next entries, as soon as there are some."""
        try:
            entries = await self._log.batch(wanted.first, BATCH)
        except IsotoneError as error:
            failed = wire.Failed(wanted.request, type(error).__name__, str(error))
            self._tell(WorkDone(0, stream, wanted.request, failed))
            return
        if (stream, wanted.request) not in self._unwanted:
            self._tell(NextFound(0, stream, wanted.request, wire.fitting(wanted.request, wanted.first, entries)))
