"""From spools to Parquet beside everything else: one after the other, and never in the way of a stop.

A spool is as good to read, so whatever is not done when the daemon stops is left, and done at its next start.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

from isotone.core.errors import InputError, IsotoneError
from isotone.trace.layout import SPOOL_SUFFIX, files_of_runs, header_of_path
from isotone.trace.parquet import has_pyarrow
from isotone.trace.process import has_died
from isotone.trace.rotation import rotate
from isotone.trace.spool import SpoolPart, is_closed

SECONDS_MAX = 300.0
"""For one spool, in a process of its own."""


class Converter:
    """Turns spools into Parquet, in a thread, and in processes of their own if ``apart``.

    It takes seconds of Python, and libraries that are larger than the daemon: both would be felt by clients. A kill of
    either process loses nothing.
    """

    def __init__(self, *, apart: bool) -> None:
        self.problem = ""  # of the last attempt
        self._apart = apart
        self._wanted: SimpleQueue[Path | None] = SimpleQueue()
        self._again: list[Path] = []  # could not be done; the thread's alone
        self._lock = Lock()  # guards what follows
        self._stopping = False
        self._process: subprocess.Popen[str] | None = None
        self._thread: Thread | None = None

    def add(self, spool: Path) -> None:
        """Convert this one too, some time."""
        with self._lock:
            if self._stopping:
                return
            if self._thread is None:
                self._thread = Thread(target=self._work, name="isotone-parquet", daemon=True)
                self._thread.start()
        self._wanted.put(spool)

    def stop(self) -> None:
        """Leave the rest, that which is under way too."""
        with self._lock:
            self._stopping = True
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (spool := self._wanted.get()) is not None:
            wanted, self._again = [*self._again, spool], []
            for each in wanted:
                self._convert(each)

    def _convert(self, spool: Path) -> None:
        if self._stopping or not spool.exists():  # retention was faster
            return
        try:
            if self._apart:
                self._convert_apart(spool)
            else:
                rotate(spool, is_stopped=lambda: self._stopping)
            self.problem = ""
        except (OSError, IsotoneError) as error:
            if not self._stopping:
                self.problem = str(error)
                self._again.append(spool)

    def _convert_apart(self, spool: Path) -> None:
        command = [sys.executable, "-P", "-m", "isotone.trace.rotation", str(spool)]
        with self._lock:
            if self._stopping:
                return
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # signals of a terminal are for the daemon alone
            )
        try:
            _, said = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise OSError(f"{spool}: not in Parquet after {SECONDS_MAX:g} s") from None
        finally:
            with self._lock:
                self._process = None
            process.kill()
            process.wait()
        if process.returncode:
            lines = said.strip().splitlines()
            raise OSError(f"{spool}: not in Parquet: {lines[-1] if lines else f'exit code {process.returncode}'}")


def left_over(directory: Path, run: str, node: str, incarnation: int) -> list[Path]:
    """Spools of earlier starts of this daemon that nobody writes any more, and that could be Parquet."""
    found = []
    for path in _spools(directory):
        named = header_of_path(path)
        if named is None or (named.run, named.node) != (run, node) or named.incarnation >= incarnation:
            continue
        try:
            if is_closed(path) or has_died(SpoolPart(path).header):
                found.append((named.incarnation, named.part, path))
        except (OSError, InputError):
            continue  # as it is, it is nothing for Parquet
    return [path for _, _, path in sorted(found)]


def _spools(directory: Path) -> Iterable[Path]:
    return (path for path in files_of_runs(directory) if path.suffix == SPOOL_SUFFIX) if has_pyarrow() else ()
