"""The host: one automaton that stands on boundary B4, in a process of its own or beside an embedded daemon.

It is the shell of the contract, made of the daemon's pieces: one event at a time, effects in one FIFO stream that a
`Persist` holds back, timers, a store with group commit. What the automaton asks goes to a `Service`; actions of its own
go to callbacks by their type; events of the application come in by `tell`.

Implements: [DESIGN 2], docs/contracts.md "For shells".
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import cast

from isotone.core.boundary import Ask, Indicated, Indication
from isotone.core.contract import (
    Action,
    Automaton,
    CancelTimer,
    Event,
    Record,
    SetTimer,
    Started,
    Stop,
    Stopping,
    Storage,
    TimerFired,
    TimerKey,
)
from isotone.core.errors import MachineError
from isotone.core.ids import ClientId
from isotone.daemon.engine import Engine, Lane, Performer
from isotone.daemon.node import now_us
from isotone.daemon.node_settings import TraceSettings
from isotone.host.aside import in_thread
from isotone.host.disk_watch import DiskWatch
from isotone.host.files import Files
from isotone.host.machinery import Machinery
from isotone.host.performing import Callbacks, Performers
from isotone.host.service import Around, Service
from isotone.host.store import SEGMENT_BYTES, Sync
from isotone.host.telling import Telling
from isotone.host.writes import StoreWrite
from isotone.trace.events import Entry

log = logging.getLogger("isotone.host")

ROOM_BYTES = 16 * 1024 * 1024
"""Who waits for `room` waits until less than this is on its way to the disk and the daemon."""
SEED_BYTES = 32
EVENT_TEXT_MAX = 400

Build = Callable[[Around], Automaton]


class Phase(Enum):
    """The life of a host."""

    NEW = "not started"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Host:
    """One start of one automaton on the running loop. ``build`` makes it from what the store tells."""

    automaton: Automaton
    storage: Storage  # as it was found
    incarnation: int

    def __init__(
        self,
        build: Build,
        *,
        name: str,
        service: Service,
        directory: Path | None,
        on: Callbacks | None = None,
        sync: Sync = Sync.EVERY_COMMIT,
        segment_bytes: int = SEGMENT_BYTES,
        trace: TraceSettings | None = None,
        stop_within_s: float = 5.0,
        files: Files | None = None,
        disk_within_s: float = 0.0,
    ) -> None:
        self.name = name
        self.service = service
        self.phase = Phase.NEW
        self.end_reason = ""  # why it ended by itself; empty after a clean stop
        self.error: BaseException | None = None  # what the automaton, or what is around it, raised
        self.on_parted: Callable[[], object] = lambda: None  # its sessions were ended, since the disk hangs
        self._build, self._callbacks = build, dict(on or {})
        self.machinery = Machinery(name, directory, sync=sync, segment_bytes=segment_bytes, trace=trace, files=files)
        self.stop_within_s = stop_within_s
        self._disk_within_s = disk_within_s  # 0: however long it takes
        self._scheduled: asyncio.Handle | None = None  # the turn in which what was told is handled
        self._endings: list[Callable[[], object]] = []  # to be called when all of this turn is handled
        self._waiters: list[asyncio.Future[None]] = []  # for room
        self._released: asyncio.Future[None] | None = None  # for the end of what is held back
        self._tasks: set[asyncio.Task[None]] = set()
        self._store_closed: asyncio.Future[None] | None = None

    # --- start -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, build the automaton and hand it `Started`."""
        assert self.phase is Phase.NEW, "a host starts once"
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        opened = await self.machinery.open()
        self.storage, self.incarnation = opened.storage, opened.incarnation
        try:
            seed = os.urandom(SEED_BYTES).hex()
            daemon, identity = self.service.daemon, opened.identity.bytes
            self.automaton = self._build(Around(self.name, daemon, identity, opened.incarnation, seed))
            self.service.begin(self)
        except BaseException:
            self.machinery.release()
            raise
        self._assemble()
        self.phase = Phase.RUNNING
        self.engine.take(self.lane, Started(self.now(), opened.storage))
        if self.error is not None:
            raise MachineError(self.end_reason) from self.error

    def _assemble(self) -> None:
        self.machinery.begin(self._fire, keeps_record=self.service.record is None)
        self.disk_watch = DiskWatch(
            self.machinery.disk, self._disk_within_s, hangs=self._on_hanging, answers=self._on_answering
        )
        self.disk_watch.begin(self._loop)
        self.engine = Engine(self.now, submit=self._submit, failed=self._on_failure)
        self.engine.when_drained.append(self._look)
        self.engine.on_refused = self._on_refused
        self._telling = Telling(self.name, self.automaton)
        self.lane = Lane(self.name, self.automaton)
        self.lane.handle = self._telling.handle
        own: dict[type[Action], Performer] = {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Ask: self._ask,
            Record: self._record,
            Stop: self._on_stop,
        }
        self.lane.performers = Performers(own, self._callbacks)

    async def __aenter__(self) -> Host:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self.error is not None and error is None:
            raise MachineError(self.end_reason) from self.error

    # --- from the outside ------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The time of this process, microseconds: what events of the application carry."""
        return now_us()

    def tell(self, event: Event) -> None:
        """An event of the application, handled before this returns. From a callback of the host it waits its turn.

        What the caller did wrongly is raised here as `LocalProtocolError`, or logged if it had to wait; `MachineError`
        when the host has ended.
        """
        self.check()
        self._telling.tell(event, partial(self.engine.take, self.lane))

    @property
    def waiting_bytes(self) -> int:
        """What is on its way to the disk and to the daemon."""
        return self.machinery.disk.waiting_bytes + self.service.waiting_bytes

    async def room(self) -> None:
        """Wait until there is room for more; who has much to tell waits here first."""
        while self.phase is Phase.RUNNING and self.waiting_bytes >= ROOM_BYTES:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
        self.check()

    def check(self) -> None:
        """Raise `MachineError` unless it runs."""
        if self.phase is not Phase.RUNNING:
            raise MachineError(f"host {self.name} is not running: {self.end_reason or self.phase.value}")

    async def write(self, writes: Sequence[StoreWrite]) -> None:
        """Write to the store beside the automaton, such as a `Repair`; `MachineError` when the disk refuses.

        So it is when the host has ended: then nobody writes any more.
        """
        self.check()
        done: asyncio.Future[str] = self._loop.create_future()
        self.machinery.disk.submit(writes, partial(_settle, done))
        if reason := await done:
            raise MachineError(reason)

    def on_told(self, receivers: tuple[ClientId, ...], indication: Indication) -> None:
        """What clients are told; all that comes in one turn of the loop is handled in one."""
        if self.phase in (Phase.RUNNING, Phase.STOPPING):
            self.engine.post(self.lane, Indicated(self.now(), receivers, indication))
            if self._scheduled is None:
                self._scheduled = self._loop.call_soon(self._drain)

    def on_turn(self) -> None:
        """Handle what was told, now: a turn of the loop may be long, and the token does not wait."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._drain()

    def at_the_end(self, call: Callable[[], object]) -> None:
        """Have it called when all of this turn is handled and carried."""
        if not self._endings:
            self._loop.call_soon(self._end_turn)  # if this is no turn of the automaton
        self._endings.append(call)

    def _end_turn(self) -> None:
        endings, self._endings = self._endings, []
        for call in endings:
            call()

    def on_moved(self) -> None:
        """The service has room again."""
        self._tell_room()

    def on_broken(self, reason: str, error: BaseException | None) -> None:
        """The service cannot go on."""
        self._fail(reason, error or MachineError(reason))

    def _on_hanging(self, reason: str) -> None:
        """What it asks stands behind a write that does not come back: part from the group beside it."""
        log.error("host %s: %s: it leaves its groups until it does", self.name, reason)
        if self.phase is not Phase.RUNNING:
            return
        ended = self.service.part(reason)
        self._drain()
        held = [each for each in self.lane.held if not (type(each) is Ask and each.client in ended)]
        self.lane.held = deque(held)
        self.on_parted()

    def _on_answering(self) -> None:
        log.warning("host %s: the disk answers again", self.name)

    def _drain(self) -> None:
        self._scheduled = None
        if self.phase is not Phase.ENDED:
            self.engine.drain()

    # --- the automaton ---------------------------------------------------------------------------------------------

    def _on_refused(self, lane: Lane, event: Event, reason: str) -> None:
        """A peer's fault; all are counted, the first of a kind is said."""
        del lane, event
        if self.engine.refused[reason] == 1:
            log.warning("host %s: dropped an input: %s", self.name, reason)

    def _fire(self, lane: Lane, key: TimerKey) -> None:
        self.engine.take(lane, TimerFired(self.now(), key))

    def _set_timer(self, lane: Lane, action: SetTimer) -> None:
        self.machinery.timers.set(lane, action.key, action.after_us)

    def _cancel_timer(self, lane: Lane, action: CancelTimer) -> None:
        self.machinery.timers.cancel(lane, action.key)

    def _ask(self, lane: Lane, action: Ask) -> None:
        del lane
        self.service.ask(action)

    def _record(self, lane: Lane, action: Record) -> None:
        del lane
        entry = cast(Entry, action.entry)
        (self.service.record or self.machinery.record)(entry)

    def _submit(self, lane: Lane, ticket: int, writes: Sequence[StoreWrite]) -> None:
        self.machinery.disk.submit(writes, partial(self.engine.persisted, lane, lane.failures, ticket))

    def _look(self, at: int) -> None:
        """The last thing of every wake-up."""
        del at
        self.service.on_turn()
        if self._endings:
            self._end_turn()
        self._tell_room()
        if self._released is not None and not self.lane.held and not self._released.done():
            self._released.set_result(None)

    def _tell_room(self) -> None:
        if self._waiters and self.waiting_bytes < ROOM_BYTES:
            self._wake(self._waiters)

    @staticmethod
    def _wake(waiters: list[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    # --- the end ---------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """A clean stop: the automaton is told, what it returned is carried out, sessions are closed. Idempotent."""
        if self.phase is Phase.NEW:
            self.machinery.release()
            self.phase = Phase.ENDED
            return
        if self.phase is Phase.RUNNING:
            self.phase = Phase.STOPPING
            self.engine.take(self.lane, Stopping(self.now()))
            if not await self._carried_out():
                log.warning("host %s ends while its disk is busy: what is held back is not done", self.name)
            self._end(clean=True)
        await asyncio.shield(self._closed)

    async def closed(self) -> str:
        """Wait until it ended; why, if nobody asked for it."""
        await asyncio.shield(self._closed)
        return self.end_reason

    async def _carried_out(self) -> bool:
        """Whether nothing is held back any more, in good time."""
        if not self.lane.held:
            return True
        self._released = self._loop.create_future()
        done, _ = await asyncio.wait([self._released], timeout=self.stop_within_s)
        return bool(done)

    def _on_stop(self, lane: Lane, action: Stop) -> None:
        lane.stopped = True
        lane.held.clear()
        log.error("host %s ends: %s", self.name, action.reason)
        self.end_reason = action.reason
        self._loop.call_soon(partial(self._end, clean=True))

    def _on_failure(self, lane: Lane, event: object, error: BaseException) -> None:
        """The state can no longer be trusted."""
        text = repr(event)[:EVENT_TEXT_MAX]
        log.critical("host %s ends: it failed on %s", self.name, text, exc_info=error)
        self._fail(f"{lane.label} failed on {type(event).__name__}: {type(error).__name__}: {error}", error)

    def _fail(self, reason: str, error: BaseException) -> None:
        if self.phase in (Phase.RUNNING, Phase.STOPPING):
            self.end_reason, self.error = f"host {self.name} ended: {reason}", error
            self._end(clean=False)

    def abort(self) -> None:
        """End at once, as a kill would: what is held back is not done, and nobody is told."""
        if self.phase in (Phase.RUNNING, Phase.STOPPING):
            self.end_reason = "aborted"
            self._end(clean=False)

    def _end(self, *, clean: bool) -> None:
        if self.phase is Phase.ENDED:
            return
        self.phase = Phase.ENDED
        self.engine.end([self.lane])
        self.machinery.halt()
        self.disk_watch.end()
        self._wake(self._waiters)
        if self._released is not None and not self._released.done():
            self._released.set_result(None)
        task = self._loop.create_task(self._finish(clean))
        self._tasks.add(task)
        task.add_done_callback(self._on_finished)

    async def _finish(self, clean: bool) -> None:
        await self.service.close(clean=clean)
        self._store_closed = in_thread(self._loop, partial(self.machinery.close, clean=clean))
        await asyncio.wait([self._store_closed], timeout=self.stop_within_s)
        if not self._store_closed.done():
            log.error("host %s ended, but its disk does not answer: its store is locked until it does", self.name)
            return
        self._store_closed.result()

    async def released(self) -> None:
        """Wait until its store is given back; after an end that did not wait for the disk that may be much later."""
        await asyncio.shield(self._closed)
        if self._store_closed is not None:
            await asyncio.wait([self._store_closed])

    def _on_finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("host %s did not end well", self.name, exc_info=task.exception())
        if not self._closed.done():
            self._closed.set_result(None)


def _settle(done: asyncio.Future[str], reason: str) -> None:
    if not done.done():
        done.set_result(reason)
