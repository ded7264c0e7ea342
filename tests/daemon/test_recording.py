"""The record of a daemon: what each level promises, what is said when rows are lost, and how long files stay."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from isotone.daemon.node_settings import TraceSettings
from isotone.daemon.recording import Recording
from isotone.trace import spool
from isotone.trace.events import Crashed, Entry, Gap, Recovered, Row, Truncated
from isotone.trace.reader import read_runs
from isotone.trace.writer import Level

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


def test_a_process_of_its_own_makes_the_parquet_file(tmp_path: Path) -> None:
    record = recording(tmp_path, apart=True)
    for _ in range(3):
        record.record(Recovered("d1#1"))
    record.close()
    assert [path.suffix for path in (tmp_path / "r").iterdir()] == [".parquet"]
    assert entries(tmp_path) == [Recovered("d1#1")] * 3
    assert not record.status().failed


def test_a_conversion_that_fails_is_told_and_the_spool_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    record = recording(tmp_path, apart=True)
    record.record(Recovered("d1#1"))
    record.close()
    assert [path.suffix for path in (tmp_path / "r").iterdir()] == [".spool"]
    assert entries(tmp_path) == [Recovered("d1#1")]
    assert "not in Parquet: exit code 1" in record.status().failed


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


def test_the_oldest_files_go_when_there_are_too_many_or_they_are_too_old(tmp_path: Path) -> None:
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
