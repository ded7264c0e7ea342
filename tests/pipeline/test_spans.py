"""Which indices a file has, as ranges."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.pipeline.spans import Spans
from isotone.trace.parquet import require_pyarrow

Told = tuple[str, int, int, int, str]


def _batch(*rows: tuple[Any, ...]) -> Any:
    """Rows of node, index, kind and what else is told."""
    told = [
        {"run": "r", "node": node, "incarnation": 1, "index": index, "at": 10 * index, "kind": kind,
         "extra": extra[0] if extra else None}
        for node, index, kind, *extra in rows
    ]  # fmt: skip
    return require_pyarrow().RecordBatch.from_pylist(told)


def _spans(*batches: Any) -> list[Told]:
    spans = Spans()
    for batch in batches:
        spans.add(batch)
    found = spans.columns()
    assert {*found["run"]} <= {"r"} and {*found["kind"]} <= {"_span"}
    names = ("node", "index", "first_sequence", "at", "reason")
    return list(zip(*(found[name] for name in names), strict=True))


def test_rows_of_some_nodes_in_any_order() -> None:
    found = _spans(_batch(("a", 1, "join"), ("b", 0, "recover"), ("a", 0, "recover"), ("a", 3, "send")))
    assert found == [("a", 0, 2, 0, "join"), ("a", 3, 4, 30, "send"), ("b", 0, 1, 0, "recover")]


def test_what_goes_on_in_the_next_batch_is_one() -> None:
    first, second = _batch(("a", 0, "recover"), ("a", 1, "join")), _batch(("a", 2, "send"), ("a", 3, "crash"))
    assert _spans(first, second) == [("a", 0, 4, 0, "crash")]


def test_what_is_there_twice_is_in_two() -> None:
    assert _spans(_batch(("a", 0, "recover"), ("a", 1, "join"), ("a", 1, "join"))) == [
        ("a", 0, 2, 0, "join"),
        ("a", 1, 2, 10, "join"),
    ]


def test_rows_are_counted_and_a_gap_is_one() -> None:
    spans = Spans()
    for batch in (_batch(("a", 0, "recover"), ("a", 1, "gap", '{"lost": 5}')), _batch(("a", 6, "join"), ("b", 9, "x"))):
        spans.add(batch)
    assert spans.columns()["extra"] == ["3", "1"]


@pytest.mark.parametrize(("extra", "behind"), [('{"lost": 5}', 6), ('{"lost": 0}', 2), (None, 2), ("[", 2)])
def test_a_gap_reaches_as_far_as_it_says(extra: str | None, behind: int) -> None:
    assert _spans(_batch(("a", 0, "recover"), ("a", 1, "gap", extra), ("a", behind, "join"))) == [
        ("a", 0, behind + 1, 0, "join")
    ]


def test_nothing_is_nothing() -> None:
    assert _spans() == []
    assert _spans(_batch(("a", 0, "recover")).slice(0, 0)) == []
