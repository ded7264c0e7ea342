"""Look at a store without changing it: is it sound, and what does it hold? It may be in use meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from isotone.core.contract import Storage, StoredLog
from isotone.core.errors import InputError, IsotoneError, MachineError
from isotone.daemon.storage import CELLS, TEMPORARY, read_cell
from isotone.host.replay import read_log
from isotone.host.segments import Found, escape, unescape
from isotone.host.store import LOGS, log_directories

ATTEMPTS = 5
"""Files of a store that is in use may go while it is read."""


class Unreadable(InputError):
    """The system does not let us read a file of a store; what is in it may be sound."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What cannot be read is named, with the reason: `Unreadable`, or `MachineError` if the disk failed."""
    try:
        yield
    except OSError as error:
        told = f"cannot read {error.filename or path}: {error.strerror or error}"
        raise (MachineError if error.errno == errno.EIO else Unreadable)(told) from error


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """One log."""

    log: str
    first: int
    next: int
    segments: int
    bytes: int
    damaged: tuple[int, ...]
    torn_bytes: int  # behind the last record; cut at the next start, or written just now
    problems: tuple[str, ...]


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of a store."""

    path: str
    logs: tuple[LogReport, ...]
    cells: dict[str, int]  # their sizes
    problems: tuple[str, ...]  # all of them, with what to do

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged; a torn tail is no damage."""
        return not self.problems


def verify(path: Path) -> StoreReport:
    """Read everything and compare all checksums."""
    check_store(path)
    logs, problems = [], []
    with readable(path):
        directories, cell_paths = log_directories(path), _cell_paths(path)
    for directory in directories:
        try:
            found = read_one(directory, keep=False)
        except Unreadable:
            raise
        except IsotoneError as error:
            problems.append(str(error))
            continue
        logs.append(_report(found))
        problems += found.problems
    cells = {}
    for cell in cell_paths:
        try:
            cells[unescape(cell.name)] = len(_read_cell(cell))
        except Unreadable:
            raise
        except IsotoneError as error:
            problems.append(str(error))
    return StoreReport(path=str(path), logs=tuple(logs), cells=cells, problems=tuple(problems))


def _report(found: Found) -> LogReport:
    return LogReport(
        log=found.log,
        first=found.first,
        next=found.next,
        segments=len(found.segments),
        bytes=sum(segment.size for segment in found.segments),
        damaged=found.damaged,
        torn_bytes=found.torn_bytes,
        problems=tuple(found.problems),
    )


def dump(path: Path, log: str, first: int = 1, last: int | None = None) -> Iterator[tuple[int, bytes | None]]:
    """The records ``first`` … ``last`` with their numbers, as far as they are kept; None for one that is damaged."""
    check_store(path)
    directory = path / LOGS / escape(log)
    with readable(directory):
        if not directory.is_dir():
            raise InputError(f"{path} has no log {log!r}")
    found = read_one(directory)
    end = found.next if last is None else min(found.next, last + 1)
    for number in range(max(first, found.first), end):
        yield number, found.records.get(number)


def read_storage(path: Path) -> Storage:
    """All that an automaton would find, for a backup."""
    check_store(path)
    with readable(path):
        directories, cell_paths = log_directories(path), _cell_paths(path)
    cells = {unescape(cell.name): _read_cell(cell) for cell in cell_paths}
    logs = {}
    for found in map(read_one, directories):
        records = tuple(found.records.get(number, b"") for number in range(found.first, found.next))
        logs[found.log] = StoredLog(found.first, records, found.damaged)
    return Storage(cells, logs)


def read_one(directory: Path, *, keep: bool = True) -> Found:
    """One log of a store, as `read_log` finds it."""
    with readable(directory):
        for _ in range(ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return read_log(directory, keep=keep)
        return read_log(directory, keep=keep)


def _read_cell(path: Path) -> bytes:
    with readable(path):
        return read_cell(path)


def _cell_paths(path: Path) -> list[Path]:
    cells = path / CELLS
    return sorted(each for each in cells.iterdir() if each.suffix != TEMPORARY) if cells.is_dir() else []


def check_store(path: Path) -> None:
    """Raise `InputError` where there is none."""
    with readable(path):
        if not (path / LOGS).is_dir():
            raise InputError(f"{path} is no store: it has no directory {LOGS!r}")
