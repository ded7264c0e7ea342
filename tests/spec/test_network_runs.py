"""What networks are done with: a set of numbers, kept as runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isotone.spec.check.network import _Runs


@given(st.lists(st.integers(0, 40)))
def test_runs_are_a_set(numbers: list[int]) -> None:
    runs = _Runs()
    for number in numbers:
        runs.add(number)
    assert [number for number in range(-1, 42) if number in runs] == sorted(set(numbers))


def test_numbers_that_follow_each_other_are_one_run() -> None:
    runs = _Runs()
    for number in (5, 1, 3, 2, 4, 4):
        runs.add(number)
    assert (list(runs._firsts), list(runs._lasts)) == ([1], [5])
