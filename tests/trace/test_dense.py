from __future__ import annotations

import pytest

from isotone.core.errors import InputError
from isotone.trace.dense import Indices, dense, is_in_order
from isotone.trace.events import Gap, Recovered, Row
from tests.trace.rows import sends, sent


def test_repeated_rows_are_dropped_and_holes_named() -> None:
    rows = sends(10)
    assert list(dense(rows)) == rows
    assert list(dense([*rows[:5], *rows[2:]])) == rows
    assert list(dense(rows[3:5] + rows[7:])) == [
        Row("d1", 1, 0, 3, Gap(3)),
        *rows[3:5],
        Row("d1", 1, 5, 7, Gap(2)),
        *rows[7:],
    ]


def test_a_gap_stands_for_all_that_it_counts() -> None:
    rows = [*sends(2), Row("d1", 1, 2, 2, Gap(3)), sent("d1", 5)]
    assert list(dense(rows)) == rows
    by_hand = [*sends(2), Row("d1", 1, 2, 2, Gap(3)), sent("d1", 3)]
    assert list(dense(by_hand)) == by_hand
    assert list(dense([Row("d1", 1, 0, 0, Gap(3)), sent("d1", 4)])) == [
        Row("d1", 1, 0, 0, Gap(3)),
        Row("d1", 1, 3, 4, Gap(1)),
        sent("d1", 4),
    ]


def test_records_do_not_disturb_each_other() -> None:
    rows = [sent("d1", 0), sent("d2", 0), sent("d1", 0, incarnation=2), sent("d2", 1)]
    assert list(dense(rows)) == rows


def test_order_is_per_node() -> None:
    assert is_in_order([sent("d1", 1), sent("d2", 0), sent("d1", 0, incarnation=2)])
    assert not is_in_order([sent("d1", 1), sent("d1", 0)])
    assert not is_in_order([sent("d1", 1, incarnation=2), sent("d1", 2)])


def test_two_rows_of_one_id_that_differ_are_refused() -> None:
    """Both are shown: they are of two runs of one name, or one was altered."""
    one, other = Row("d1", 1, 0, 5, Recovered("d1#1")), Row("d1", 1, 0, 6, Recovered("d1#1"))
    assert list(dense([one, one])) == [one]
    with pytest.raises(InputError, match=r"d1#1 row 0, which do not agree: at 5 .* and at 6"):
        list(dense([one, other]))


def test_indices_are_known_in_any_order() -> None:
    indices = Indices()
    assert [indices.add(each) for each in (0, 1, 5, 6, 3, 3, 0, 6, 2, 7)] == [
        *(True, True, True, True, True),
        *(False, False, False, True, True),
    ]
