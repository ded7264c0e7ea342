"""The type checker: which type each flow has, whether it lives at every node or once for all, and in what order flows
are computed.

Implements: [Flows 2.2]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from isotone.flows.operators import OPERATORS, Type, function_for
from isotone.flows.syntax import (
    Aggregation,
    Call,
    Definition,
    Dissemination,
    Distribution,
    Expression,
    Input,
    Name,
    Number,
    Program,
    Transformation,
    names_in,
    uses_of,
)

FLOWS_MAX = 64


class Site(Enum):
    """Where the values of a flow appear."""

    NODES = "at every node"
    GLOBAL = "once for all"


class TypedProgram(msgspec.Struct, frozen=True):
    """A program whose flows all have a type and a site; ``order`` lists them so that what is used comes first.

    A node may use a global flow of earlier rounds, so loops through the root are fine.
    """

    program: Program
    definitions: Mapping[str, Definition]
    types: Mapping[str, Type]
    sites: Mapping[str, Site]
    order: tuple[str, ...]


def check_types(program: Program) -> TypedProgram:
    """Types and sites of all flows, or a `FlowError` at the place of the problem."""
    return _Checker(program).check()


class _Checker:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._definitions: dict[str, Definition] = {}
        self._types: dict[str, Type] = {}
        self._sites: dict[str, Site] = {}

    def check(self) -> TypedProgram:
        program = self._program
        for each in program.definitions:
            if each.name in self._definitions:
                raise program.error(f"{each.name} is defined twice", each.place)
            self._definitions[each.name] = each
        if len(self._definitions) > FLOWS_MAX:
            raise program.error(f"a program has at most {FLOWS_MAX} flows", program.definitions[-1].place)
        for each in program.definitions:
            for use in uses_of(each):
                self._known(use)
        for name in self._definitions:
            self._sites[name] = self._site(name, ())
        order = self._ordered()
        for name in order:
            self._types[name] = self._type_of(self._definitions[name])
        for each in program.definitions:
            self._check_places(each)
        for output in program.outputs:
            self._known(output)
        if not program.outputs:
            raise program.error("a program has an output", program.definitions[-1].place)
        return TypedProgram(program, self._definitions, self._types, self._sites, order)

    def _known(self, use: Name) -> None:
        if use.name not in self._definitions:
            raise self._program.error(f"there is no flow {use.name}", use.place)

    def _site(self, name: str, inside: tuple[str, ...]) -> Site:
        """Transformations live where their arguments do: at nodes if one of them does."""
        definition = self._definitions[name]
        match definition:
            case Aggregation():
                return Site.GLOBAL
            case Transformation(expression=expression):
                if name in inside:
                    raise self._program.error(
                        f"{name} depends on itself, and nothing on the way is aggregated", definition.place
                    )
                uses = [self._site(use.name, (*inside, name)) for use in names_in(expression)]
                own = _names_itself(expression)
                return Site.NODES if own or not uses or Site.NODES in uses else Site.GLOBAL
        return Site.NODES

    def _ordered(self) -> tuple[str, ...]:
        done: list[str] = []

        def visit(name: str, inside: tuple[str, ...]) -> None:
            if name in done or name in inside:
                return
            for use in uses_of(self._definitions[name]):
                visit(use.name, (*inside, name))
            done.append(name)

        for name in self._definitions:
            visit(name, ())
        return tuple(self._closed(done))

    def _closed(self, order: list[str]) -> list[str]:
        """In a loop through the root some type is needed before it is known: begin with those that are certain."""
        left, known = [*order], list[str]()
        while left:
            for name in left:
                if all(use.name in known for use in uses_of(self._definitions[name])) or self._is_decided(name, known):
                    known.append(name)
                    left.remove(name)
                    break
            else:
                first = self._definitions[left[0]]
                raise self._program.error(f"the type of {first.name} depends on itself", first.place)
        return known

    def _is_decided(self, name: str, known: list[str]) -> bool:
        """A flow whose type follows from its own operator or function, whatever it uses."""
        match self._definitions[name]:
            case Aggregation(operator=operator):
                return len(OPERATORS[operator].types) == 1 and self._sites[name] is Site.GLOBAL
            case Distribution():
                return True
        return False

    def _type_of(self, definition: Definition) -> Type:
        match definition:
            case Input(type=type):
                return type
            case Aggregation(operator=operator):
                return OPERATORS[operator].types[0]
            case Transformation(expression=expression):
                return self._typed(expression)
            case Dissemination(source=source):
                return self._types[source.name]
            case Distribution():
                return Type.PAIRS

    def _typed(self, expression: Expression) -> Type:
        match expression:
            case Name(name):
                return self._types[name]
            case Number():
                return Type.INT
            case Call(function, arguments, place):
                given = tuple(self._typed(each) for each in arguments)
                found = function_for(function, given)
                if found is None:
                    shown = ", ".join(each.value for each in given)
                    raise self._program.error(f"{function!r} does not take {shown}", place)
                return found.gives

    def _check_places(self, definition: Definition) -> None:
        program = self._program
        match definition:
            case Aggregation(source=source, operator=operator):
                given = self._typed(source)
                if given not in OPERATORS[operator].types:
                    wanted = " or ".join(each.value for each in OPERATORS[operator].types)
                    raise program.error(f"{operator} aggregates {wanted}, not {given.value}", source.place)
                if all(self._sites[use.name] is Site.GLOBAL for use in names_in(source)):
                    raise program.error("this is one value already: there is nothing to aggregate", source.place)
                self._check_condition(definition)
            case Transformation(is_global=True, name=name, place=place) if self._sites[name] is Site.NODES:
                raise program.error(f"{name} is said to be global, but uses values of single nodes", place)
            case Dissemination(source=source) | Distribution(source=source):
                if self._sites[source.name] is not Site.GLOBAL:
                    raise program.error(
                        f"{source.name} is a flow of single nodes: only global ones go to all", source.place
                    )
        if isinstance(definition, Distribution):
            if self._types[definition.source.name] is not Type.PAIRS:
                raise program.error("only pairs (node, number) can be distributed", definition.source.place)
            if definition.condition and self._types[definition.condition.name] is not Type.SET:
                raise program.error("the numbers of pairs are compared with a set", definition.condition.place)

    def _check_condition(self, definition: Aggregation) -> None:
        """``S <= R``, or ``R <= S`` as Figure 3 prints it: both say that S is guarded by R."""
        if definition.condition is None:
            return
        named = {each.name for each in definition.condition}
        if named != {definition.name, *(use.name for use in names_in(definition.source))}:
            place = definition.condition[0].place
            raise self._program.error(f"the condition of {definition.name} compares it with what it aggregates", place)


def _names_itself(expression: Expression) -> bool:
    match expression:
        case Call(function, arguments):
            return function == "self *" or any(_names_itself(each) for each in arguments)
    return False
