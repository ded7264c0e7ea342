from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isotone.core.errors import LocalProtocolError, MachineError
from isotone.trace.events import Crashed, Gap, Row, Truncated
from isotone.trace.layout import temporary_path
from isotone.trace.reader import read
from isotone.trace.spool import SpoolPart
from isotone.trace.writer import Level, TraceWriter
from tests.trace import child as child_module
from tests.trace.rows import sends, sent

ROOT = Path(__file__).parents[2]


@contextmanager
def child(mode: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A writer in a process of its own; killed at the end of the block."""
    command = [sys.executable, "-m", child_module.__name__, mode, str(directory)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(word + "\n")
    process.stdin.flush()


def write(directory: Path, rows: list[Row], level: Level = Level.FULL, rotate_bytes: int | None = None) -> TraceWriter:
    writer = TraceWriter(directory, "r", rows[0].node, rows[0].incarnation, level=level, rotate_bytes=rotate_bytes)
    for row in rows:
        writer.append(row)
    return writer


def ends_truncated(rows: list[Row]) -> list[Row]:
    """The rows without the last, which says that the record goes on."""
    assert isinstance(rows[-1].entry, Truncated), rows[-1]
    assert rows[-1].index == len(rows) - 1
    return rows[:-1]


# --- a kill --------------------------------------------------------------------------------------------------------


def test_full_loses_no_row_to_a_kill(tmp_path: Path) -> None:
    with child("full", tmp_path) as process:
        assert line(process) == "done"
        assert ends_truncated(list(read([tmp_path]))) == sends(50)
    *rows, last = read([tmp_path])
    assert rows == sends(50) and isinstance(last.entry, Crashed), "the process is gone"


def test_full_needs_no_truncation_when_the_next_incarnation_shows_that_it_died(tmp_path: Path) -> None:
    with child("full", tmp_path) as process:
        assert line(process) == "done"
    write(tmp_path, sends(3, incarnation=2)).close()
    crash = Row("d1", 1, 50, 49, Crashed("d1#1"))
    assert list(read([tmp_path])) == [*sends(50), crash, *sends(3, incarnation=2)]


def test_full_on_a_machine_that_died_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with child("full", tmp_path) as process:
        assert line(process) == "done"
    monkeypatch.setattr("isotone.trace.writer.this_boot", lambda: "the next boot")
    write(tmp_path, sends(3, incarnation=2)).close()
    rows = list(read([tmp_path]))
    assert ends_truncated(rows[:51]) == sends(50)
    assert rows[51:] == sends(3, incarnation=2)


def test_buffered_loses_what_was_not_flushed_and_the_reader_says_so(tmp_path: Path) -> None:
    with child("buffered", tmp_path) as process:
        assert line(process) == "done"
    write(tmp_path, sends(3, incarnation=2)).close()
    rows = list(read([tmp_path]))
    assert ends_truncated(rows[:51]) == sends(50)
    assert rows[51:] == sends(3, incarnation=2)


def test_off_writes_nothing(tmp_path: Path) -> None:
    with child("off", tmp_path) as process:
        assert line(process) == "done"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["endless-full", "endless-buffered"])
@pytest.mark.parametrize("lines", [1, 2, 3, 7])
def test_a_kill_in_the_middle_of_rotations(tmp_path: Path, mode: str, lines: int) -> None:
    with child(mode, tmp_path) as process:
        promised = [int(line(process)) for _ in range(lines)][-1]
    *rows, last = read([tmp_path])
    ends = (Crashed, Truncated) if mode == "endless-full" else Truncated  # at level full, if no row was torn
    assert isinstance(last.entry, ends)
    assert len(rows) >= promised
    assert rows == sends(len(rows))
    assert any(path.suffix == ".parquet" for path in (tmp_path / "r").iterdir()) or lines == 1


# --- a full disk ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["disk-full", "disk-full-buffered"])
def test_a_full_disk_loses_rows_and_the_record_says_where(tmp_path: Path, mode: str) -> None:
    with child(mode, tmp_path) as process:
        lost = int(line(process))
        tell(process, "go on")
        assert line(process) == "done"
    rows = list(read([tmp_path]))
    kept = 200 - lost
    assert 10 <= kept < 100
    assert rows == [*sends(kept), Row("d1", 1, kept, 200, Gap(lost)), *sends(5, first=200)]


def test_a_full_disk_and_then_a_kill_is_truncated_even_at_level_full(tmp_path: Path) -> None:
    with child("disk-full", tmp_path) as process:
        lost = int(line(process))
    write(tmp_path, sends(1, incarnation=2)).close()
    rows = list(read([tmp_path]))
    assert ends_truncated(rows[:-1]) == sends(200 - lost)


def test_a_disk_that_stays_full_to_the_end(tmp_path: Path) -> None:
    with child("disk-full-at-the-end", tmp_path) as process:
        lost = int(line(process))
    assert ends_truncated(list(read([tmp_path]))) == sends(200 - lost)


def test_where_the_file_system_cannot_cut_back_a_new_part_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = write(tmp_path, sends(2))
    write_bytes = os.pwrite

    def half_then_fail(descriptor: int, data: bytes, offset: int) -> int:
        if offset < 20:
            return write_bytes(descriptor, data, offset)
        monkeypatch.setattr(os, "pwrite", fail)
        return write_bytes(descriptor, data[: len(data) // 2], offset)

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half_then_fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    writer.append(sent("d1", 2))
    writer.append(sent("d1", 3))
    assert (writer.lost, writer.problem) == (2, "[Errno 28] No space left on device")
    monkeypatch.undo()
    writer.append(sent("d1", 4))
    writer.close()
    assert list(read([tmp_path])) == [*sends(2), Row("d1", 1, 2, 4, Gap(2)), sent("d1", 4)]


def test_where_no_new_part_can_be_begun_either_the_rows_count_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    writer = write(tmp_path, sends(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        patch.setattr(os, "pwrite", fail)
        writer.append(sent("d1", 2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        writer.append(sent("d1", 3))
    assert writer.lost == 2
    writer.append(sent("d1", 4))
    writer.close()
    assert list(read([tmp_path])) == [*sends(2), Row("d1", 1, 2, 4, Gap(2)), sent("d1", 4)]


def test_of_one_flush_a_block_is_lost_and_the_next_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TraceWriter(tmp_path, "r", "d1", 1, rotate_bytes=None)
    rows = sends(3000)
    for row in rows:
        writer.append(row)
    ordinary, refused = os.pwrite, [True]

    def fail_once(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 1 and refused:
            refused.clear()
            raise OSError(28, "No space left on device")
        return ordinary(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", fail_once)
    writer.close()
    (spool,) = (tmp_path / "r").iterdir()
    gap, *rest = SpoolPart(spool).rows()  # as it was written, with nothing that the reader would add
    assert 0 < writer.lost < 3000
    assert gap.entry == Gap(writer.lost)
    assert rest == rows[writer.lost :]


# --- ordinary life -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [Level.BUFFERED, Level.FULL])
@pytest.mark.parametrize("rotate_bytes", [None, 500, 10**9])
def test_a_record_that_was_closed_is_whole(tmp_path: Path, level: Level, rotate_bytes: int | None) -> None:
    writer = TraceWriter(tmp_path, "r", "d1", 1, level=level, rotate_bytes=rotate_bytes)
    for row in sends(40):
        writer.append(row)
        if row.index % 7 == 0:
            writer.flush()
    writer.close()
    writer.close()
    writer.append(sent("d1", 40))
    writer.flush()
    assert list(read([tmp_path])) == sends(40)
    suffixes = {path.suffix for path in (tmp_path / "r").iterdir()}
    assert suffixes == ({".spool"} if rotate_bytes is None else {".parquet"})
    assert (writer.lost, writer.problem) == (0, "")


def test_a_record_without_rows(tmp_path: Path) -> None:
    TraceWriter(tmp_path, "r", "d1", 1).close()
    assert list(read([tmp_path])) == []


def test_a_queue_that_is_full_drops_and_says_so(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r", "d1", 1, queue_max=4)
    for row in sends(6):
        writer.append(row)
    writer.flush()
    for row in sends(7, first=6):
        writer.append(row)
    assert writer.lost == 5
    writer.close()
    assert list(read([tmp_path])) == [
        *sends(4),
        Row("d1", 1, 4, 6, Gap(2)),
        *sends(4, first=6),
        Row("d1", 1, 10, 12, Gap(3)),
    ]


@pytest.mark.parametrize("level", [Level.BUFFERED, Level.FULL])
def test_a_row_that_cannot_be_written_is_lost_like_any_other(tmp_path: Path, level: Level) -> None:
    odd = Row("d1", 1, 2, 2, Crashed("\udcff"))
    writer = write(tmp_path, [*sends(2), odd, sent("d1", 3), Row("d1", 1, 4, 4, odd.entry)], level)
    writer.close()
    assert writer.lost == 2
    assert "surrogates" in writer.problem
    assert list(read([tmp_path])) == [*sends(2), Row("d1", 1, 2, 3, Gap(1)), sent("d1", 3), Row("d1", 1, 4, 4, Gap(1))]


def test_a_record_that_ends_with_a_crash_needs_no_close(tmp_path: Path) -> None:
    crash = Row("d1", 1, 3, 3, Crashed("d1#1"))
    write(tmp_path, [*sends(3), crash])
    assert list(read([tmp_path])) == [*sends(3), crash]


def test_a_spool_that_cannot_become_parquet_now_does_so_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("isotone.trace.rotation.write_part", fail)
        writer = write(tmp_path, sends(40), rotate_bytes=1000)
        writer.flush()
        assert "No space" in writer.problem
        assert {path.suffix for path in (tmp_path / "r").iterdir()} == {".spool"}
        assert ends_truncated(list(read([tmp_path]))) == sends(40)
    writer.close()
    assert {path.suffix for path in (tmp_path / "r").iterdir()} == {".parquet"}
    assert list(read([tmp_path])) == sends(40)


def test_flush_runs_beside_append(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r", "d1", 1, level=Level.BUFFERED, rotate_bytes=20_000)
    stop = threading.Event()

    def flush_until_told() -> None:
        while not stop.is_set():
            writer.flush()

    threads = [threading.Thread(target=flush_until_told) for _ in range(2)]
    for thread in threads:
        thread.start()
    rows = sends(3000)
    for row in rows:
        writer.append(row)
    stop.set()
    for thread in threads:
        thread.join()
    writer.close()
    assert list(read([tmp_path])) == rows


def test_an_incarnation_has_one_record(tmp_path: Path) -> None:
    write(tmp_path, sends(1)).close()
    with pytest.raises(LocalProtocolError, match="incarnation 1 of 'd1' has a record"):
        TraceWriter(tmp_path, "r", "d1", 1)


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot write the trace"):
        TraceWriter(tmp_path / "file", "r", "d1", 1)


def test_what_broken_rotations_of_the_node_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    mine, other = (temporary_path(tmp_path / "r" / name) for name in ("d1-1-000000.parquet", "d2-1-000000.parquet"))
    mine.touch()
    other.touch()
    TraceWriter(tmp_path, "r", "d1", 2, level=Level.FULL)
    assert not mine.exists() and other.exists()
