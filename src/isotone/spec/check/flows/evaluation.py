"""What the equations say, computed once more: plain sets instead of ranges, and no code shared with the runtime.

Implements: [Flows 2.2], [Flows 4.2]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Plain = Any
"""A value as JSON has it: a number, a truth value, or a list that begins with its kind."""


class Numbers(msgspec.Struct, frozen=True):
    """A set; what is above its limit is unknown (None: nothing is)."""

    inside: frozenset[int]
    limit: int | None = None

    def cut(self, limit: int | None) -> Numbers:
        """Known up to this limit only."""
        if limit is None:
            return self
        return Numbers(frozenset(each for each in self.inside if each <= limit), limit)


class Outcomes(msgspec.Struct, frozen=True):
    """Decisions."""

    committed: frozenset[int]
    aborted: frozenset[int]
    forgotten: int

    def decided(self) -> frozenset[int]:
        """All."""
        return self.committed | self.aborted | frozenset(range(1, self.forgotten + 1))


Pairs = frozenset[tuple[str, int]]
Computed = int | bool | Numbers | Outcomes | Pairs


def read_value(plain: Plain) -> Computed:
    """From the plain form."""
    if isinstance(plain, bool | int):
        return plain
    match plain:
        case ["s", limit, *bounds]:
            return Numbers(_expanded(bounds), None if limit == -1 else limit)
        case ["p", *entries]:
            return frozenset((entry[0], number) for entry in entries for number in _expanded(entry[1:]))
        case ["d", forgotten, committed, aborted]:
            return Outcomes(_expanded(committed), _expanded(aborted), forgotten)
    raise AssertionError(f"not a value: {plain}")


def read_values(text: str) -> list[Computed | None]:
    """A list of values as the trace has it."""
    return [None if each is None else read_value(each) for each in msgspec.json.decode(text)]


def read_named(text: str) -> dict[str, Computed]:
    """Values by the names of flows."""
    return {name: read_value(each) for name, each in msgspec.json.decode(text).items()}


def _expanded(bounds: Sequence[int]) -> frozenset[int]:
    return frozenset(each for first, last in zip(bounds[::2], bounds[1::2]) for each in range(first, last + 1))


def combined(operator: str, values: Sequence[Computed]) -> Computed:
    """The operator over all values."""
    many: Any = values
    match operator:
        case "min":
            return min(many)  # type: ignore[no-any-return]
        case "max":
            return max(many)  # type: ignore[no-any-return]
        case "sum":
            return int(sum(many))
        case "all":
            return all(many)
        case "any":
            return any(many)
        case "merge":
            return frozenset[tuple[str, int]]().union(*many)
    limits = [each.limit for each in many if each.limit is not None]
    inside = [each.inside for each in many]
    whole = frozenset[int].intersection(*inside) if operator == "intersect" else frozenset[int]().union(*inside)
    return Numbers(whole).cut(min(limits, default=None))


def is_result(found: Computed, computed: Computed) -> bool:
    """Whether a result is what was computed, but for a truncation."""
    if isinstance(found, Numbers) and isinstance(computed, Numbers):
        return found.inside == computed.cut(found.limit).inside
    if isinstance(found, frozenset) and isinstance(computed, frozenset):
        return found <= computed
    return found == computed


def not_above(one: Computed, other: Computed, order: str) -> bool:
    """Whether ``one <= other`` in this order."""
    if order == "falls":
        return not_above(other, one, "grows")
    match one, other:
        case Numbers(inside), Numbers(wider):
            return inside <= wider
        case Outcomes(), Outcomes():
            old = frozenset(range(1, other.forgotten + 1))
            return (
                one.forgotten <= other.forgotten
                and one.committed - old <= other.committed
                and one.aborted - old <= other.aborted
            )
        case frozenset(), frozenset():
            return one <= other
    return bool(one <= other)  # type: ignore[operator]


def is_cut(value: Computed | None) -> bool:
    """Whether a set was truncated."""
    return isinstance(value, Numbers) and value.limit is not None


def evaluated(expression: Any, flows: Mapping[str, Computed], node: str, last: Computed | None = None) -> Computed:
    """An expression of the program's rules, as JSON has it."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return flows[expression]
    function, *arguments = expression
    given: list[Any] = [evaluated(each, flows, node) for each in arguments]
    match function, given:
        case "+", [int(one), int(other)]:
            return one + other
        case "-" | "\\", [Numbers() as one, Numbers() as other]:
            return Numbers(one.inside - other.inside, one.limit)
        case "-", [int(one), int(other)]:
            return one - other
        case "-" | "\\", [one, other]:
            return one - other  # type: ignore[no-any-return]
        case "\\/", [Numbers(), Numbers()]:
            return combined("union", given)
        case "\\/", [one, other]:
            return one | other  # type: ignore[no-any-return]
        case "/\\", _:
            return combined("intersect", given)
        case "self *", [Numbers(inside)]:
            return frozenset((node, each) for each in inside)
        case "not", [one]:
            return not one
        case "reached", [one, other]:
            return bool(one >= other)
        case "decided", [Outcomes() as one]:
            return Numbers(one.decided())
        case "decide", [Numbers(commit), Numbers(abort), int(window)]:
            before = last if isinstance(last, Outcomes) else Outcomes(frozenset(), frozenset(), 0)
            return _decided(before, commit, abort, window)
    raise AssertionError(f"not a function: {function}")


def _prefix(decided: frozenset[int]) -> frozenset[int]:
    end = 0
    while end + 1 in decided:
        end += 1
    return frozenset(range(1, end + 1))


def _decided(last: Outcomes, commit: frozenset[int], abort: frozenset[int], window: int) -> Outcomes:
    known = last.decided()
    committed = commit - known
    aborted = abort - known - committed
    end = len(_prefix(known | committed | aborted))
    forgotten = max(last.forgotten, end - window)
    old = frozenset(range(forgotten + 1))
    return Outcomes((last.committed | committed) - old, (last.aborted | aborted) - old, forgotten)


INITIAL: Mapping[str, Computed] = {
    "int": 0,
    "bool": False,
    "set": Numbers(frozenset()),
    "pairs": frozenset(),
    "decisions": Outcomes(frozenset(), frozenset(), 0),
}
