"""A trace file in a task, without Spark: what is asked when, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isotone.core.services import Service
from isotone.pipeline import files
from isotone.pipeline.file_checks import BULK
from isotone.trace.columns import columns_of
from isotone.trace.events import (
    DaemonDelivered,
    DaemonSent,
    Delivered,
    NetworkReceived,
    NetworkSent,
    Sent,
)
from isotone.trace.layout import PARQUET_SUFFIX, part_path
from isotone.trace.parquet import require_pyarrow, write_parquet
from isotone.trace.spool import encode_row, rotated_path
from tests.pipeline.test_records import header, rows, spool, write


def _read(path: Path) -> list[dict[str, Any]]:
    batch = require_pyarrow().RecordBatch.from_pylist([{"path": str(path), "first": 0, "last": 1}])
    return [row for found in files.read_chunks([batch]) for row in found.to_pylist()]


def _indices(found: list[dict[str, Any]]) -> list[int]:
    return [row["index"] for row in found if not row["kind"].startswith("_")]


def test_whether_a_writer_is_dead_is_asked_before_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spool(tmp_path, "run", 0, rows(0, 2))

    def dies(_: object) -> bool:
        with path.open("ab") as file:
            file.write(encode_row(rows(2, 3)[0]))
        return True

    monkeypatch.setattr(files, "has_died", dies)
    assert _indices(_read(path)) == [0, 1, 2]


def test_a_spool_that_was_rotated_since_is_read_as_parquet(tmp_path: Path) -> None:
    path = part_path(tmp_path, header("run", 0), ".spool")
    write(tmp_path, "run", 0, rows(0, 3))
    assert rotated_path(path).suffix == PARQUET_SUFFIX
    found = _read(path)
    assert _indices(found) == [0, 1, 2]
    assert {row["file"] for row in found} == {str(path)}  # as it was listed
    assert [row["kind"] for row in _read(tmp_path / "run" / "d1-1-000007.spool")] == ["_problem"]


def test_the_columns_of_messages_are_those_of_the_trace() -> None:
    bundle = {"first_sequence": 1, "service": Service.FIFO, "lengths": (1,), "digests": (2,)}
    told = {"sender": "s", "lamport": 1, "stamper": "d#1", **bundle}
    entries = [
        Sent(client="c", groups=("g",), **bundle),  # type: ignore[arg-type]
        Delivered(receivers=("c",), groups=("g",), **told),  # type: ignore[arg-type]
        DaemonSent(daemon="d", **bundle),  # type: ignore[arg-type]
        DaemonDelivered(daemon="d", **told),  # type: ignore[arg-type]
        NetworkSent("d", "n", 1, 2),
        NetworkReceived("d", "n", "s", 1, 2),
    ]
    filled = {columns["kind"]: set(columns) - {"kind"} for columns in map(columns_of, entries)}
    assert filled == {kind: set(columns) for kind, columns in BULK.items()}


GOOD: dict[str, dict[str, Any]] = {
    "send": {"clients": ["#c#d1#1#1"], "groups": ["g"], "service": "FIFO", "first_sequence": 1, "lengths": [1],
             "digests": [2]},
    "view": {"clients": ["#c#d1#1#1"], "groups": ["g"], "members": ["#c#d1#1#1"], "transitional": [], "cause": "join",
             "subject": "",
             "view": {"epoch": 1, "coordinator": "d1#1", "next_epoch": 0, "next_coordinator": "#0", "lamport": 0,
                      "stamper": "#0"}},
    "nreceive": {"clients": ["d1#1"], "network": "n", "sender": "d2#1", "first_sequence": 1, "digests": [3]},
    "gap": {"extra": '{"lost": 2}'},
}  # fmt: skip
SPOILT: dict[str, tuple[str, dict[str, Any]]] = {
    "no service": ("send", {"service": None}),
    "unknown service": ("send", {"service": "LOUD"}),
    "below 0": ("send", {"lengths": [-1]}),
    "null length": ("send", {"lengths": [None]}),
    "no pairs": ("send", {"lengths": [1, 2]}),
    "two senders": ("send", {"clients": ["#c#d1#1#1", "#e#d1#1#2"]}),
    "no groups": ("send", {"groups": None}),
    "no view": ("view", {"view": None}),
    "no coordinator": ("view", {"view": {**GOOD["view"]["view"], "coordinator": None}}),
    "null member": ("view", {"members": [None]}),
    "two digests": ("nreceive", {"digests": [1, 2]}),
    "no sender": ("nreceive", {"sender": None}),
    "nothing lost": ("gap", {"extra": "{}"}),
    "unknown kind": ("gap", {"kind": "later"}),
}


def spoilt(place: Path, run: str, kind: str, changes: dict[str, Any]) -> Path:
    """A Parquet file by another program: a good row, and one with these columns changed."""
    arrow = require_pyarrow()
    write_parquet(place / "like.parquet", run, rows(0, 1))
    like = arrow.parquet.read_table(place / "like.parquet")
    (place / "like.parquet").unlink()
    first = like.to_pylist()[0]
    row = {**dict.fromkeys(first), "run": run, "version": 1, "node": "d1", "incarnation": 1, "index": 1, "at": 1}
    row |= {"kind": kind, **GOOD[kind], **changes}
    path = place / f"{run.replace(' ', '-')}.parquet"
    arrow.parquet.write_table(arrow.Table.from_pylist([first, row], schema=like.schema), path)
    return path


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_row_of_another_program_is_taken(tmp_path: Path, kind: str) -> None:
    found = _read(spoilt(tmp_path, kind, kind, {}))
    assert "_problem" not in {row["kind"] for row in found}
    assert _indices(found) == [0, 1]


@pytest.mark.parametrize("case", SPOILT)
def test_a_row_that_is_none_is_named(tmp_path: Path, case: str) -> None:
    path = spoilt(tmp_path, case, *SPOILT[case])
    problems = [row for row in _read(path) if row["kind"] == "_problem"]
    assert len(problems) == 1
    assert str(path) in problems[0]["reason"]
