"""A machine that stops at any call: of what was not synced, any blocks of any file are lost, and any names of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Append, CutHead, CutTail
from isotone.host.files import Files
from isotone.host.replay import read_log
from isotone.host.segments import segment_paths
from isotone.host.store import LOGS, Store, Sync
from isotone.host.writes import StoreWrite
from tests.host.store_model import NAME, SMALL, Model, QuickFiles

LOG = "log"
BLOCK = 64


class PowerLoss(BaseException):
    """Nothing happens after this."""


class FragileFiles(Files):
    """Remembers what is really on the disk; stops before the call number ``left``."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left
        self.durable: dict[Path, bytes] = {}
        self.names: dict[Path, set[Path]] = {}

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PowerLoss

    def _keep(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.durable[path] = path.read_bytes()

    def create(self, path: Path) -> int:
        """A name that may be lost."""
        self._step()
        return super().create(path)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Of which anything may be lost, also when the machine stops within it."""
        if self.left == 0:
            super().write(descriptor, data[: len(data) // 2], offset)
        self._step()
        super().write(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        """Nothing before it is lost."""
        self._step()
        self._keep(descriptor)

    def cut(self, descriptor: int, size: int) -> None:
        """Durable at once."""
        self._step()
        os.ftruncate(descriptor, size)
        self._keep(descriptor)

    def sync_directory(self, directory: Path) -> None:
        """No name is lost."""
        self._step()
        self.names[directory] = set(directory.iterdir())

    def lose(self, directory: Path, choice: Choice) -> None:
        """Leave what the machine has when it runs again."""
        now = set(directory.iterdir())
        kept = self.names.get(directory, set())
        for path in sorted(now | kept):
            if path not in now & kept and choice.chance(0.5):
                path.unlink(missing_ok=True)
                continue
            old = self.durable.get(path, b"")
            path.write_bytes(_mixed(old, path.read_bytes() if path in now else old, choice))


def _mixed(old: bytes, new: bytes, choice: Choice) -> bytes:
    """Some blocks of the new content, the others as they were; sizes only grow here."""
    assert len(new) >= len(old)
    size = len(old) + choice.below(len(new) - len(old) + 1)
    mixed = bytearray(old.ljust(size, b"\0"))
    for place in range(0, size, BLOCK):
        if choice.chance(0.6):
            mixed[place : place + BLOCK] = new[place : min(size, place + BLOCK)]
    return bytes(mixed)


def batch_of(choice: Choice, number: int) -> list[StoreWrite]:
    writes: list[StoreWrite] = []
    for _ in range(1 + choice.below(4)):
        match choice.below(9):
            case 0:
                writes.append(CutTail(LOG, 1 + choice.below(2 * number + 2)))
            case 1:
                writes.append(CutHead(LOG, 1 + choice.below(2 * number + 2)))
            case _:
                writes.append(Append(LOG, b"%d." % number * (1 + choice.below(60))))
    return writes


def committed(store: Store, choice: Choice, on_commit: Callable[[list[StoreWrite]], None]) -> list[StoreWrite]:
    """Commit until the machine stops; returns what was under way."""
    for number in range(1000):
        batch = batch_of(choice, number)
        try:
            store.commit(batch)
        except PowerLoss:
            return batch
        on_commit(batch)
        if choice.chance(0.5):
            try:
                store.tell_synced()
            except PowerLoss:
                return []
    raise AssertionError("the machine does not stop")


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("sync", list(Sync))
def test_what_was_promised_survives_and_the_rest_is_a_prefix(tmp_path: Path, sync: Sync, seed: int) -> None:
    choice = Choice(f"power {seed}")
    files = FragileFiles(10 + choice.below(90))
    store = Store(tmp_path, segment_bytes=SMALL, files=files, sync=sync)
    store.open(NAME)
    model = Model()
    under_way: list[StoreWrite] = []
    under_way += committed(store, choice, model.take if sync is Sync.EVERY_COMMIT else under_way.extend)
    for log in store._logs.values():
        log.close()
    store._state.close()
    directory = tmp_path / LOGS / LOG
    if directory not in files.names:
        return  # it was not even begun
    files.lose(directory, choice)
    found = read_log(directory)
    assert not found.damaged and segment_paths(directory)
    states = model.after_each(LOG, under_way)
    records = [found.records[number] for number in range(found.first, found.next)]
    assert (found.first, records) in states
    again = Store(tmp_path, segment_bytes=SMALL, files=QuickFiles())
    stored = again.open(NAME).storage.logs[LOG]
    assert (stored.first, list(stored.records)) == (found.first, records) and not stored.damaged
    again.commit([Append(LOG, b"goes on")])
    again.close()
    assert read_log(directory).records[found.next] == b"goes on"
