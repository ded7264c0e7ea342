"""Cells and logs of a store against a model, through restarts, cuts, full disks and failing syncs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.core.contract import Append, CutHead, CutTail, Put
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.host import store as store_module
from isotone.host.files import DiskFull, Files
from isotone.host.frames import SEGMENT_VERSION
from isotone.host.scrub import create
from isotone.host.segments import segment_paths
from isotone.host.store import LOGS, Store, Sync
from isotone.host.writes import StoreWrite, checked_size
from tests.host.store_model import NAME, SMALL, Model, QuickFiles, content, read, written

LOG_NAMES = ("queue", "../x", "")
CELL_NAMES = ("attempt", "a/b")

writes = st.one_of(
    st.builds(Put, st.sampled_from(CELL_NAMES), st.binary(max_size=40)),
    st.builds(Append, st.sampled_from(LOG_NAMES), st.binary(max_size=300)),
    st.builds(Append, st.just("queue"), st.binary(max_size=300)),
    st.builds(CutHead, st.sampled_from(LOG_NAMES), st.integers(0, 30)),
    st.builds(CutTail, st.sampled_from(LOG_NAMES), st.integers(0, 30)),
)
batches = st.lists(st.lists(writes, max_size=6), max_size=12)


@settings(max_examples=40, deadline=None)
@given(lives=st.lists(batches, min_size=1, max_size=3), sync=st.sampled_from(Sync))
def test_what_was_written_is_found(tmp_path_factory: pytest.TempPathFactory, lives: list, sync: Sync) -> None:
    path = tmp_path_factory.mktemp("store")
    model = Model()
    for incarnation, life in enumerate(lives, start=1):
        store = Store(path, sync=sync, segment_bytes=SMALL, files=QuickFiles())
        opened = store.open(NAME)
        assert opened.incarnation == incarnation
        assert opened.storage.cells == model.cells
        assert content(opened.storage) == model.logs
        assert not opened.problems and not opened.cut_bytes
        for batch in life:
            store.commit(batch)
            model.take(batch)
        store.close()
    assert content(read(path)) == model.logs


def test_files_without_a_record_that_counts_go_and_the_first_number_stays(tmp_path: Path) -> None:
    batches = [[Append("log", bytes([number]) * 300)] for number in range(20)]
    model = written(tmp_path, [*batches, [CutHead("log", 15)]])
    files = segment_paths(tmp_path / LOGS / "log")
    assert 1 < len(files) < 5 and files[0][0] > 1
    assert content(read(tmp_path)) == model.logs and model.logs["log"][0] == 15
    more = written_on(tmp_path, [[CutHead("log", 99)], [Append("log", b"after")]])
    assert content(more)["log"] == (21, [b"after"])


def written_on(path: Path, batches: list[list[StoreWrite]]):  # type: ignore[no-untyped-def]
    store = Store(path, segment_bytes=SMALL, files=QuickFiles())
    store.open(NAME)
    for batch in batches:
        store.commit(batch)
    store.close()
    return read(path)


def test_numbers_that_were_cut_are_given_again_also_over_files(tmp_path: Path) -> None:
    batches = [[Append("log", bytes([number]) * 300)] for number in range(12)]
    model = written(tmp_path, [*batches, [CutTail("log", 3), Append("log", b"new")], [CutHead("log", 2)]])
    assert content(read(tmp_path)) == model.logs == {"log": (2, [b"\1" * 300, b"new"])}


# --- failures ---------------------------------------------------------------------------------------------------------


class FullFiles(Files):
    """A disk with so many bytes left."""

    def __init__(self, left: int = 1 << 40) -> None:
        super().__init__()
        self.left = left

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write what has room."""
        super().write(descriptor, data[: self.left], offset)
        self.left -= len(data)
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("left", [0, 10, 48, 200, 700, 1300, 1400])
def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path, left: int) -> None:
    files = FullFiles()
    store = Store(tmp_path, segment_bytes=SMALL, files=files)
    store.open(NAME)
    model = Model()
    first = [Append("log", b"a" * 300), Append("log", b"b" * 300), Put("cell", b"old"), Append("other", b"o")]
    store.commit(first)
    model.take(first)
    files.left = left
    with pytest.raises(DiskFull, match=r"^disk full: "):
        store.commit([*[Append("log", b"c" * 300)] * 3, Append("other", b"p" * 300), Put("cell", b"new" * 100)])
    files.left = 1 << 40
    after = [Append("log", b"d"), CutTail("other", 1), Put("cell", b"newer")]
    store.commit(after)
    model.take(after)
    store.close()
    found = read(tmp_path)
    assert content(found) == model.logs and found.cells == model.cells


@pytest.mark.parametrize("left", [900, 2_000, 3_100])
def test_a_large_commit_that_finds_no_room_is_taken_back_from_the_disk(
    tmp_path: Path, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "WRITE_BYTES_MAX", 500)
    files = FullFiles()
    store = Store(tmp_path, files=files)
    store.open(NAME)
    store.commit([Append("log", b"kept")])
    files.left, syncs = left, files.syncs
    with pytest.raises(DiskFull):
        store.commit([Append("log", b"c" * 300)] * 20)
    assert files.syncs > syncs + 1, "some of it was on disk already"
    files.left = 1 << 40
    store.commit([Append("log", b"after")])
    store.close()
    assert content(read(tmp_path)) == {"log": (1, [b"kept", b"after"])}


