"""Clocks side by side: as they are where no message contradicts them, else in the middle of what messages allow."""

from __future__ import annotations

from isotone.pipeline.metrics.clocks import offsets

A, B, C = ("a", 1), ("b", 1), ("c", 1)


def test_clocks_that_contradict_nothing_are_taken_as_they_are() -> None:
    assert offsets({(A, B): 900, (B, A): 20}) == {A: 0, B: 0}


def test_a_clock_that_is_ahead_is_set_back_by_the_middle() -> None:
    ahead, there, back = 5_000_000, 300, 500
    found = offsets({(A, B): ahead + there, (B, A): back - ahead})
    assert abs(found[B] - found[A] - ahead) <= abs(there - back)


def test_bounds_reach_over_records_that_never_spoke_to_each_other() -> None:
    found = offsets({(A, B): 1_000_100, (B, A): -999_900, (B, C): -2_999_900, (C, B): 3_000_100})
    assert found == {A: 0, B: 1_000_000, C: -2_000_000}


def test_one_way_alone_gives_a_bound_and_no_middle() -> None:
    assert offsets({(A, B): -700}) == {A: 0, B: -700}
    assert offsets({(B, A): -700}) == {A: 0, B: 700}
