"""Values of flows as programs and people give and get them, in JSON and in words.

A number or a truth value is itself. A set is a list of numbers and of ranges, ``[1, 2, [5, 9]]``; it is told by ranges
alone, and with ``known_up_to`` if what is above did not fit. Pairs are such a list for each node.
"""

from __future__ import annotations

from typing import Any

from isotone.flows.operators import Type
from isotone.flows.values import LIMITLESS, Decisions, Pairs, RangeSet, Value, from_plain


def told(value: Value) -> object:
    """For JSON."""
    match value:
        case RangeSet(limit=limit) if limit < LIMITLESS:
            return {"ranges": _ranges(value), "known_up_to": limit}
        case RangeSet():
            return _ranges(value)
        case Pairs(entries):
            return {node: _ranges(numbers) for node, numbers in entries}
        case Decisions(committed, aborted, forgotten):
            return {"committed": _ranges(committed), "aborted": _ranges(aborted), "forgotten": forgotten}
    return value


def given(plain: Any, type: Type) -> Value:
    """From JSON; a `ValueError` says what is wrong with it."""
    match type, plain:
        case Type.SET, list():
            return _set(plain)
        case Type.PAIRS, dict():
            return Pairs(tuple((node, _set(numbers)) for node, numbers in sorted(plain.items()) if numbers))
        case ((Type.INT | Type.BOOL), (bool() | int())):
            return from_plain(plain)
    wanted = {Type.SET: "a list of numbers and [first, last]", Type.PAIRS: "such a list for each node"}.get(
        type, type.value
    )
    raise ValueError(f"is {wanted}, not {str(plain)[:60]}")


def in_words(value: Value) -> str:
    """For a line on a terminal."""
    match value:
        case bool():
            return "yes" if value else "no"
        case RangeSet(limit=limit):
            words = ", ".join(f"{first}" if first == last else f"{first}..{last}" for first, last in _ranges(value))
            return (words or "nothing") + (f" (known up to {limit})" if limit < LIMITLESS else "")
        case Pairs(entries):
            return "; ".join(f"{node}: {in_words(numbers)}" for node, numbers in entries) or "nothing"
        case Decisions(committed, aborted, forgotten):
            words = f"committed {in_words(committed)}; aborted {in_words(aborted)}"
            return words + (f"; outcomes up to {forgotten} are no longer kept" if forgotten else "")
    return str(value)


def _ranges(numbers: RangeSet) -> list[tuple[int, int]]:
    return list(zip(numbers.bounds[::2], numbers.bounds[1::2]))


def _set(plain: list[Any]) -> RangeSet:
    pairs: list[tuple[int, int]] = []
    for each in plain:
        match each:
            case int():
                pairs.append((each, each))
            case [int(first), int(last)] if first <= last:
                pairs.append((first, last))
            case _:
                raise ValueError(f"is a list of numbers and [first, last], not of {str(each)[:60]}")
    bounds: list[int] = []
    for first, last in sorted(pairs):
        if bounds and first <= bounds[-1] + 1:
            bounds[-1] = max(bounds[-1], last)
        else:
            bounds += [first, last]
    found = from_plain(["s", -1, *bounds])
    assert isinstance(found, RangeSet)
    return found
