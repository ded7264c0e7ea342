"""Records of what programs call on replicated objects and hear, in a directory: ``history="histories"``.

Each program has a record of its own. A row is handed to the operating system before its call is sent, or its answer
reaches the caller, so a killed program leaves all that it did. The clock is that of the machine, which all programs on
it share: histories of several machines cannot be judged together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from isotone.replicated.recording import HistoryRecorder
from isotone.replicated.state import ReplicatedState
from isotone.trace.events import Entry
from isotone.trace.recorder import Recorder
from isotone.trace.writer import Level, TraceWriter

NS_PER_US = 1_000
RUN = "history"


@contextmanager
def recorded_history(objects: ReplicatedState, name: str, directory: Path | str | None) -> Iterator[None]:
    """While the block lasts, if there is a directory. ``name``: of the program; two may have the same."""
    if directory is None:
        yield
        return
    client = f"{name}.{uuid4().hex}"
    writer = TraceWriter(Path(directory), Path(directory).name or RUN, client, 1, level=Level.FULL, rotate_bytes=None)
    recorder = Recorder(writer.append)

    def record(entry: Entry) -> None:
        recorder.record(client, 1, _wall(), entry)

    objects.history = HistoryRecorder(client, record, _wall)
    try:
        yield
    finally:
        objects.history = None
        writer.close()


def _wall() -> int:
    return time.monotonic_ns() // NS_PER_US
