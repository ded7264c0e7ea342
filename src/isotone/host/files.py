"""The calls of the system that a store is made of, in one place: counted, and replaced by tests that let them fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

from isotone.core.errors import MachineError

FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRITE_BYTES_MAX = 8 * 1024 * 1024
"""What the system is handed at once; and what it has of one log before it is asked to sync."""
DISK_FULL = "disk full"
"""What the reason of a `PersistFailed` begins with when there is no room; nothing was written then."""


class DiskFull(MachineError):
    """There is no room; what was asked for is not done, and all that was durable is."""


class Files:
    """What a store does with files; ``syncs`` counts, and the disk answered last at ``answered_s``."""

    def __init__(self) -> None:
        self.syncs = 0
        self.answered_s = monotonic()

    def create(self, path: Path) -> int:
        """A new file, open for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def open(self, path: Path) -> int:
        """A file that exists."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view[:WRITE_BYTES_MAX], offset)
            view, offset = view[written:], offset + written
            self.answered_s = monotonic()

    def sync(self, descriptor: int) -> None:
        """Content and size are on disk when this returns."""
        self.syncs += 1
        os.fdatasync(descriptor)
        self.answered_s = monotonic()

    def cut(self, descriptor: int, size: int) -> None:
        """Make the file that long, durably, so that nothing of its old end ever comes back."""
        os.ftruncate(descriptor, size)
        self.syncs += 1
        os.fsync(descriptor)
        self.answered_s = monotonic()

    def sync_directory(self, directory: Path) -> None:
        """What was created, renamed or removed in it is on disk when this returns."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.syncs += 1
            os.fsync(descriptor)
            self.answered_s = monotonic()
        finally:
            os.close(descriptor)

    def settle(self, paths: Iterable[Path]) -> None:
        """Bring to disk what an earlier process left to the system, and forget what the system remembers of it.

        What is read afterwards is what the disk holds, also after a sync that failed.
        """
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self.syncs += 1
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
