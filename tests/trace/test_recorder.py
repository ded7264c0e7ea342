from __future__ import annotations

from isotone.trace.events import Connected, Row
from isotone.trace.recorder import Recorder


def test_indices_are_dense_per_node_and_incarnation() -> None:
    rows: list[Row] = []
    recorder = Recorder(rows.append)
    entry = Connected("#c#d1#1#1")
    returned = [
        recorder.record(node, incarnation, 5, entry)
        for node, incarnation in (("d1", 1), ("d2", 1), ("d1", 1), ("d1", 2))
    ]
    assert returned == rows
    assert [(row.node, row.incarnation, row.index) for row in rows] == [
        ("d1", 1, 0),
        ("d2", 1, 0),
        ("d1", 1, 1),
        ("d1", 2, 0),
    ]
    assert rows[0] == Row("d1", 1, 0, 5, entry)
