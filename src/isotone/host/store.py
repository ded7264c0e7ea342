"""All that one automaton has on disk: cells and logs in a directory, locked from `open` to `close`.

```
DIR/lock, DIR/identity, DIR/incarnation, DIR/cells/NAME    as those of a daemon
DIR/logs/LOG/0000000000000001.segment …                    append-only, see `frames`
```
A group commit writes everything, then makes it durable: one sync for each log in it, and for cells one each and one of
their directory. What is larger than 8 MiB goes to disk in stretches, so that a disk that works is known from one that
hangs. When there is no room, nothing of the commit happens. After a sync that failed nobody knows what the
disk holds: nothing more is written until another process has opened the store and read what is really there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from zlib import crc32

import msgspec

from isotone.core.contract import Put, Storage
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.daemon.storage import CELLS, IDENTITY, TEMPORARY, Identity, StateDirectory
from isotone.host.files import DISK_FULL, FULL_ERRORS, WRITE_BYTES_MAX, DiskFull, Files
from isotone.host.frames import HEADER_BYTES
from isotone.host.log import LogFile
from isotone.host.replay import read_log
from isotone.host.segments import Found, segment_paths
from isotone.host.writes import StoreWrite

logger = logging.getLogger("isotone.host")

LOGS = "logs"
SEGMENT_BYTES = 64 * 1024 * 1024
CHECKSUM_BYTES = 4


class Sync(Enum):
    """When writes are brought to the disk."""

    EVERY_COMMIT = "before anybody is told that they are durable"
    LEFT_TO_THE_SYSTEM = "when the system likes to: a process that is killed loses nothing, a machine that stops does"


class Opened(msgspec.Struct, frozen=True):
    """What a store held when it was opened."""

    identity: Identity
    incarnation: int
    storage: Storage
    cut_bytes: int  # torn tails, which nobody was promised
    problems: tuple[str, ...]  # damage, for people


class Store:
    """For one thread at a time."""

    def __init__(
        self,
        path: Path,
        *,
        sync: Sync = Sync.EVERY_COMMIT,
        segment_bytes: int = SEGMENT_BYTES,
        files: Files | None = None,
    ) -> None:
        if segment_bytes <= HEADER_BYTES:
            raise LocalProtocolError(f"segments of {segment_bytes} bytes are too small")
        self.path = path
        self.failed = ""  # why nothing is written any more
        self.files = files or Files()
        self._state = StateDirectory(path)
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._logs: dict[str, LogFile] = {}
        self._unmarked: dict[str, LogFile] = {}  # whose last sync is not written down

    # --- life ------------------------------------------------------------------------------------------------------

    def open(self, name: str) -> Opened:
        """Lock the directory and read it; what is read is durable, and torn tails are cut."""
        identity, incarnation = self._state.open(name)
        try:
            cells = self._state.storage().cells
            self.files.settle(self._state.cell_path(cell) for cell in cells)
            self._make_logs_directory()
            found = [self._open_log(directory) for directory in log_directories(self.path)]
        except OSError as error:
            self.close()
            raise MachineError(f"cannot read the store {self.path}: {error.strerror}: {error.filename}") from error
        except BaseException:
            self.close()
            raise
        logs = {each.log: self._logs[each.log].stored(each) for each in found}
        problems = tuple(problem for each in found for problem in each.problems)
        return Opened(identity, incarnation, Storage(cells, logs), sum(each.torn_bytes for each in found), problems)

    def _make_logs_directory(self) -> None:
        logs = self.path / LOGS
        if not logs.is_dir():
            logs.mkdir()
            self.files.sync_directory(self.path)
        self.files.sync_directory(logs)
        self.files.sync_directory(self.path / CELLS)

    def _open_log(self, directory: Path) -> Found:
        paths = [path for _, path in segment_paths(directory)]
        self.files.settle(paths[-2:])
        found = read_log(directory)
        self._logs[found.log] = LogFile.open(found, self.files, self._segment_bytes)
        return found

    def close(self) -> None:
        """Give everything back; what was left to the system is brought to disk."""
        logs, self._logs = self._logs, {}
        with suppress(OSError):
            if not self.failed and self._sync is Sync.LEFT_TO_THE_SYSTEM:
                for log in logs.values():
                    log.sync()
                    log.tell_synced()
            self.tell_synced()
        self._unmarked.clear()
        for log in logs.values():
            log.close()
        self._state.close()

    # --- a group commit --------------------------------------------------------------------------------------------

    def commit(self, writes: Iterable[StoreWrite]) -> None:
        """Make all of it durable, in order. `DiskFull`: nothing was done. `MachineError`: it is over."""
        if self.failed:
            raise MachineError(self.failed)
        touched: dict[str, LogFile] = {}
        cells: dict[str, bytes] = {}
        try:
            self._write(writes, touched, cells)
        except OSError as error:
            self._undo(error, touched, cells)
        try:
            self._make_durable(touched, cells)
        except OSError as error:
            self._fail_in_sync(error)

    def _write(self, writes: Iterable[StoreWrite], touched: dict[str, LogFile], cells: dict[str, bytes]) -> None:
        log: LogFile | None = None
        for write in writes:
            if type(write) is Put:
                cells[write.cell] = write.value
                continue
            assert not isinstance(write, Put)
            if log is None or log.log != write.log:
                log = touched.get(write.log) or self._touch(write.log, touched)
            log.stage(write)
            if log.staged_bytes >= WRITE_BYTES_MAX:
                log.write()
                self._bring_to_disk(log)
        for log in touched.values():
            log.write()
        for cell, value in cells.items():
            self._write_cell(cell, value)

    def _bring_to_disk(self, log: LogFile) -> None:
        """A stretch of a large commit; the rest is still to come."""
        if self._sync is Sync.EVERY_COMMIT:
            try:
                log.bring_to_disk()
            except OSError as error:
                self._fail_in_sync(error)

    def begin_log(self, name: str, first: int = 1) -> LogFile:
        """A log that does not exist yet, with the number of its first record."""
        assert name not in self._logs, f"there is a log {name!r} already"
        made = LogFile.create(self.path / LOGS, name, self.files, self._segment_bytes, first=first)
        self._logs[name] = made
        return made

    def _touch(self, name: str, touched: dict[str, LogFile]) -> LogFile:
        log = self._logs.get(name) or self.begin_log(name)
        try:
            log.settle()
        except OSError as error:
            self._fail_in_sync(error)
        log.begin()
        touched[name] = log
        return log

    def _write_cell(self, cell: str, value: bytes) -> None:
        path = self._state.cell_path(cell)
        temporary = path.with_name(path.name + TEMPORARY)
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = self.files.create(temporary)
        try:
            self.files.write(descriptor, crc32(value).to_bytes(CHECKSUM_BYTES, "little") + value, 0)
            self.files.sync(descriptor)  # always: a name must never stand for a file that is not there yet
        finally:
            os.close(descriptor)

    def _make_durable(self, touched: dict[str, LogFile], cells: dict[str, bytes]) -> None:
        synced = self._sync is Sync.EVERY_COMMIT
        for log in touched.values() if synced else ():
            log.sync()
        for cell in cells:
            path = self._state.cell_path(cell)
            os.replace(path.with_name(path.name + TEMPORARY), path)
        if cells and synced:
            self.files.sync_directory(self.path / CELLS)
        if synced:
            self._unmarked |= touched
        for log in touched.values():
            log.drop_segments()

    def tell_synced(self) -> None:
        """When nothing else is to be done: write down how far all is durable. It needs no sync itself."""
        unmarked, self._unmarked = self._unmarked, {}
        if not self.failed:
            with suppress(OSError):
                for log in unmarked.values():
                    log.tell_synced()

    # --- failures --------------------------------------------------------------------------------------------------

    def _undo(self, error: OSError, touched: dict[str, LogFile], cells: dict[str, bytes]) -> None:
        """Writing failed; no sync did."""
        if error.errno not in FULL_ERRORS:
            self._fail(f"the disk failed: {self.path}: {error.strerror}")
        try:
            for log in touched.values():
                log.undo()
            for cell in cells:
                path = self._state.cell_path(cell)
                path.with_name(path.name + TEMPORARY).unlink(missing_ok=True)
        except OSError as second:
            self._fail(f"{DISK_FULL}, and then the disk failed: {self.path}: {second.strerror}")
        raise DiskFull(f"{DISK_FULL}: {self.path}: {error.strerror}; what was durable is not touched")

    def give_up(self, error: Exception) -> str:
        """Something else than the disk failed in the midst of it, and nobody knows how far it came; the reason."""
        logger.critical("the store %s is given up", self.path, exc_info=error)
        with suppress(MachineError):
            self._fail(f"writing to {self.path} failed: {error!r}; nobody knows what it holds")
        return self.failed

    def _fail_in_sync(self, error: OSError) -> None:
        self._fail(f"the disk failed: {self.path}: {error.strerror}; nobody knows what it holds")

    def _fail(self, reason: str) -> None:
        self.failed = f"{reason}. Nothing more is written; start again to go on with what is really on the disk"
        raise MachineError(self.failed)


def log_directories(path: Path) -> list[Path]:
    """The directories of all logs of a store."""
    logs = path / LOGS
    return sorted(each for each in logs.iterdir() if each.is_dir()) if logs.is_dir() else []


def owner_of(path: Path) -> str:
    """Whose store it is."""
    return identity_of(path).name


def identity_of(path: Path) -> Identity:
    """Of a store, with the name of its owner."""
    try:
        return msgspec.json.decode((path / IDENTITY).read_bytes(), type=Identity)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no store that can be used: {error}") from None
