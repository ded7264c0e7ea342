"""Operators of aggregations with their laws, and functions of transformations with the direction of each argument.

The prover believes what stands here, so the tests check every law, and that every law which is missing really fails.

Implements: [Flows 2.2], [Flows 2.4, (11) and (12)]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec

from isotone.flows.values import Decisions, Pairs, RangeSet, Value, interval


class Type(Enum):
    """The types of values."""

    INT = "int"
    BOOL = "bool"
    SET = "set"
    PAIRS = "pairs"
    DECISIONS = "decisions"


class Order(Enum):
    """In which direction the values of a monotonic flow go."""

    GROWS = "grows"
    FALLS = "falls"

    def reversed(self) -> Order:
        """The other one."""
        return Order.FALLS if self is Order.GROWS else Order.GROWS


INITIAL: Mapping[Type, Value] = {
    Type.INT: 0,
    Type.BOOL: False,
    Type.SET: RangeSet(),
    Type.PAIRS: Pairs(),
    Type.DECISIONS: Decisions(),
}
"""What a client's flow holds before the client says something."""


def at_most(one: Any, other: Any, order: Order) -> bool:
    """Whether ``one <= other`` in this order; sets are ordered by inclusion. For sets that fall, what is above a
    limit counts as in the set: nobody can say yet that it is not."""
    if isinstance(one, RangeSet):
        if order is Order.GROWS:
            return one.within(other)
        return one.limit <= other.limit and RangeSet(_up_to(other, one.limit)).within(RangeSet(one.bounds))
    if isinstance(one, Pairs | Decisions):
        return bool(one.within(other)) if order is Order.GROWS else bool(other.within(one))
    return bool(one <= other) if order is Order.GROWS else bool(one >= other)


def _up_to(numbers: RangeSet, limit: int) -> tuple[int, ...]:
    return RangeSet(numbers.bounds, limit).intersection(interval(0, limit)).bounds


class Operator(msgspec.Struct, frozen=True):
    """A binary operator: for which types, and which laws it has.

    ``weak`` and ``strong``: for which order it satisfies (11), and both (11) and (12), of [Flows 2.4].
    """

    name: str
    sign: str
    apply: Callable[[Any, Any], Any]
    types: tuple[Type, ...]
    associative: bool = True
    commutative: bool = True
    idempotent: bool = True
    weak: tuple[Order, ...] = (Order.GROWS, Order.FALLS)
    strong: Order | None = None


def _union(one: Any, other: Any) -> Any:
    return one.union(other)


def _intersection(one: RangeSet, other: RangeSet) -> RangeSet:
    return one.intersection(other)


def _sum(one: int, other: int) -> int:
    return one + other


def _middle(one: int, other: int) -> int:
    return (one + other) // 2


def _and(one: bool, other: bool) -> bool:
    return one and other


def _or(one: bool, other: bool) -> bool:
    return one or other


def _last(one: int, other: int) -> int:
    return other


OPERATORS: Mapping[str, Operator] = {
    each.name: each
    for each in (
        Operator("min", "", min, (Type.INT,), strong=Order.GROWS),
        Operator("max", "", max, (Type.INT,), strong=Order.FALLS),
        Operator("intersect", "/\\", _intersection, (Type.SET,), strong=Order.GROWS),
        Operator("union", "\\/", _union, (Type.SET,), weak=(Order.FALLS,), strong=Order.FALLS),
        Operator("merge", "", _union, (Type.PAIRS,), strong=Order.FALLS),
        Operator("all", "", _and, (Type.BOOL,), strong=Order.GROWS),
        Operator("any", "", _or, (Type.BOOL,), strong=Order.FALLS),
        Operator("sum", "", _sum, (Type.INT,), idempotent=False),
        Operator("middle", "", _middle, (Type.INT,), associative=False),
        Operator("last", "", _last, (Type.INT,), commutative=False),
    )
}
"""Some fail a law: they are there so that the prover can say which."""


class Function(msgspec.Struct, frozen=True):
    """A function of a transformation. ``directions``: for each argument, whether the result follows it (GROWS), goes
    against it (FALLS), or neither (None)."""

    name: str
    apply: Callable[..., Any]
    takes: tuple[Type, ...]
    gives: Type
    directions: tuple[Order | None, ...]
    remembers: bool = False  # its first argument is its own last result


def _product(node: str, numbers: RangeSet) -> Pairs:
    return Pairs(((node, RangeSet(numbers.bounds)),)) if numbers else Pairs()


def _difference(one: Any, other: Any) -> Any:
    return one.difference(other)


def _minus(one: int, other: int) -> int:
    return one - other


def _decided(decisions: Decisions) -> RangeSet:
    return decisions.decided()


def _decide(last: Decisions, commit: RangeSet, abort: RangeSet, window: int) -> Decisions:
    return last.extended(commit, abort, window)


def _not(one: bool) -> bool:
    return not one


def _reached(one: int, other: int) -> bool:
    return one >= other


_UP, _DOWN = Order.GROWS, Order.FALLS
_I, _S, _P, _D, _B = Type.INT, Type.SET, Type.PAIRS, Type.DECISIONS, Type.BOOL

FUNCTIONS: tuple[Function, ...] = (
    Function("+", _sum, (_I, _I), _I, (_UP, _UP)),
    Function("-", _minus, (_I, _I), _I, (_UP, _DOWN)),
    Function("-", _difference, (_S, _S), _S, (_UP, _DOWN)),
    Function("-", _difference, (_P, _P), _P, (_UP, _DOWN)),
    Function("\\", _difference, (_S, _S), _S, (_UP, _DOWN)),
    Function("\\", _difference, (_P, _P), _P, (_UP, _DOWN)),
    Function("\\/", _union, (_S, _S), _S, (_UP, _UP)),
    Function("\\/", _union, (_P, _P), _P, (_UP, _UP)),
    Function("/\\", _intersection, (_S, _S), _S, (_UP, _UP)),
    Function("self *", _product, (_S,), _P, (_UP,)),
    Function("reached", _reached, (_I, _I), _B, (_UP, _DOWN)),
    Function("not", _not, (_B,), _B, (_DOWN,)),
    Function("decided", _decided, (_D,), _S, (_UP,)),
    Function("decide", _decide, (_S, _S, _I), _D, (None, None, None), remembers=True),
)
"""``decide`` depends on what it decided before: no order of its arguments makes its result monotonic by itself."""


def function_for(name: str, types: tuple[Type, ...]) -> Function | None:
    """The function of this name for these arguments."""
    for each in FUNCTIONS:
        if each.name == name and each.takes == types:
            return each
    return None


def function_names() -> tuple[str, ...]:
    """The names that are called like functions, not written as signs."""
    return tuple(sorted({each.name for each in FUNCTIONS if each.name.isalpha()}))
