"""Which process writes a record, and whether it is gone: a reader on the same machine can tell, any other cannot.

A process is named by its namespace, its number there and when it began, so that a number that is given again means
nothing. Where the system tells none of this, nobody is ever taken for dead.
"""

from __future__ import annotations

import os
from pathlib import Path

from isotone.trace.layout import PartHeader, header_of_path, parts_of

_PROCESSES = Path("/proc")
_BOOT_ID = _PROCESSES / "sys/kernel/random/boot_id"
_STATE, _BEGAN = 0, 19  # behind the name, in a process' line
_DEAD = ("Z", "X")


def this_boot() -> str:
    """Which start of the operating system this is."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def this_process() -> str:
    """Who we are: what `has_died` understands."""
    number, began = os.getpid(), _began(os.getpid())
    return f"{_namespace()} {number} {began}" if began else ""


def has_died(header: PartHeader) -> bool:
    """Whether the process that wrote this part is certainly gone, while its machine still runs."""
    return _is_running(header) is False


def is_alive(header: PartHeader) -> bool:
    """Whether the process that writes this part certainly runs, on this machine."""
    return _is_running(header) is True


def _is_running(header: PartHeader) -> bool | None:
    """None where it cannot be told from here."""
    if not header.writer or not header.boot or header.boot != this_boot():
        return None
    namespace, _, process = header.writer.partition(" ")
    number, _, began = process.partition(" ")
    if not namespace == _namespace() != "" or not number.isdecimal():
        return None
    return _began(int(number)) == began


def has_all_parts(paths: list[Path], header: PartHeader) -> bool:
    """Whether these are all files that the record has by now: a writer may have begun another since one looked."""
    there = parts_of(paths[0].parent.parent, header.run, header.node, header.incarnation)
    return _numbers(there) <= _numbers(paths)


def _numbers(paths: list[Path]) -> set[int]:
    return {header.part for header in map(header_of_path, paths) if header is not None}


def _namespace() -> str:
    try:
        return os.readlink(_PROCESSES / "self/ns/pid")
    except OSError:
        return ""


def _began(number: int) -> str:
    """When a process began, as the system counts; nothing of one that is not there or only waits to be buried."""
    try:
        fields = (_PROCESSES / str(number) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[_STATE] in _DEAD else fields[_BEGAN]
