"""One daemon in a real process: the same `Stack` as in the simulator, on sockets, timers and a disk.

A node is one start of a daemon, from `start` to `stop`, `abort` or its own end; `shell.py` shows what it is made of.
Everything happens on one asyncio loop; only disks are written by threads. Several nodes may share a process.

Implements: [Spread 3.2], docs/contracts.md "For shells".
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path

from isotone.core.contract import Address, Storage
from isotone.core.errors import InputError, MachineError
from isotone.core.ids import DaemonId
from isotone.core.names import check_daemon_name
from isotone.daemon.composition import Hooks
from isotone.daemon.engine import Lane
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.places import Places, bind_places, settings_named
from isotone.daemon.reports import Reports
from isotone.daemon.shell import Shell
from isotone.daemon.sockets import AddressInUse
from isotone.daemon.storage import Disk, StateDirectory
from isotone.evs.groups import State as GroupState
from isotone.trace.events import STOPPED, Crashed, Recovered

log = logging.getLogger("isotone.daemon")

EVENT_TEXT_MAX = 400
EARLY_FLUSH_ROWS = 8_192
BIND_AGAIN_SECONDS = 0.25
STOP_LOOK_SECONDS = 0.01
STUCK_SECONDS = 1.5
"""A stop does not wait for streams on which nothing moved for so long."""
LEAVE_SECONDS_MAX = 1.0
"""So long at most a stop waits until its own groups have heard that its clients left."""


class Phase(Enum):
    """The life of a node."""

    NEW = "not started"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


def now_us() -> int:
    """The clock of this process."""
    return time.monotonic_ns() // 1000


class Node(Reports):
    """One incarnation of one daemon on the running loop."""

    me: DaemonId
    address: Address
    addresses: tuple[Address, ...]
    shell: Shell

    def __init__(self, settings: NodeSettings, hooks: Hooks | None = None) -> None:
        check_daemon_name(settings.name)
        self.settings = settings
        self.hooks = hooks or Hooks()
        self.phase = Phase.NEW
        self.end_reason = ""  # why it ended by itself; empty after a clean stop
        self.observers: list[Callable[[int], None]] = []  # called with the time after every wake-up
        self.read_settings: Callable[[], Awaitable[tuple[NodeSettings, list[str]]]] | None = None
        """For `reload`; says besides what it changed itself."""
        self.started_at = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._stop_task: asyncio.Task[None] | None = None
        self._waits_for_address = True
        self._flush_handle: asyncio.TimerHandle | None = None

    # --- start -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open everything and begin; returns when clients and daemons can call."""
        assert self.phase is Phase.NEW, "a node starts once"
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._state = StateDirectory(self._state_path())
        try:
            first = self._first_incarnation
            with settings_named("cluster.state_directory"):
                identity, incarnation = await asyncio.to_thread(self._state.open, self.settings.name, first)
            self.me, self.identity = DaemonId(self.settings.name, incarnation), identity.bytes
            storage = self._state.storage()
            self._begin(await self._bind(), storage)
        except Exception:
            self._release_state()
            raise

    async def _bind(self) -> Places:
        """All sockets; an address that is in use is tried again for as long as the settings say, or until a stop."""
        deadline, told = self._loop.time() + self.settings.bind_within_s, False
        while True:
            try:
                return bind_places(self.settings)
            except AddressInUse as error:
                left_s = deadline - self._loop.time()
                if left_s <= 0 or not self._waits_for_address:
                    raise
                if not told:
                    told = True
                    log.warning("daemon %s tries again for %.0f seconds: %s", self.settings.name, left_s, error)
            await asyncio.sleep(min(BIND_AGAIN_SECONDS, left_s))

    def end_wait(self) -> None:
        """An address that is still in use ends the start now."""
        self._waits_for_address = False

    def _begin(self, places: Places, storage: Storage) -> None:
        self.address = self.settings.announced or places.address
        self.addresses = (places.address, *(door[1] for door in places.doors))
        self.started_at = self.now()
        disk = Disk(self._state)
        try:
            self.shell = self._make_shell(places, disk)
        except Exception:
            places.close()
            disk.close()
            raise
        self.shell.engine.when_drained.append(self._look)
        self.phase = Phase.RUNNING
        self.shell.recording.record(Recovered(str(self.me)))
        self.shell.start(storage)
        try:
            self.shell.listen(places)
        except Exception as error:
            self.abort(f"cannot listen: {error}")
            places.close()
            raise
        log.info("daemon %s listens at %s", self.me, ", ".join(self.addresses))
        if problem := self.shell.recording.status().failed:
            log.error("daemon %s records nothing: %s; see trace.directory in the settings", self.me, problem)

    def _make_shell(self, places: Places, disk: Disk) -> Shell:
        return Shell(
            self.settings,
            self.hooks,
            places,
            disk,
            me=self.me,
            identity=self.identity,
            address=self.address,
            now=self.now,
            stop=self._on_stop,
            failed=self._on_failure,
        )

    @property
    def _first_incarnation(self) -> int:
        """Of a state that nothing keeps, the clock: a number that came before would make stamps that came before."""
        return 1 if self._temporary is None else time.time_ns() // 1_000_000

    def _state_path(self) -> Path:
        if self.settings.state_directory is not None:
            return self.settings.state_directory
        self._temporary = tempfile.TemporaryDirectory(prefix="isotone-")
        return Path(self._temporary.name)

    def _look(self, at: int) -> None:
        """The last thing of every wake-up."""
        if self._waiters and not self.why_not_ready:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        waiting = self.shell.recording.waiting
        if waiting >= EARLY_FLUSH_ROWS:
            self.shell.recording.flush()
        elif waiting and self._flush_handle is None and self.phase is not Phase.ENDED:
            self._flush_handle = self._loop.call_later(self.settings.trace.flush_ms / 1000, self._flush)
        for observer in self.observers:
            observer(at)

    def _flush(self) -> None:
        self._flush_handle = None
        self.shell.recording.flush()

    # --- how it stands ---------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The daemon's own time, microseconds."""
        return now_us()

    @property
    def why_not_ready(self) -> str:
        """Empty when a daemon view works and clients are served, computed now; else what is missing."""
        if self.phase is not Phase.RUNNING:
            return self.end_reason or self.phase.value
        membership, groups = self.stack.membership, self.stack.groups
        if conflict := membership.node.peers.conflict(self.now()):
            return conflict
        if self.shell.stack_lane.held:
            return "the disk has not kept the floors yet"
        network = membership.node.network
        if network is None or not network.installed or network.transport.failed:
            return f"no daemon view works: {membership.state.name}"
        return "" if groups.state is GroupState.GOP else f"groups are being gathered: {groups.state.name}"

    @property
    def is_ready(self) -> bool:
        """Whether it serves clients now."""
        return not self.why_not_ready

    async def ready(self) -> None:
        """Wait until it is."""
        if self.phase is not Phase.RUNNING:
            raise MachineError(f"daemon {self.name} is not running: {self.why_not_ready}")
        if not self.is_ready:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    async def closed(self) -> str:
        """Wait until it ended; why, if nobody asked for it."""
        await asyncio.shield(self._closed)
        return self.end_reason

    async def reload(self) -> list[str]:
        """Read the settings again, as on SIGHUP; says what changed, raises `InputError` and changes nothing then."""
        if self.read_settings is None:
            raise InputError("this daemon was started without a settings file: there is nothing to read again")
        settings, changed = await self.read_settings()
        return [*self.apply(settings), *changed]

    # --- the end ---------------------------------------------------------------------------------------------------

    def stop(self, reason: str = "") -> asyncio.Task[None]:
        """Begin a clean stop, as on SIGTERM: clients are told, the others too, the trace is closed. Await it or not."""
        if self._stop_task is None:
            self._stop_task = asyncio.get_running_loop().create_task(self._stop(reason))
        return self._stop_task

    async def _stop(self, reason: str) -> None:
        if self.phase is Phase.RUNNING:
            log.info("daemon %s stops%s", self.me, f": {reason}" if reason else "")
            self.phase = Phase.STOPPING
            deadline = self._loop.time() + self.settings.stop_within_s
            self.shell.dismiss()
            heard_by = min(deadline, self._loop.time() + LEAVE_SECONDS_MAX)
            await self._until(lambda: not self.stack.has_local_members, heard_by)
            if self.phase is Phase.STOPPING:
                self.shell.stop()
            await self._until(self._is_quiet_or_stuck(), deadline)
            self._end_once()
        if self.phase is Phase.ENDED:
            await asyncio.shield(self._closed)

    def _is_quiet_or_stuck(self) -> Callable[[], bool]:
        """Whether all that was said is on its way, or those who did not hear it take nothing any more."""
        shell, moved_at, before = self.shell, self._loop.time(), (0, 0)

        def look() -> bool:
            nonlocal moved_at, before
            now = len(shell.streams.by_number), shell.streams.waiting_bytes
            if now != before or any(lane.held for lane in shell.lanes):
                moved_at, before = self._loop.time(), now
            return shell.is_quiet or self._loop.time() - moved_at > STUCK_SECONDS

        return look

    async def _until(self, done: Callable[[], bool], deadline: float) -> None:
        """While it stops: look now and then, so that no layer below need know that somebody waits."""
        while self.phase is Phase.STOPPING and not done() and self._loop.time() < deadline:
            await asyncio.sleep(STOP_LOOK_SECONDS)

    def abort(self, reason: str = "aborted") -> None:
        """End at once, as a kill would: no good-bye, and the record is left as it is."""
        if self.phase in (Phase.RUNNING, Phase.STOPPING):
            self.end_reason = reason
            self._end(clean=False)

    def _on_stop(self, reason: str) -> None:
        """An automaton cannot go on."""
        log.error("daemon %s ends: %s", self.me, reason)
        self.end_reason = reason
        self._loop.call_soon(self._end_once)

    def _end_once(self) -> None:
        if self.phase is not Phase.ENDED:
            self._end(clean=True)

    def _on_failure(self, lane: Lane, event: object, error: BaseException) -> None:
        """The state can no longer be trusted."""
        text = repr(event)[:EVENT_TEXT_MAX]
        log.critical("daemon %s ends: %s failed on %s", self.me, lane.label, text, exc_info=error)
        self.end_reason = f"{lane.label} failed on {type(event).__name__}: {type(error).__name__}: {error}"
        if self.phase is not Phase.ENDED:
            self._end(clean=False)

    def _end(self, *, clean: bool) -> None:
        if clean:
            self.shell.recording.record(Crashed(str(self.me), STOPPED))
        self.phase = Phase.ENDED
        self.shell.close(clean=clean)
        if self._flush_handle is not None:
            self._flush_handle.cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(MachineError(f"daemon {self.name} ended: {self.end_reason or 'stopped'}"))
        self._waiters.clear()
        finishing = self._loop.run_in_executor(None, self._finish, clean)
        finishing.add_done_callback(self._on_finished)

    def _finish(self, clean: bool) -> None:
        """What touches disks, off the loop."""
        if clean:
            self.shell.recording.close()
        else:
            self.shell.recording.abort()
        self.shell.disk.close()
        self._release_state()

    def _release_state(self) -> None:
        self._state.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _on_finished(self, finished: asyncio.Future[None]) -> None:
        if finished.exception() is not None:
            log.error("daemon %s did not end well", self.me, exc_info=finished.exception())
        if not self._closed.done():
            self._closed.set_result(None)
