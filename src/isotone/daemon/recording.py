"""The record of one incarnation: levels, a thread that writes, and retention by size and age.

What is complete becomes Parquet beside all this; a stop does not wait for it. See `isotone.daemon.converting`.

At level *full* a row is handed to the kernel before its effect leaves; at *buffered* rows wait for the thread. A disk
that is full costs rows, which the record says by gaps and the daemon by ``problem``; it never ends the daemon. The
level can change while the daemon runs: rows that fall away meanwhile are a gap, and a record whose last rows fell away
is not marked as complete.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

from isotone.core.errors import IsotoneError
from isotone.daemon.admin.operated import TraceStatus
from isotone.daemon.converting import Converter, left_over
from isotone.daemon.node_settings import TraceSettings
from isotone.trace.events import Entry, Row
from isotone.trace.layout import PARQUET_SUFFIX, SPOOL_SUFFIX, files_of_runs, header_of_path
from isotone.trace.recorder import Recorder
from isotone.trace.writer import Level, TraceWriter

RETENTION_SECONDS = 10.0


class Recording:
    """One daemon's record. All but `status` belongs to the loop's thread; the writing is done by another."""

    def __init__(self, settings: TraceSettings, node: str, incarnation: int, now: Callable[[], int]) -> None:
        self.settings = settings
        self.level = settings.level if settings.directory is not None else Level.OFF
        self.rows = 0
        self.skipped = 0
        self.waiting = 0  # rows since the last flush
        self._node, self._incarnation, self._now = node, incarnation, now
        self._recorder = Recorder(self._take)
        self._writer: TraceWriter | None = None
        self._problem = ""  # why there is no writer
        self._trouble = ""  # of the thread, at its last work
        self._bytes = 0  # of all files of this daemon, when somebody last looked
        self._skipping = 0  # rows in a row that fell away just now
        self._converter = Converter(apart=settings.apart)
        self._begin()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._work, name="isotone-trace", daemon=True)
        self._thread.start()

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.level is not Level.OFF

    def record(self, entry: Entry) -> None:
        """Add an entry to the record."""
        self._recorder.record(self._node, self._incarnation, self._now(), entry)

    def set_level(self, level: Level) -> str:
        """From now on; says what is in the way, if anything is."""
        if level is not Level.OFF and self.settings.directory is None:
            return "the settings name no trace directory"
        if level is not Level.OFF and self._writer is not None and not self._writer.set_level(level):
            return f"the record stays as it is: {self._writer.problem}"
        self.level = level
        if self._writer is None:
            self._begin()
        return self._problem if self._writer is None and level is not Level.OFF else ""

    def status(self) -> TraceStatus:
        """How it stands."""
        writer = self._writer
        return TraceStatus(
            level=self.level.value,
            directory=str(self.settings.directory or ""),
            rows=self.rows,
            lost=writer.lost if writer is not None else 0,
            bytes=self._bytes,
            failed=next(filter(None, self._problems()), ""),
        )

    def _problems(self) -> Iterator[str]:
        if self._writer is not None:
            yield self._writer.failing
        yield from (self._problem, self._trouble, self._converter.problem)

    def close(self) -> None:
        """Write what is left, and mark the record as complete if it is."""
        self._end(self._close_writer)

    def abort(self) -> None:
        """As a kill would leave it; at level full nothing is lost."""
        self._end(self._abandon_writer)

    # --- the loop's side -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        directory = self.settings.directory
        if self.level is Level.OFF or directory is None:
            return
        settings = self.settings
        try:
            self._writer = TraceWriter(
                directory,
                settings.run,
                self._node,
                self._incarnation,
                level=self.level,
                rotate_bytes=settings.rotate_bytes,
                convert=self._converter.add,
            )
            self._problem = ""
        except IsotoneError as error:  # no room, no right: the daemon is worth more than its record
            self._problem = str(error)

    def _take(self, row: Row) -> None:
        writer = self._writer
        if writer is None or self.level is Level.OFF:
            self.skipped += 1
            self._skipping += 1
            return
        self.rows += 1
        self.waiting += 1
        self._skipping = 0
        writer.append(row)

    def flush(self) -> None:
        """Ask the thread to write what waits."""
        self.waiting = 0
        if self._writer is not None:
            self._calls.put(self._writer.flush)

    def _end(self, last: Callable[[], None]) -> None:
        self._converter.stop()
        self._calls.put(last)
        self._calls.put(None)
        self._thread.join()

    # --- the thread's side -----------------------------------------------------------------------------------------

    def _work(self) -> None:
        looked_at = 0.0
        while (call := self._calls.get()) is not None:
            try:
                call()
                if looked_at == 0.0:
                    self._convert_earlier()
                if time.monotonic() - looked_at > RETENTION_SECONDS:
                    looked_at = time.monotonic()
                    self._retain()
                self._trouble = ""
            except (OSError, IsotoneError) as error:
                self._trouble = str(error)

    def _convert_earlier(self) -> None:
        """What earlier starts left."""
        directory = self.settings.directory
        if directory is not None:
            for spool in left_over(directory, self.settings.run, self._node, self._incarnation):
                self._converter.add(spool)

    def _close_writer(self) -> None:
        if self._writer is None:
            return
        if self._skipping:
            self._writer.flush()  # rows fell away at the end: it is not complete, and must not say so
        else:
            self._writer.close()

    def _abandon_writer(self) -> None:
        if self._writer is not None:
            self._writer.abandon()

    def _retain(self) -> None:
        """Remove the oldest files of this daemon until size and age are kept; never the one that is written."""
        files = self._files()
        self._bytes = total = sum(size for _, size, _ in files)
        horizon = time.time() - self.settings.age_max_s
        for changed, size, path in files[:-1]:
            if total <= self.settings.bytes_max and changed >= horizon:
                return
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """Of this daemon, oldest first: when changed, how large."""
        found: list[tuple[tuple[int, int], float, int, Path]] = []
        if self.settings.directory is None:
            return []
        for path in files_of_runs(self.settings.directory):
            header = header_of_path(path) if path.suffix in (PARQUET_SUFFIX, SPOOL_SUFFIX) else None
            if header is not None and header.node == self._node and header.run == self.settings.run:
                with suppress(OSError):
                    about = path.stat()
                    found.append(((header.incarnation, header.part), about.st_mtime, about.st_size, path))
        return [(changed, size, path) for _, changed, size, path in sorted(found)]
