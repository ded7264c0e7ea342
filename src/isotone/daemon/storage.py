"""What a daemon keeps on disk: its identity, how often it was started, and the cells of its automata.

```
DIR/lock          held while a daemon runs, with its process id
DIR/identity      the name of the daemon and a UUID, for all time
DIR/incarnation   how often it was started
DIR/cells/NAME    one cell each: a checksum and the value
```
A cell is replaced by a new file that is synced and renamed, so after a crash it holds the old value or the new one. A
thread of its own does that, in the order of the requests, and answers many with one sync of the directory.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

from isotone.core.contract import Put, Storage, Write
from isotone.core.errors import InputError, MachineError
from isotone.daemon.committing import CommitThread
from isotone.trace.layout import sync_directory

IDENTITY, INCARNATION, LOCK, CELLS = "identity", "incarnation", "lock", "cells"
TEMPORARY = ".new"
_CHECKSUM_BYTES = 4

Answer = Callable[[str], object]
"""Called by the disk's thread with the reason of a failure, or nothing."""


class Identity(msgspec.Struct, frozen=True):
    """Who a daemon is for all time."""

    name: str
    uuid: str

    @property
    def bytes(self) -> bytes:
        """The sixteen bytes of it."""
        return uuid.UUID(self.uuid).bytes


class StateInUse(MachineError):
    """Another process holds the lock."""


class StateDirectory:
    """A daemon's directory, locked against a second one from `open` to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1

    def open(self, name: str, first_incarnation: int = 1) -> tuple[Identity, int]:
        """Lock it, and begin a new incarnation: its number is on disk when this returns."""
        try:
            (self.path / CELLS).mkdir(parents=True, exist_ok=True)
            self._take_lock()
            identity = self._identity(name)
            incarnation = max(first_incarnation, self._last_incarnation() + 1)
            replace(self.path / INCARNATION, str(incarnation).encode())
            sync_directory(self.path)
        except OSError as error:
            self.close()
            raise MachineError(f"cannot use the state directory {self.path}: {error.strerror}") from error
        except (InputError, MachineError):
            self.close()
            raise
        return identity, incarnation

    def close(self) -> None:
        """Give the lock back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def storage(self) -> Storage:
        """All cells; one that is damaged is an error, since what it promised cannot be kept without it."""
        cells = {}
        for path in sorted((self.path / CELLS).iterdir()):
            if path.suffix == TEMPORARY:
                path.unlink(missing_ok=True)
                continue
            cells[unquote(path.name)] = read_cell(path)
        return Storage(cells=cells)

    def cell_path(self, cell: str) -> Path:
        """The file of a cell."""
        return self.path / CELLS / quote(cell, safe="")

    def _take_lock(self) -> None:
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StateInUse(
                f"the state directory {self.path} is in use by another process ({holder}); "
                "give each daemon, and each server of a log, a directory of its own"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _identity(self, name: str) -> Identity:
        path = self.path / IDENTITY
        if not path.exists():
            made = Identity(name, str(uuid.uuid4()))
            replace(path, msgspec.json.encode(made))
            return made
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Identity)
            uuid.UUID(found.uuid)
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}; restore it, or remove {self.path} to begin anew") from None
        if found.name != name:
            raise InputError(f"{self.path} holds the state of daemon {found.name!r}, not of {name!r}")
        return found

    def _last_incarnation(self) -> int:
        path = self.path / INCARNATION
        if not path.exists():
            return 0
        text = path.read_text("ascii", "replace").strip()
        if not text.isdecimal():
            raise InputError(f"{path} is damaged: {text[:40]!r} is not a number")
        return int(text)


def replace(path: Path, data: bytes) -> None:
    """Put a file in the place of another; durable once the directory is synced too."""
    temporary = path.with_name(f"{path.name}{TEMPORARY}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def read_cell(path: Path) -> bytes:
    """The value of a cell."""
    data = path.read_bytes()
    value = data[_CHECKSUM_BYTES:]
    if len(data) < _CHECKSUM_BYTES or crc32(value) != int.from_bytes(data[:_CHECKSUM_BYTES], "little"):
        raise MachineError(f"the cell {path} is damaged; restore the state directory from a copy, or begin a new one")
    return value


class Disk:
    """The thread that writes cells, in order; `submit` belongs to the loop's thread."""

    def __init__(self, state: StateDirectory) -> None:
        self.writes = 0
        self.syncs = 0
        self.failures = 0
        self._state = state
        self._thread: CommitThread[tuple[Sequence[Write], Answer]] = CommitThread("isotone-disk", self._commit)

    def submit(self, writes: Sequence[Write], answer: Answer) -> None:
        """Make these durable, after all before them."""
        strange = [type(each).__name__ for each in writes if not isinstance(each, Put)]
        assert not strange, f"the daemon's disk has cells only, no {strange[0]}"
        self._thread.put((writes, answer))

    def close(self) -> None:
        """Finish what was asked for, and end."""
        self._thread.close()

    def _commit(self, batch: Sequence[tuple[Sequence[Write], Answer]]) -> None:
        """All of it with one sync of the directory; of several values of one cell only the last is written."""
        reason = ""
        try:
            values = self._values(batch)
            for cell, value in values.items():
                replace(self._state.cell_path(cell), crc32(value).to_bytes(_CHECKSUM_BYTES, "little") + value)
            sync_directory(self._state.path / CELLS)
            self.writes += len(values)
            self.syncs += 1
        except OSError as error:
            self.failures += 1
            reason = f"{self._state.path}: {error.strerror or error}"
        for _, answer in batch:
            answer(reason)

    @staticmethod
    def _values(batch: Sequence[tuple[Sequence[Write], Answer]]) -> dict[str, bytes]:
        values = {}
        for writes, _ in batch:
            for write in writes:
                assert isinstance(write, Put)
                values[write.cell] = write.value
        return values
