"""The thread of a store: group commit, answers in order, failures; and processes that are killed while they write."""

from __future__ import annotations

import errno
import os
import queue
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from isotone.core.contract import Append, StoredLog
from isotone.core.errors import MachineError
from isotone.host import disk as disk_module
from isotone.host import files as files_module
from isotone.host import store as store_module
from isotone.host.disk import Disk
from isotone.host.files import Files
from isotone.host.inspect import verify
from isotone.host.store import Store
from tests.host import writer_process
from tests.host.store_model import NAME, read
from tests.host.writer_process import body

WITHIN_S = 30.0
ROOT = Path(__file__).parents[2]


class GatedFiles(Files):
    """Syncs of logs wait until they may; ``failure`` is what a write says then."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = Event(), Event()
        self.failure = 0
        self.gated = False

    def sync(self, descriptor: int) -> None:
        """Wait."""
        if self.gated:
            self.entered.set()
            assert self.gate.wait(WITHIN_S)
        super().sync(descriptor)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Fail, where it is wanted."""
        if self.failure:
            failure, self.failure = self.failure, 0
            raise OSError(failure, os.strerror(failure))
        super().write(descriptor, data, offset)


class Desk:
    """A disk whose answers are looked at by hand."""

    def __init__(self, path: Path) -> None:
        self.files = GatedFiles()
        self.store = Store(path, files=self.files)
        self.store.open(NAME)
        self.store.commit([Append("log", b"first")])
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.disk = Disk(self.store, self.calls.put)
        self.answers: list[tuple[int, str]] = []

    def submit(self, number: int) -> None:
        """One `Persist`."""
        self.disk.submit([Append("log", b"%d" % number)], partial(self._answer, number))

    def _answer(self, number: int, reason: str) -> None:
        self.answers.append((number, reason))

    def pump(self) -> None:
        """Answers of one group commit."""
        self.calls.get(timeout=WITHIN_S)()

    def close(self) -> None:
        self.disk.close()
        self.store.close()


def test_all_that_waits_is_one_commit_and_answers_keep_their_order(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.files.gated = True
    before = desk.disk.syncs
    desk.submit(0)
    assert desk.files.entered.wait(WITHIN_S)
    for number in range(1, 1001):
        desk.submit(number)
    desk.files.gate.set()
    desk.pump()
    desk.pump()
    assert desk.answers == [(number, "") for number in range(1001)]
    assert desk.disk.commits == 2 and desk.disk.syncs == before + 2
    assert desk.disk.waiting_bytes == 0
    desk.close()
    assert len(read(tmp_path).logs["log"].records) == 1002


def test_what_stands_behind_a_failure_is_not_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.files.gated = True
    desk.submit(0)
    assert desk.files.entered.wait(WITHIN_S)
    desk.files.failure = errno.ENOSPC
    desk.submit(1)
    desk.files.gate.set()
    done, failed = (desk.calls.get(timeout=WITHIN_S) for _ in range(2))
    done()
    desk.submit(2)  # the failure is on its way, and nobody knows of it yet
    behind = desk.calls.get(timeout=WITHIN_S)
    failed()
    desk.submit(3)  # by somebody who knows
    behind()
    desk.pump()
    assert [number for number, _ in desk.answers] == [0, 1, 2, 3]
    assert [reason.startswith("disk full") for _, reason in desk.answers] == [False, True, True, False]
    desk.close()
    assert read(tmp_path).logs["log"] == StoredLog(1, (b"first", b"0", b"3"))


def test_a_bug_in_a_commit_is_answered_and_nothing_more_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)

    def broken(writes: object) -> None:
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "commit", broken)
        desk.submit(0)
        desk.pump()
    desk.submit(1)
    desk.pump()
    assert [number for number, _ in desk.answers] == [0, 1] and "no memory" in desk.answers[0][1]
    assert desk.answers[0][1] == desk.answers[1][1] == desk.disk.failed
    desk.close()
    assert read(tmp_path).logs["log"] == StoredLog(1, (b"first",))


def test_a_bug_behind_a_commit_is_the_answer_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, done = Desk(tmp_path), Event()

    def broken() -> None:
        done.set()
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "tell_synced", broken)
        desk.submit(0)
        desk.pump()
        assert done.wait(WITHIN_S)
        desk.submit(1)
        desk.pump()
    assert desk.answers[0] == (0, "") and "no memory" in desk.answers[1][1]
    desk.close()
    assert read(tmp_path).logs["log"] == StoredLog(1, (b"first", b"0"))


