"""What a host has beside its automaton: a store with its thread, timers and a record."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from isotone.core.contract import TimerKey
from isotone.daemon.engine import Lane
from isotone.daemon.node import now_us
from isotone.daemon.node_settings import TraceSettings
from isotone.daemon.recording import Recording
from isotone.daemon.timers import Timers
from isotone.host.disk import Disk
from isotone.host.files import Files
from isotone.host.store import Opened, Store, Sync
from isotone.trace.events import Entry

log = logging.getLogger("isotone.host")

TORN = {
    Sync.EVERY_COMMIT: "nobody was promised it, unless its sync was left to the system before",
    Sync.LEFT_TO_THE_SYSTEM: "it may have been acknowledged, for its sync is left to the system",
}


class Machinery:
    """Opened before the automaton is built, begun after it, closed last. Without a directory nothing is kept."""

    disk: Disk
    timers: Timers

    def __init__(
        self,
        name: str,
        directory: Path | None,
        *,
        sync: Sync,
        segment_bytes: int,
        trace: TraceSettings | None,
        files: Files | None,
    ) -> None:
        self._name, self._trace = name, trace
        self._temporary = tempfile.TemporaryDirectory(prefix="isotone-") if directory is None else None
        path = Path(self._temporary.name) if self._temporary is not None else directory
        assert path is not None
        self.store = Store(path, sync=sync, segment_bytes=segment_bytes, files=files)
        self._torn = TORN[sync]
        self.recording: Recording | None = None
        self._flush_handle: asyncio.TimerHandle | None = None
        self._incarnation = 0

    async def open(self) -> Opened:
        """Open the store, off the loop; what is wrong with it is said."""
        self._loop = asyncio.get_running_loop()
        opened = await asyncio.to_thread(self.store.open, self._name)
        self._incarnation = opened.incarnation
        if opened.cut_bytes:
            log.warning("host %s: a torn tail of %d bytes is cut; %s", self._name, opened.cut_bytes, self._torn)
        for problem in opened.problems:
            log.error("host %s: %s", self._name, problem)
        return opened

    def begin(self, fire: Callable[[Lane, TimerKey], None], *, keeps_record: bool) -> None:
        """Start the threads."""
        self.disk = Disk(self.store, self._deliver)
        self.timers = Timers(self._loop, now_us, fire)
        if self._trace is not None and keeps_record:
            self.recording = Recording(self._trace, self._name, self._incarnation, now_us)

    def _deliver(self, call: Callable[[], None]) -> None:
        """From the thread of the disk; what it says after the end of the loop concerns nobody."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    # --- the record ------------------------------------------------------------------------------------------------

    def record(self, entry: Entry) -> None:
        """Add an entry, where there is a record."""
        recording = self.recording
        if recording is not None and recording.is_on:
            recording.record(entry)
            if self._flush_handle is None:
                self._flush_handle = self._loop.call_later(recording.settings.flush_ms / 1000, self._flush, recording)

    def _flush(self, recording: Recording) -> None:
        self._flush_handle = None
        recording.flush()

    # --- the end ---------------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """Nothing fires any more."""
        self.timers.close()
        if self._flush_handle is not None:
            self._flush_handle.cancel()

    def close(self, *, clean: bool) -> None:
        """Write what was handed in, and give everything back; off the loop."""
        if self.recording is not None:
            (self.recording.close if clean else self.recording.abort)()
        self.disk.close()
        self.release()

    def release(self) -> None:
        """Give the store back."""
        self.store.close()
        if self._temporary is not None:
            self._temporary.cleanup()
