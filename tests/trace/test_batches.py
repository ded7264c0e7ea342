"""Reading a column at a time gives what reading row by row gives, and leaves to that whatever is odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given

from isotone.trace.batches import Batches
from isotone.trace.columns import COLUMNS, entry_of
from isotone.trace.events import Row
from isotone.trace.parquet import schema, write_parquet
from tests.trace.rows import sends
from tests.trace.strategies import records


def batches_of(path: Path) -> list[Any]:
    return list(pyarrow.parquet.ParquetFile(path).iter_batches(columns=list(COLUMNS)))


def one_by_one(batch: Any) -> list[Row]:
    return [
        Row(columns["node"], columns["incarnation"], columns["index"], columns["at"], entry_of(columns))
        for columns in batch.to_pylist()
    ]


def test_both_ways_read_the_same(tmp_path: Path) -> None:
    @given(records(max_size=20))
    def check(rows: list[Row]) -> None:
        write_parquet(tmp_path / "x.parquet", "r", rows)
        for batch in batches_of(tmp_path / "x.parquet"):
            found = Batches(pyarrow).rows(batch, "r")
            assert found is not None
            assert found == one_by_one(batch)

    check()


def test_rows_of_one_kind_share_their_texts(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet", "r", sends(2))
    (batch,) = batches_of(tmp_path / "x.parquet")
    first, second = Batches(pyarrow).rows(batch, "r") or []
    assert first.node is second.node
    assert first.entry.groups is second.entry.groups  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("run", "other"), ("run", None), ("version", 2), ("node", None), ("index", -1), ("kind", "dance"),
        ("kind", None), ("clients", ["a", "b"]), ("clients", [None]), ("lengths", [-1]), ("lengths", [None]),
        ("digests", []), ("first_sequence", -3), ("service", "BEST"),
        ("groups", [None]),
    ],
)  # fmt: skip
def test_what_is_odd_is_left_to_reading_row_by_row(tmp_path: Path, column: str, value: Any) -> None:
    write_parquet(tmp_path / "x.parquet", "r", sends(2))
    (batch,) = batches_of(tmp_path / "x.parquet")
    place = schema().get_field_index(column)
    old = batch.column(column).to_pylist()[0]
    changed = batch.set_column(place, schema().field(place), pyarrow.array([old, value], schema().field(place).type))
    assert Batches(pyarrow).rows(changed, "r") is None