class FailingFiles(Files):
    """A disk whose syncs fail from some moment on."""

    failing = False
    reason = errno.EIO

    def sync(self, descriptor: int) -> None:
        """Say that it failed."""
        if self.failing:
            raise OSError(self.reason, os.strerror(self.reason))
        super().sync(descriptor)


def test_a_sync_that_failed_is_never_tried_again(tmp_path: Path) -> None:
    files = FailingFiles()
    store = Store(tmp_path, files=files)
    store.open(NAME)
    store.commit([Append("log", b"kept")])
    files.failing = True
    with pytest.raises(MachineError, match="the disk failed"):
        store.commit([Append("log", b"unknown")])
    files.failing = False
    size = sum(path.stat().st_size for _, path in segment_paths(tmp_path / LOGS / "log"))
    with pytest.raises(MachineError, match="Nothing more is written"):
        store.commit([Append("log", b"refused")])
    store.close()
    assert size == sum(path.stat().st_size for _, path in segment_paths(tmp_path / LOGS / "log"))
    assert content(read(tmp_path))["log"] in [(1, [b"kept"]), (1, [b"kept", b"unknown"])]


def test_a_sync_within_a_large_commit_that_failed_is_no_lack_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "WRITE_BYTES_MAX", 500)
    files = FailingFiles()
    store = Store(tmp_path, files=files)
    store.open(NAME)
    store.commit([Append("log", b"kept")])
    files.failing, files.reason = True, errno.ENOSPC  # as some file systems say it late
    with pytest.raises(MachineError, match="nobody knows what it holds"):
        store.commit([Append("log", b"c" * 300)] * 20)
    assert store.failed
    store.close()


def test_a_sync_of_a_full_file_that_failed_is_no_lack_of_room(tmp_path: Path) -> None:
    """What is left to the system is brought to disk when its file is left, and may be lost there."""
    files = FailingFiles()
    store = Store(tmp_path, sync=Sync.LEFT_TO_THE_SYSTEM, segment_bytes=SMALL, files=files)
    store.open(NAME)
    store.commit([Append("log", b"a" * SMALL)])
    files.failing, files.reason = True, errno.ENOSPC
    with pytest.raises(MachineError, match="nobody knows what it holds"):
        store.commit([Append("log", b"b")])
    files.failing = False
    with pytest.raises(MachineError, match="Nothing more is written"):
        store.commit([Append("log", b"c")])
    store.close()


def test_one_sync_for_each_log_of_a_commit(tmp_path: Path) -> None:
    files = Files()
    store = Store(tmp_path, files=files)
    store.open(NAME)
    store.commit([Append("log", b""), Append("other", b"")])
    before = files.syncs
    store.commit([Append("log", b"x")] * 1000)
    assert files.syncs == before + 1
    store.commit([Append("log", b"x"), Append("other", b"x"), Append("log", b"x")])
    assert files.syncs == before + 3
    store.commit([Put("cell", b"x")])
    assert files.syncs == before + 5
    store.close()


# --- who may use it ---------------------------------------------------------------------------------------------------


def test_a_store_is_used_by_one_and_by_its_owner(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open(NAME)
    with pytest.raises(MachineError, match=f"in use by another process .{os.getpid()}"):
        Store(tmp_path).open(NAME)
    store.close()
    with pytest.raises(InputError, match="holds the state of"):
        Store(tmp_path).open("somebody")
    read(tmp_path)


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path, [[Append("log", b"x")]])
    path = segment_paths(tmp_path / LOGS / "log")[0][1]
    data = bytearray(path.read_bytes())
    data[8:10] = (SEGMENT_VERSION + 1).to_bytes(2, "big")
    data[10:60] = bytes(range(50))  # whatever that format has there
    path.write_bytes(data)
    with pytest.raises(InputError, match="written in format 2 by a newer version"):
        read(tmp_path)


def test_what_no_store_can_take_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="the name of a log"):
        checked_size([Append("x" * 81, b"")])
    for name in ("", ".", "..", "x.new"):
        with pytest.raises(LocalProtocolError, match="no cell can be called"):
            checked_size([Put(name, b"")])
    assert checked_size([Append("x" * 80, b"12"), Put("cell", b"345")]) == 48 + 2 + 3


def test_the_longest_names_are_names_of_files(tmp_path: Path) -> None:
    longest = "\N{SNOWMAN}" * 26
    model = written(tmp_path, [[Append(longest, b"x"), Put(longest, b"y")]])
    found = read(tmp_path)
    assert content(found) == model.logs and found.cells == model.cells


def test_a_store_is_made_from_what_another_one_held(tmp_path: Path) -> None:
    model = written(
        tmp_path / "a", [[Append("log", b"x"), Append("log", b"y"), CutHead("log", 2), Put("cell", b"value")]]
    )
    create(tmp_path / "b", NAME, read(tmp_path / "a"))
    found = read(tmp_path / "b")
    assert content(found) == model.logs == {"log": (2, [b"y"])} and found.cells == model.cells
    with pytest.raises(InputError, match="is not empty"):
        create(tmp_path / "b", NAME, found)
