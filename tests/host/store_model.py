"""A store as plain values: what cells and logs hold after some writes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path

from isotone.core.contract import Append, CutHead, CutTail, Put, Storage
from isotone.host.files import Files
from isotone.host.store import Store
from isotone.host.writes import StoreWrite

NAME = "writer"
SMALL = 1200  # bytes of a segment: a few records each

Content = dict[str, tuple[int, list[bytes]]]


class QuickFiles(Files):
    """Counts syncs and leaves them out: where no machine stops, nothing is lost but time."""

    def sync(self, descriptor: int) -> None:
        """Not now."""
        self.syncs += 1

    def sync_directory(self, directory: Path) -> None:
        """Not now."""
        self.syncs += 1

    def settle(self, paths: Iterable[Path]) -> None:
        """Not now."""
        self.syncs += len(list(paths))


class Model:
    """The dumb version."""

    def __init__(self) -> None:
        self.cells: dict[str, bytes] = {}
        self.logs: Content = {}

    def take(self, writes: Iterable[StoreWrite]) -> None:
        """Carry them out."""
        for write in writes:
            if isinstance(write, Put):
                self.cells[write.cell] = write.value
                continue
            first, records = self.logs.get(write.log, (1, []))
            match write:
                case Append(record=record):
                    records.append(record)
                case CutHead(before=before):
                    gone = min(max(before - first, 0), len(records))
                    del records[:gone]
                    first += gone
                case CutTail(start=start):
                    del records[max(start - first, 0) :]
            self.logs[write.log] = (first, records)

    def after_each(self, log: str, writes: Sequence[StoreWrite]) -> list[tuple[int, list[bytes]]]:
        """How the log stands before the first of these writes and after each."""
        model = copy.deepcopy(self)
        model.logs.setdefault(log, (1, []))
        states = [copy.deepcopy(model.logs[log])]
        for write in writes:
            model.take([write])
            states.append(copy.deepcopy(model.logs[log]))
        return states


def content(storage: Storage) -> Content:
    """The logs of a store; nothing may be damaged."""
    assert not any(log.damaged for log in storage.logs.values())
    return {name: (log.first, list(log.records)) for name, log in storage.logs.items()}


def read(path: Path, name: str = NAME) -> Storage:
    """What is found at the next start."""
    store = Store(path, segment_bytes=SMALL, files=QuickFiles())
    opened = store.open(name)
    store.close()
    return opened.storage


def written(path: Path, batches: Iterable[Sequence[StoreWrite]]) -> Model:
    """A store with these group commits."""
    model = Model()
    store = Store(path, segment_bytes=SMALL, files=QuickFiles())
    store.open(NAME)
    for batch in batches:
        store.commit(batch)
        model.take(batch)
    store.close()
    return model
