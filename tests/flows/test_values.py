"""Sets as ranges against plain sets, truncation, and the plain forms on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.flows.values import (
    LIMITLESS,
    Decisions,
    Pairs,
    RangeSet,
    from_plain,
    interval,
    prefix_end,
    range_set,
    to_plain,
)

PLAIN = st.frozensets(st.integers(0, 30))


@given(PLAIN, PLAIN)
def test_ranges_are_sets(one: frozenset[int], other: frozenset[int]) -> None:
    a, b = range_set(one), range_set(other)
    assert set(a.union(b).numbers()) == one | other
    assert set(a.intersection(b).numbers()) == one & other
    assert set(a.difference(b).numbers()) == one - other
    assert a.within(b) == (one <= other)
    assert a.size() == len(one) and all((each in a) == (each in one) for each in range(32))
    for found in (a.union(b), a.intersection(b), a.difference(b)):
        assert found == range_set(found.numbers())


@given(PLAIN, PLAIN, st.integers(1, 4), st.integers(0, 30))
def test_truncated_sets_know_less_and_nothing_wrong(
    one: frozenset[int], other: frozenset[int], ranges_max: int, floor: int
) -> None:
    a = range_set(one).truncated(ranges_max, floor)
    assert a.ranges <= ranges_max or a.bounds[2 * ranges_max] <= floor
    assert set(a.numbers()) == {each for each in one if each <= a.limit}
    assert all(each in a for each in one if each <= floor)
    both, either = a.intersection(range_set(other)), a.union(range_set(other))
    assert set(both.numbers()) == {each for each in one & other if each <= a.limit}
    assert set(either.numbers()) == {each for each in one | other if each <= a.limit}
    assert both.limit == either.limit == a.limit


@given(PLAIN, st.sampled_from((40, LIMITLESS)))
def test_plain_forms_come_back(numbers: frozenset[int], limit: int) -> None:
    found = range_set(numbers, limit)
    for value in (found, 7, True, Pairs((("a", interval(1, 3)),)), Decisions(range_set(numbers), RangeSet(), 3)):
        assert from_plain(to_plain(value)) == value


@pytest.mark.parametrize(
    "plain",
    [
        *("x", None, ["s"], ["s", 3, 4, 5], ["s", -1, 5, 4], ["s", -1, 1, 2, 3, 4], ["s", -1, 1], ["s", -1, "1", 2]),
        *(
            ["p", ["a"]],
            ["p", ["b", 1, 1], ["a", 1, 1]],
            ["p", [1, 1, 1]],
            ["d", -1, [], []],
            ["d", 1, 2, 3],
            2**70,
            1.5,
        ),
    ],
)
def test_what_is_no_value_is_refused(plain: object) -> None:
    with pytest.raises(ValueError):
        from_plain(plain)


def test_pairs_are_bounded_and_restricted() -> None:
    many = Pairs(tuple((f"n{number:02}", interval(1, 9)) for number in range(20)))
    assert len(many.truncated(4).entries) == 4
    assert many.truncated(4).within(many) and not many.within(many.truncated(4))
    only = many.with_numbers_in(interval(3, 4))
    assert all(each == interval(3, 4) for _, each in only.entries)
    assert not many.difference(many) and many.union(many) == many


def test_the_prefix_ends_before_the_first_gap() -> None:
    assert prefix_end(range_set({1, 2, 3, 5})) == 3
    assert prefix_end(range_set({0, 1, 2})) == 2
    assert prefix_end(range_set({2, 3})) == 0
