"""A process that appends until it is killed; says on its output what is durable.

``python writer_process.py DIRECTORY FILE_BYTES_MAX``: a file may have so many bytes, 0 for any.
"""

from __future__ import annotations

import os
import queue
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from isotone.core.contract import Append, CutHead, Put
from isotone.host.disk import Disk
from isotone.host.store import Store
from isotone.host.writes import StoreWrite

IN_FLIGHT = 16
KEPT = 200
SEGMENT_BYTES = 20_000


def body(number: int) -> bytes:
    """The content of a record."""
    return b"%d " % number * (1 + number % 40)


def writes_of(number: int) -> list[StoreWrite]:
    """A record; now and then a cell, and old records go."""
    writes: list[StoreWrite] = [Append("log", body(number))]
    if number % 50 == 0:
        writes += [Put("last", b"%d" % number), CutHead("log", number - KEPT)]
    return writes


def main(path: Path, file_bytes_max: int) -> None:
    """Until somebody ends it, or the disk refuses."""
    store = Store(path, segment_bytes=SEGMENT_BYTES)
    log = store.open("writer").storage.logs.get("log")
    number = log.first + len(log.records) - 1 if log is not None else 0
    if file_bytes_max:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
    calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    disk = Disk(store, calls.put)
    refused: list[str] = []

    waiting = 0

    def answer(asked: int, reason: str) -> None:
        nonlocal waiting
        waiting -= 1
        if reason:
            refused.append(reason)
        os.write(1, f"{asked} {reason}\n".encode())

    while not refused:
        while waiting < IN_FLIGHT:
            number, waiting = number + 1, waiting + 1
            disk.submit(writes_of(number), partial(answer, number))
        calls.get()()
    disk.close()
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
