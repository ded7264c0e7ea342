"""The record of a daemon: what each level promises, what is said when rows are lost, and how long files stay."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from isotone.daemon import converting
from isotone.daemon.converting import left_over
from isotone.daemon.node_settings import TraceSettings
from isotone.daemon.recording import Recording
from isotone.trace import rotation, spool
from isotone.trace.events import Crashed, Entry, Gap, Recovered, Row, Truncated
from isotone.trace.reader import read_runs
from isotone.trace.writer import Level

DEADLINE_S = 60.0
FULL = TraceSettings(level=Level.FULL, run="r")


def recording(directory: Path, incarnation: int = 1, **changes: object) -> Recording:
    settings = msgspec.structs.replace(FULL, directory=directory, **changes)
    return Recording(settings, "d1", incarnation, iter(range(10**9)).__next__)


def rows(directory: Path) -> list[Row]:
    return [row for _, found in read_runs([directory]) for row in found]


def entries(directory: Path) -> list[Entry]:
    return [row.entry for row in rows(directory)]


def test_a_closed_record_is_whole(tmp_path: Path) -> None:
    for level in (Level.FULL, Level.BUFFERED):
        record = recording(tmp_path / level.value, level=level)
        record.record(Recovered("d1#1"))
        record.record(Crashed("d1#1"))
        record.close()
        assert entries(tmp_path / level.value) == [Recovered("d1#1"), Crashed("d1#1")]


def test_full_loses_nothing_to_a_kill_and_buffered_says_what_it_lost(tmp_path: Path) -> None:
    full, buffered = recording(tmp_path / "full"), recording(tmp_path / "buffered", level=Level.BUFFERED)
    for record in (full, buffered):
        record.record(Recovered("d1#1"))
        record.abort()
    assert entries(tmp_path / "full")[0] == Recovered("d1#1")
    (end,) = entries(tmp_path / "buffered")
    assert isinstance(end, Truncated)


def test_what_falls_away_while_it_is_off_is_a_gap(tmp_path: Path) -> None:
    record = recording(tmp_path)
    record.record(Recovered("d1#1"))
    assert record.set_level(Level.OFF) == ""
    for _ in range(3):
        record.record(Recovered("d1#1"))
    assert record.set_level(Level.FULL) == ""
    record.record(Crashed("d1#1"))
    record.close()
    assert entries(tmp_path) == [Recovered("d1#1"), Gap(3), Crashed("d1#1")]


def test_a_record_that_is_off_at_its_end_does_not_look_whole(tmp_path: Path) -> None:
    record = recording(tmp_path)
    record.record(Recovered("d1#1"))
    record.set_level(Level.OFF)
    record.record(Crashed("d1#1"))
    record.close()
    first, last = entries(tmp_path)
    assert first == Recovered("d1#1") and isinstance(last, Truncated)


def test_it_can_begin_late(tmp_path: Path) -> None:
    record = recording(tmp_path, level=Level.OFF)
    record.record(Recovered("d1#1"))
    assert not rows(tmp_path)
    assert record.set_level(Level.BUFFERED) == ""
    record.record(Crashed("d1#1"))
    record.close()
    assert entries(tmp_path) == [Gap(1), Crashed("d1#1")]


@pytest.mark.parametrize(("before", "after"), [(Level.FULL, Level.BUFFERED), (Level.BUFFERED, Level.FULL)])
def test_a_changed_promise_is_as_good_as_its_weaker_half(tmp_path: Path, before: Level, after: Level) -> None:
    record = recording(tmp_path, level=before)
    record.record(Recovered("d1#1"))
    assert record.set_level(after) == ""
    assert record.status().level == after.value
    record.record(Recovered("d1#1"))
    record.abort()
    later = recording(tmp_path, 2)
    later.record(Crashed("d1#2"))
    later.close()
    kinds = [type(entry) for entry in entries(tmp_path)]
    lost_a_row = after is Level.BUFFERED
    assert kinds == [Recovered, *([] if lost_a_row else [Recovered]), Truncated, Crashed]


def suffixes(directory: Path) -> list[str]:
    return sorted(path.suffix for path in (directory / "r").iterdir() if not path.name.startswith("."))


def until(condition: Callable[[], bool]) -> None:
    """Other threads and processes are at work."""
    ends = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < ends
        os.sched_yield()


@pytest.mark.parametrize("apart", [False, True])
def test_a_stop_leaves_the_spool_and_the_next_start_makes_parquet_of_it(tmp_path: Path, apart: bool) -> None:
    first = recording(tmp_path, apart=apart)
    for _ in range(3):
        first.record(Recovered("d1#1"))
    first.close()
    assert suffixes(tmp_path) == [".spool"]
    assert entries(tmp_path) == [Recovered("d1#1")] * 3
    second = recording(tmp_path, 2, apart=apart)
    second.record(Recovered("d1#2"))
    second.flush()
    until(lambda: suffixes(tmp_path) == [".parquet", ".spool"])
    second.close()
    assert entries(tmp_path) == [*[Recovered("d1#1")] * 3, Recovered("d1#2")]
    assert not second.status().failed


def test_what_others_may_still_write_stays_as_it_is(tmp_path: Path) -> None:
    """An earlier start that did not end its record, in a process that lives: here, this one."""
    recording(tmp_path).abort()
    assert left_over(tmp_path, "r", "d1", 2) == []
    recording(tmp_path, 2).close()
    assert [path.name for path in left_over(tmp_path, "r", "d1", 3)] == ["d1-2-000000.spool"]
    assert left_over(tmp_path, "r", "d1", 2) == left_over(tmp_path, "r", "d2", 3) == left_over(tmp_path, "x", "d1", 3)


@pytest.mark.parametrize("apart", [False, True])
def test_a_full_part_becomes_parquet_while_the_daemon_writes_on(tmp_path: Path, apart: bool) -> None:
    record = recording(tmp_path, apart=apart, rotate_bytes=2_000)
    for _ in range(100):
        record.record(Recovered("d1#1"))
    record.flush()
    until(lambda: ".parquet" in suffixes(tmp_path))
    record.close()
    assert entries(tmp_path) == [Recovered("d1#1")] * 100


class Endless(spool.SpoolPart):
    """A spool with rows and rows."""

    def rows(self) -> Iterator[Row]:
        for index in itertools.count():
            (self.path.parent.parent / "begun").touch()
            yield Row("d1", 1, index, index, Recovered("d1#1"))


@pytest.mark.parametrize("apart", [False, True])
def test_a_stop_does_not_wait_for_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """A conversion that never ends: it is given up, and its spool is whole."""
    begun = tmp_path / "begun"
    if apart:
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 3600\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))
    else:
        monkeypatch.setattr(rotation, "SpoolPart", Endless)
    record = recording(tmp_path, apart=apart, rotate_bytes=1)
    for _ in range(3):
        record.record(Recovered("d1#1"))
    record.flush()
    until(begun.exists)
    record.close()
    assert set(suffixes(tmp_path)) == {".spool"}
    assert entries(tmp_path) == [Recovered("d1#1")] * 3
    assert not record.status().failed


def test_a_conversion_that_fails_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = recording(tmp_path, apart=True, rotate_bytes=1)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        for _ in range(2):
            record.record(Recovered("d1#1"))
        record.flush()
        until(lambda: "not in Parquet: exit code 1" in record.status().failed)
        assert set(suffixes(tmp_path)) == {".spool"}
    record.record(Recovered("d1#1"))
    record.flush()
    until(lambda: suffixes(tmp_path).count(".spool") == 1 and not record.status().failed)
    record.close()
    assert entries(tmp_path) == [Recovered("d1#1")] * 3


def test_without_a_directory_there_is_none_and_it_says_so() -> None:
    record = Recording(TraceSettings(level=Level.FULL), "d1", 1, lambda: 0)
    assert not record.is_on
    assert "no trace directory" in record.set_level(Level.FULL)
    record.close()


def test_a_directory_that_cannot_be_written_is_told_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    record = recording(tmp_path / "file")
    record.record(Recovered("d1#1"))
    assert "cannot write the trace" in record.status().failed
    record.close()


def test_a_full_disk_costs_rows_that_the_record_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = recording(tmp_path)
    record.record(Recovered("d1#1"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(spool.os, "pwrite", full)
        record.record(Recovered("d1#1"))
        assert "No space left" in record.status().failed
        assert record.status().lost == 1
    record.record(Crashed("d1#1"))
    assert not record.status().failed, "it is written again; what was lost stays counted"
    record.close()
    assert record.status().lost == 1
    assert entries(tmp_path) == [Recovered("d1#1"), Gap(1), Crashed("d1#1")]


def test_the_oldest_files_go_when_there_are_too_many_or_they_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converting, "has_pyarrow", lambda: False)  # else some have other names by the time of a look
    for incarnation in range(1, 6):
        record = recording(tmp_path, incarnation)
        record.record(Recovered(f"d1#{incarnation}"))
        record.close()
    files = sorted((tmp_path / "r").iterdir())
    foreign = tmp_path / "r" / "d2-1-000000.parquet"
    foreign.write_bytes(b"of another daemon")
    size = files[0].stat().st_size
    os.utime(files[0], (0, 0))
    by_age = recording(tmp_path, 6)
    by_age.flush()
    by_age.close()
    assert [path.name for path in files if path.exists()] == [path.name for path in files[1:]]
    by_size = recording(tmp_path, 7, bytes_max=3 * size)
    by_size.flush()
    by_size.close()
    left = [path for path in (tmp_path / "r").iterdir() if path.name.startswith("d1-")]
    assert len(left) <= 4 and foreign.exists()
    assert files[1].exists() is False
