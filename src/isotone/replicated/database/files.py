"""Where the copies of databases are: files in a directory, or memory.

A file is in SQLite's WAL mode without a sync at each commit: after a loss of power it may be older than it was, and is
never half written; what it lacks comes again from the log.

Implements: docs/protocols/replicated.md "A database". Deviations: none.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from isotone.core.errors import MachineError

SUFFIX = ".sqlite"
ASIDE = ".set-aside"
BESIDE = ("-wal", "-shm")
BUSY_S = 5.0
MODE = slice(18, 20)
"""Of a database's first bytes: 1 1 without a WAL, which memory cannot have."""
NO_WAL = b"\x01\x01"


class DatabaseFiles(Protocol):
    """Keeps the copies of one replica, by name."""

    def open(self, name: str) -> sqlite3.Connection:
        """The copy, or an empty one."""
        ...

    def replace(self, name: str, image: bytes) -> None:
        """Put this copy in the place of what is there; nobody has it open."""
        ...

    def set_aside(self, name: str) -> str:
        """Move a copy that is no good out of the way; where it is now, if anywhere."""
        ...

    def committed(self, name: str, connection: sqlite3.Connection) -> None:
        """A transaction was committed."""
        ...


class DirectoryFiles:
    """Files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        """Where a copy is."""
        return self._directory / f"{name}{SUFFIX}"

    def open(self, name: str) -> sqlite3.Connection:
        """The copy, or an empty one."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"cannot make {self._directory}: {error.strerror}") from error
        connection = connect(str(self.path(name)))
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def replace(self, name: str, image: bytes) -> None:
        """Under another name first, so that it is there as a whole or not at all."""
        path = self.path(name)
        made = path.with_suffix(".new")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with open(made, "wb") as file:
                file.write(image)
                file.flush()
                os.fsync(file.fileno())
            for beside in BESIDE:
                Path(f"{path}{beside}").unlink(missing_ok=True)
            os.replace(made, path)
        except OSError as error:
            raise MachineError(f"cannot write {path}: {error.strerror}") from error

    def set_aside(self, name: str) -> str:
        """The last one is kept for whoever wants to look."""
        path = self.path(name)
        aside = Path(f"{path}{ASIDE}")
        for beside in ("", *BESIDE):
            with suppress(FileNotFoundError):
                os.replace(f"{path}{beside}", f"{aside}{beside}")
        return str(aside)

    def committed(self, name: str, connection: sqlite3.Connection) -> None:
        """SQLite has written it."""


class MemoryFiles:
    """In memory, for programs that are no servers, and for simulated ones.

    ``commits_kept``: so many images of each copy, newest last, from which a crash may take any one, as a loss of power
    may take the last commits of a file.
    """

    def __init__(self, commits_kept: int = 0) -> None:
        self._commits_kept = commits_kept
        self._images: dict[str, deque[bytes]] = {}

    def open(self, name: str) -> sqlite3.Connection:
        """The copy, or an empty one."""
        connection = connect(":memory:")
        images = self._images.get(name)
        if images:
            image = bytearray(images[-1])
            image[MODE] = NO_WAL
            connection.deserialize(bytes(image))
        return connection

    def replace(self, name: str, image: bytes) -> None:
        """It is the only one."""
        self._images[name] = deque([image], maxlen=max(1, self._commits_kept))

    def set_aside(self, name: str) -> str:
        """It is gone."""
        self._images.pop(name, None)
        return ""

    def committed(self, name: str, connection: sqlite3.Connection) -> None:
        """Keep an image, where crashes are simulated."""
        if self._commits_kept:
            known = self._images.setdefault(name, deque(maxlen=self._commits_kept))
            known.append(connection.serialize())

    def crash(self, lost: Callable[[int], int]) -> None:
        """``lost`` chooses how many of the last commits are lost, of so many that may be."""
        for images in self._images.values():
            for _ in range(lost(len(images) - 1)):
                images.pop()


def connect(path: str) -> sqlite3.Connection:
    """Statements are never kept, so that each counts its steps from nothing; transactions are ours."""
    return sqlite3.connect(path, isolation_level=None, cached_statements=0, timeout=BUSY_S)
