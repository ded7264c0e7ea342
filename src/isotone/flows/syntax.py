"""A program of flows as a value: what the text or the decorators say, with the place of each part.

Implements: [Flows 2.2] (the building blocks), [Flows Figure 3]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from isotone.core.errors import InputError
from isotone.flows.operators import Order, Type


class Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands: lines and columns from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class FlowError(InputError):
    """A program that cannot be run: what is wrong, and where; ``text`` shows the line with a mark below."""

    def __init__(self, problem: str, place: Place, text: str = "") -> None:
        lines = text.splitlines()
        shown = ""
        if 0 < place.line <= len(lines):
            shown = f"\n  {lines[place.line - 1]}\n  {' ' * (place.column - 1)}^"
        super().__init__(f"{place}: {problem}{shown}")
        self.problem, self.place = problem, place


class Name(msgspec.Struct, frozen=True):
    """A flow that is used."""

    name: str
    place: Place


class Number(msgspec.Struct, frozen=True):
    """A constant."""

    value: int
    place: Place


class Call(msgspec.Struct, frozen=True):
    """A function or sign applied to arguments."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place


Expression = Name | Number | Call

IN_ORDER, GUARDED, MONOTONIC = "in-order", "guarded", "monotonic"
FLAVOURS = (IN_ORDER, GUARDED, MONOTONIC)


class Input(msgspec.Struct, frozen=True):
    """Values that come from the client of each node; ``order`` None: they go up and down."""

    name: str
    type: Type
    order: Order | None
    place: Place


class Aggregation(msgspec.Struct, frozen=True):
    """One value out of those of all nodes."""

    name: str
    operator: str
    source: Expression
    flavours: tuple[str, ...]
    place: Place
    operator_place: Place
    assumed: bool = False
    is_global: bool = False
    condition: tuple[Name, Name] | None = None


class Transformation(msgspec.Struct, frozen=True):
    """A function of other flows."""

    name: str
    expression: Expression
    place: Place
    assumed: bool = False
    is_global: bool = False


class Dissemination(msgspec.Struct, frozen=True):
    """A global value, given to all nodes."""

    name: str
    source: Name
    place: Place


class Distribution(msgspec.Struct, frozen=True):
    """A global set of pairs, dealt out to the nodes; each takes only pairs whose number is in ``condition``."""

    name: str
    source: Name
    condition: Name | None
    place: Place


Definition = Input | Aggregation | Transformation | Dissemination | Distribution


class Program(msgspec.Struct, frozen=True):
    """A program, as it was written."""

    name: str
    definitions: tuple[Definition, ...]
    outputs: tuple[Name, ...]
    text: str

    def error(self, problem: str, place: Place) -> FlowError:
        """An error at this place."""
        return FlowError(problem, place, self.text)


def names_in(expression: Expression) -> Iterator[Name]:
    """Every use of a flow, from left to right."""
    match expression:
        case Name():
            yield expression
        case Call(arguments=arguments):
            for each in arguments:
                yield from names_in(each)


def uses_of(definition: Definition) -> tuple[Name, ...]:
    """The flows that a definition takes values from."""
    match definition:
        case Aggregation(source=source):
            return tuple(names_in(source))
        case Transformation(expression=expression):
            return tuple(names_in(expression))
        case Dissemination(source=source):
            return (source,)
        case Distribution(source=source, condition=condition):
            return (source, condition) if condition else (source,)
    return ()
