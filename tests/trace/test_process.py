"""The death of a writer, as a reader on its machine sees it: then a full record needs no truncation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from isotone.trace.events import Crashed, Recovered, Truncated
from isotone.trace.layout import PartHeader
from isotone.trace.process import has_died, this_boot, this_process
from isotone.trace.reader import read
from isotone.trace.spool import SpoolPart, begin_spool

WRITER = """
import sys, pathlib
from isotone.trace.events import Recovered, Row
from isotone.trace.writer import Level, TraceWriter
writer = TraceWriter(pathlib.Path(sys.argv[1]), "r", "d1", 1, level=Level(sys.argv[2]))
writer.append(Row("d1", 1, 0, 5, Recovered("d1#1")))
writer.flush()
print("ready", flush=True)
sys.stdin.read()
"""
HERE = PartHeader("r", "d1", 1, 0, "full", this_boot(), writer=this_process())
needs_processes = pytest.mark.skipif(not this_process(), reason="this system does not tell about processes")


def begun(directory: Path, level: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), level], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def killed(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@needs_processes
def test_a_record_at_level_full_ends_with_the_crash_of_a_process_that_is_gone(tmp_path: Path) -> None:
    process = begun(tmp_path, "full")
    try:
        assert isinstance(list(read([tmp_path]))[-1].entry, Truncated), "it lives, and may write more"
    finally:
        killed(process)
    rows = list(read([tmp_path]))
    assert [row.entry for row in rows] == [Recovered("d1#1"), Crashed("d1#1")]
    assert [(row.index, row.at) for row in rows] == [(0, 5), (1, 5)]


@needs_processes
def test_a_buffered_record_may_have_lost_rows_whoever_is_gone(tmp_path: Path) -> None:
    killed(begun(tmp_path, "buffered"))
    assert isinstance(list(read([tmp_path]))[-1].entry, Truncated)


@needs_processes
def test_a_torn_row_is_a_truncation_also_of_the_dead(tmp_path: Path) -> None:
    killed(begun(tmp_path, "full"))
    (spool,) = (tmp_path / "r").iterdir()
    spool.write_bytes(spool.read_bytes()[:-3])
    assert isinstance(list(read([tmp_path]))[-1].entry, Truncated)


@needs_processes
def test_a_part_that_nobody_was_told_to_read_keeps_the_end_open(tmp_path: Path) -> None:
    killed(begun(tmp_path, "full"))
    (first,) = (tmp_path / "r").iterdir()
    header = msgspec.structs.replace(SpoolPart(first).header, part=1)
    first.with_name("d1-1-000001.spool").write_bytes(begin_spool(header))
    assert isinstance(list(read([first]))[-1].entry, Truncated)
    assert isinstance(list(read([tmp_path]))[-1].entry, Crashed)


@needs_processes
def test_only_certainty_counts() -> None:
    namespace, number, began = this_process().split()
    assert not has_died(HERE)
    assert has_died(msgspec.structs.replace(HERE, writer=f"{namespace} {number} {int(began) + 1}")), (
        "the number came again"
    )
    for changes in (
        {"boot": ""},
        {"boot": "another"},
        {"writer": ""},
        {"writer": f"pid:[1] {os.getpid()} {int(began) + 1}"},
        {"writer": f"{namespace} one {began}"},
    ):
        assert not has_died(msgspec.structs.replace(HERE, **changes)), changes
