"""The laws of operators and the directions of functions: each that is declared holds, each that is missing fails."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.flows.operators import FUNCTIONS, OPERATORS, Function, Operator, Order, Type, at_most
from isotone.flows.values import LIMITLESS, Decisions, Pairs, RangeSet, range_set

NUMBERS = st.integers(-5, 5)
SETS = st.frozensets(st.integers(0, 8), max_size=6).map(range_set)
CUT_SETS = st.builds(range_set, st.frozensets(st.integers(0, 8)), st.sampled_from((2, 5, LIMITLESS)))
NODES = ("a", "b")
PAIRS = st.dictionaries(st.sampled_from(NODES), SETS).map(
    lambda named: Pairs(tuple(sorted((node, each) for node, each in named.items() if each)))
)
DECISIONS = st.builds(
    lambda committed, aborted, window: Decisions().extended(committed, aborted, window), SETS, SETS, st.integers(0, 4)
)
VALUES: dict[Type, Any] = {
    Type.INT: NUMBERS,
    Type.BOOL: st.booleans(),
    Type.SET: CUT_SETS,
    Type.PAIRS: PAIRS,
    Type.DECISIONS: DECISIONS,
}
FEW: dict[Type, Any] = {
    Type.INT: (-2, 0, 1, 5),
    Type.BOOL: (False, True),
    Type.SET: [range_set(numbers, limit) for numbers in ((), (1,), (1, 2, 4), (0, 4)) for limit in (2, LIMITLESS)],
    Type.PAIRS: (Pairs(), Pairs((("a", range_set((1, 2))),)), Pairs((("a", range_set((2,))), ("b", range_set((1,)))))),
}
"""Enough to break every law that does not hold."""


def operators() -> list[Operator]:
    return list(OPERATORS.values())


def same(one: Any, other: Any) -> bool:
    return bool(one == other)


LAWS: dict[str, Any] = {
    "associative": lambda op, a, b, c: same(op(op(a, b), c), op(a, op(b, c))),
    "commutative": lambda op, a, b, c: same(op(a, b), op(b, a)),
    "idempotent": lambda op, a, b, c: same(op(a, a), a),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("operator", operators(), ids=lambda each: each.name)
def test_a_law_holds_if_and_only_if_it_is_declared(operator: Operator, law: str) -> None:
    values = FEW[operator.types[0]]
    broken = [each for each in product(values, repeat=3) if not LAWS[law](operator.apply, *each)]
    assert (not broken) == getattr(operator, law), broken[:1]


def is_weak(operator: Operator, order: Order, a: Any, b: Any, c: Any) -> bool:
    return not at_most(a, b, order) or at_most(operator.apply(a, c), operator.apply(b, c), order)


@pytest.mark.parametrize("operator", operators(), ids=lambda each: each.name)
@given(data=st.data())
def test_weak_and_strong_monotonicity_hold_where_declared(operator: Operator, data: st.DataObject) -> None:
    values = VALUES[operator.types[0]]
    a, b, c = (data.draw(values) for _ in range(3))
    for order in operator.weak:
        assert is_weak(operator, order, a, b, c)
    if operator.strong:
        assert at_most(operator.apply(a, b), a, operator.strong)


@pytest.mark.parametrize("operator", operators(), ids=lambda each: each.name)
def test_no_operator_is_strong_where_it_is_not_declared(operator: Operator) -> None:
    for order in Order:
        pairs = product(FEW[operator.types[0]], repeat=2)
        above = [(one, other) for one, other in pairs if not at_most(operator.apply(one, other), one, order)]
        assert bool(above) == (order is not operator.strong)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: f"{each.name} {each.takes[0].value}")
@given(data=st.data())
def test_functions_go_with_their_arguments_as_declared(function: Function, data: st.DataObject) -> None:
    if function.remembers:
        return
    whole = VALUES | {Type.SET: SETS}
    arguments = [data.draw(whole[each]) for each in function.takes]
    place = data.draw(st.integers(0, len(arguments) - 1))
    direction = function.directions[place]
    other = data.draw(whole[function.takes[place]])
    if isinstance(other, Decisions) and isinstance(arguments[0], Decisions):
        other = arguments[0].extended(other.committed, other.aborted, data.draw(st.integers(0, 4)))
    if direction is None or not at_most(arguments[place], other, Order.GROWS):
        return
    first: list[Any] = ["a"] if function.name == "self *" else []
    before = function.apply(*first, *arguments)
    after = function.apply(*first, *arguments[:place], other, *arguments[place + 1 :])
    assert at_most(before, after, direction)


@given(SETS, SETS, SETS, SETS, st.integers(0, 5))
def test_decisions_only_grow_and_are_made_once(a: RangeSet, b: RangeSet, c: RangeSet, d: RangeSet, window: int) -> None:
    first = Decisions().extended(a, b, window)
    second = first.extended(c, d, window)
    assert first.within(second)
    assert not second.committed.intersection(second.aborted)
    assert not first.committed.intersection(second.aborted) and not first.aborted.intersection(second.committed)
    assert first.decided().within(second.decided())
