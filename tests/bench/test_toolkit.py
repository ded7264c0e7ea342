"""The operation of [ISIS 5.4] on three real processes, small: a row for each layer, mode and number of updates."""

from __future__ import annotations

from isotone.bench.toolkit import LAYERS, MODES, measure


def test_the_table_has_all_rows() -> None:
    rows = measure(updates_max=2, operations=2)
    wanted = [(layer, mode, updates) for layer in LAYERS for mode in MODES for updates in (1, 2)]
    assert [(row["layer"], row["mode"], row["updates"]) for row in rows] == wanted
    assert all(row["answer_ms"] > 0 for row in rows)
    assert [row["paper_answer_ms"] for row in rows[:4]] == [300, 400, 850, 1350]
