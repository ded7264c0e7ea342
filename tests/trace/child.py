"""A writer in a process of its own, to be killed: ``python child.py MODE DIRECTORY``. Says on stdout what it has done.

It waits for its end on stdin, so no test needs to guess how long anything takes.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from isotone.trace.writer import Level, TraceWriter
from tests.trace.rows import sends, sent


def say(word: object) -> None:
    print(word, flush=True)


def wait() -> None:
    sys.stdin.read()


def full(directory: Path) -> None:
    writer = TraceWriter(directory, "r", "d1", 1, level=Level.FULL)
    for row in sends(50):
        writer.append(row)
    say("done")
    wait()


def buffered(directory: Path) -> None:
    writer = TraceWriter(directory, "r", "d1", 1, level=Level.BUFFERED)
    for row in sends(50):
        writer.append(row)
    writer.flush()
    for row in sends(30, first=50):
        writer.append(row)
    say("done")
    wait()


def off(directory: Path) -> None:
    writer = TraceWriter(directory, "r", "d1", 1, level=Level.OFF)
    for row in sends(50):
        writer.append(row)
    writer.flush()
    say("done")
    wait()


def endless(directory: Path, level: Level) -> None:
    """Small parts, so that a kill falls into a rotation as often as not."""
    writer = TraceWriter(directory, "r", "d1", 1, level=level, rotate_bytes=2000)
    for index in range(1_000_000):
        writer.append(sent("d1", index))
        if index % 25 == 24:
            writer.flush()
            say(index + 1)


def disk_full(directory: Path, level: Level) -> None:
    """The disk takes 4,000 bytes per file, then for a while no more, then all again."""
    writer = TraceWriter(directory, "r", "d1", 1, level=level, rotate_bytes=None)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    for row in sends(200):
        writer.append(row)
        if row.index % 10 == 9:
            writer.flush()
    lost = writer.lost
    assert writer.problem
    say(lost)
    if sys.stdin.readline().strip() == "wait":
        wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    for row in sends(5, first=200):
        writer.append(row)
    writer.close()
    assert writer.lost == lost
    say("done")


def disk_full_at_the_end(directory: Path) -> None:
    writer = TraceWriter(directory, "r", "d1", 1, level=Level.FULL, rotate_bytes=None)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    for row in sends(200):
        writer.append(row)
    (spool,) = directory.rglob("*.spool")
    resource.setrlimit(resource.RLIMIT_FSIZE, (spool.stat().st_size, hard))  # not even its end has room
    writer.close()
    say(writer.lost)


if __name__ == "__main__":
    mode, directory = sys.argv[1], Path(sys.argv[2])
    {
        "full": full,
        "buffered": buffered,
        "off": off,
        "endless-full": lambda to: endless(to, Level.FULL),
        "endless-buffered": lambda to: endless(to, Level.BUFFERED),
        "disk-full": lambda to: disk_full(to, Level.FULL),
        "disk-full-buffered": lambda to: disk_full(to, Level.BUFFERED),
        "disk-full-at-the-end": disk_full_at_the_end,
    }[mode](directory)