def test_too_much_that_waits_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "WAITING_BYTES_MAX", 200)
    desk = Desk(tmp_path)
    desk.files.gated = True
    desk.submit(0)
    desk.submit(1)
    desk.submit(2)
    desk.submit(3)
    with pytest.raises(MachineError, match="too slow"):
        desk.submit(4)
    desk.files.gate.set()
    desk.close()


class TimedFiles(Files):
    """Every call takes so long, on a clock of its own; before it comes back somebody looks."""

    now = 1_000.0
    takes_s = 0.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk_module, "monotonic", lambda: self.now)
        monkeypatch.setattr(files_module, "monotonic", lambda: self.now)
        super().__init__()
        self.look: Callable[[], object] = lambda: None

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        if data:
            self._pass()
        super().write(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self._pass()
        super().sync(descriptor)

    def _pass(self) -> None:
        self.now += self.takes_s
        self.look()


def test_a_large_write_that_makes_progress_is_no_hanging_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a watch would see at its worst: the longest call, and not the sum of all."""
    monkeypatch.setattr(store_module, "WRITE_BYTES_MAX", 1_000)
    files = TimedFiles(monkeypatch)
    store = Store(tmp_path, files=files)
    store.open(NAME)
    store.commit([Append("log", b"first")])
    monkeypatch.setattr(store, "tell_synced", lambda: None)  # what is done behind the answer is not looked at
    calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    disk = Disk(store, calls.put)
    waited: list[float] = []
    files.look, files.takes_s, syncs = lambda: waited.append(disk.waited_s()), 3.0, files.syncs
    disk.submit([Append("log", b"x" * 400)] * 30, lambda reason: None)
    answer = calls.get(timeout=WITHIN_S)
    files.takes_s = 0.0
    assert files.syncs - syncs >= 10, "each stretch is brought to disk: one sync of all would answer nothing for long"
    assert sum(waited) >= 60 and max(waited) == 3.0
    files.now += 7.0
    assert disk.waited_s() == 7.0, "and a disk that says nothing is one that hangs"
    answer()
    assert disk.waited_s() == 0.0
    disk.close()
    store.close()
    assert len(read(tmp_path).logs["log"].records) == 31


# --- processes -------------------------------------------------------------------------------------------------------


def start(path: Path, file_bytes_max: int = 0) -> subprocess.Popen[bytes]:
    command = [sys.executable, writer_process.__file__, str(path), str(file_bytes_max)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def check(log: StoredLog, acknowledged: int) -> None:
    """All that was acknowledged is there, and nothing else than what was asked for."""
    assert not log.damaged
    last = log.first + len(log.records) - 1
    assert last >= acknowledged >= log.first - 1
    assert list(log.records) == [body(number) for number in range(log.first, last + 1)]


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged = 0
    for answers in (1, 130, 700, 333):
        with start(tmp_path) as process:
            assert process.stdout is not None
            for _ in range(answers):
                acknowledged = int(process.stdout.readline().split()[0])
            process.kill()
            rest = process.stdout.read().splitlines()
        acknowledged = max([acknowledged, *(int(line.split()[0]) for line in rest[:-1])])
        storage = read(tmp_path)
        check(storage.logs["log"], acknowledged)
        if acknowledged >= 50:
            assert int(storage.cells["last"]) >= acknowledged // 50 * 50
    assert verify(tmp_path).is_sound
    assert storage.logs["log"].first > 1


def test_a_killed_host_goes_on_from_what_it_said(tmp_path: Path) -> None:
    said = 0
    for answers in (1, 40, 150):
        command = [sys.executable, "-m", "tests.host.counter_process", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            begun = int(process.stdout.readline())
            assert begun >= said
            for _ in range(answers):
                said = int(process.stdout.readline())
            process.kill()
        durable = sum(int(record) for record in read(tmp_path, "counter").logs["added"].records)
        assert durable >= said > begun


def test_a_process_without_room_says_so_and_loses_nothing(tmp_path: Path) -> None:
    with start(tmp_path, 15_000) as process:
        output, _ = process.communicate(timeout=WITHIN_S)
    lines = output.decode().splitlines()
    good = [int(line) for line in lines if line.strip().isdecimal()]
    refused = [line for line in lines if "disk full" in line]
    assert process.returncode == 0 and good and refused and len(good) + len(refused) == len(lines)
    log = read(tmp_path).logs["log"]
    check(log, good[-1])
    assert log.first + len(log.records) - 1 == good[-1]
