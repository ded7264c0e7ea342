from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from isotone.core.errors import InputError
from isotone.trace import rotation
from isotone.trace.events import Truncated
from isotone.trace.reader import read
from isotone.trace.rotation import rotate
from isotone.trace.spool import SpoolFile, SpoolPart, encode_row
from isotone.trace.writer import Level, TraceWriter
from tests.trace.rows import sends


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it, nothing is tidied up."""


def finished_spool(directory: Path) -> Path:
    writer = TraceWriter(directory, "r", "d1", 1, level=Level.FULL, rotate_bytes=None)
    for row in sends(20):
        writer.append(row)
    writer.close()
    return directory / "r" / "d1-1-000000.spool"


def suffixes(directory: Path) -> list[str]:
    return sorted(path.name.partition(".")[2] or path.name for path in (directory / "r").iterdir())


def kill(*_: Any, **__: Any) -> None:
    raise Killed


STEPS = {
    "before the write": (rotation, "write_part"),
    "before the sync": (os, "fsync"),
    "before the rename": (os, "replace"),
    "before the sync of the directory": (rotation, "sync_directory"),
    "before the spool is dropped": (os, "unlink"),
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_between_two_steps_every_row_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    spool = finished_spool(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(*STEPS[step], kill)
        with pytest.raises(Killed):
            rotate(spool)
    assert spool.exists()
    assert spool.with_suffix(".parquet").exists() == (step in list(STEPS)[3:])
    assert list(read([tmp_path])) == sends(20)


def test_the_steps_are_all_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crash points above are in the order in which they happen."""
    spool = finished_spool(tmp_path)
    happened: list[str] = []
    for step, (owner, name) in STEPS.items():
        original = getattr(owner, name)

        def noted(*args: Any, step: str = step, original: Any = original) -> Any:
            happened.append(step)
            return original(*args)

        monkeypatch.setattr(owner, name, noted)
    assert rotate(spool) == spool.with_suffix(".parquet")
    assert [step for place, step in enumerate(happened) if step not in happened[:place]] == list(STEPS)
    assert not spool.exists()
    assert list(read([tmp_path])) == sends(20)


def test_killed_while_writing_the_half_file_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = finished_spool(tmp_path)

    def half(path: Path, *_: Any) -> None:
        path.write_bytes(b"PAR1 half")
        raise Killed

    monkeypatch.setattr(rotation, "write_part", half)
    with pytest.raises(Killed):
        rotate(spool)
    assert len(list((tmp_path / "r").iterdir())) == 2
    assert list(read([tmp_path])) == sends(20)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = finished_spool(tmp_path)

    def half(path: Path, *_: Any) -> None:
        path.write_bytes(b"PAR1 half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rotation, "write_part", half)
    with pytest.raises(OSError, match="No space"):
        rotate(spool)
    assert list((tmp_path / "r").iterdir()) == [spool]


def test_rows_that_the_disk_refused_are_known_after_rotation_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At level full a later incarnation is no proof that nothing was lost."""
    writer = TraceWriter(tmp_path, "r", "d1", 1, level=Level.FULL, rotate_bytes=100_000)
    for row in sends(4):
        writer.append(row)
    with monkeypatch.context() as patch:
        patch.setattr(SpoolFile, "_write_all", lambda *_: False)
        for row in sends(3, first=4):
            writer.append(row)
        writer.close()
    assert writer.lost == 3
    assert suffixes(tmp_path) == ["parquet"]
    later = TraceWriter(tmp_path, "r", "d1", 2, level=Level.FULL, rotate_bytes=None)
    later.close()
    *rows, last = read([tmp_path])
    assert rows == sends(4)
    assert isinstance(last.entry, Truncated) and "the disk refused" in last.entry.reason


def test_a_spool_that_cannot_be_read_leaves_no_half_file(tmp_path: Path) -> None:
    spool = finished_spool(tmp_path)
    spool.write_bytes(spool.read_bytes()[:-9] + encode_row(sends(1)[0]))
    with pytest.raises(InputError, match="row 0 stands behind row 19"):
        rotate(spool)
    assert list((tmp_path / "r").iterdir()) == [spool]
    assert SpoolPart(spool).header.node == "d1"
