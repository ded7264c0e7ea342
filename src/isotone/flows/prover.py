"""The monotonicity prover: which flows are strongly monotonic by Theorems 2.1 and 2.2, and else which premise fails.

A flow is *weakly* monotonic if values at one node only go one way, *strongly* if values with higher versions are never
lower wherever they appear [Flows (8)]. Rules:

* an input is weakly monotonic in the order that it declares;
* an aggregation is strongly monotonic if all premises of Theorem 2.1 hold; the hierarchy changes nothing (Theorem 2.2);
* a transformation goes with its arguments, as the directions of its function say;
* a dissemination is as its source; a distribution is never monotonic;
* a flow marked ``assumed`` is believed to grow, and checked when it runs. It is the only way through a cycle.

Implements: [Flows 2.4], [Flows 2.5]. Deviations: Dw3 ``assumed`` (the paper's commit program does not meet the
premises).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from isotone.flows.operators import OPERATORS, Order, Type, function_for
from isotone.flows.parser import parse
from isotone.flows.syntax import (
    GUARDED,
    IN_ORDER,
    MONOTONIC,
    Aggregation,
    Call,
    Dissemination,
    Distribution,
    Expression,
    FlowError,
    Input,
    Name,
    Number,
    Place,
    Transformation,
)
from isotone.flows.typing import Site, TypedProgram, check_types


class Premise(Enum):
    """What can fail."""

    ASSOCIATIVE = "the operator is not associative"
    COMMUTATIVE = "the operator is not commutative"
    IDEMPOTENT = "the operator is not idempotent"
    STRONG = "the operator is not strongly monotonic"
    ORDER = "wrong order on values"
    SOURCE = "the source is not weakly monotonic"
    IN_ORDER = "the aggregation is not in-order"
    GUARDED = "the aggregation is not guarded"
    CYCLE = "a cycle"


class Failure(msgspec.Struct, frozen=True):
    """A premise that fails, where, and why."""

    premise: Premise
    place: Place
    reason: str


class Strength(Enum):
    """How monotonic a flow is."""

    STRONG = "strongly monotonic"
    WEAK = "weakly monotonic"
    NONE = "not monotonic"


class Proof(msgspec.Struct, frozen=True):
    """What is known of one flow: its strength, its order if it has one, and otherwise all premises that fail."""

    strength: Strength
    order: Order | None = None
    failures: tuple[Failure, ...] = ()
    assumed: bool = False


class ProofError(FlowError):
    """A flow is said to be monotonic, and is not."""

    def __init__(self, failures: tuple[Failure, ...], name: str, text: str) -> None:
        first = failures[0]
        super().__init__(f"{name} is not monotonic: {first.premise.value}: {first.reason}", first.place, text)
        self.failures = failures


class ProvedProgram(msgspec.Struct, frozen=True):
    """A program with types and proofs."""

    typed: TypedProgram
    proofs: Mapping[str, Proof]


def read_program(text: str) -> ProvedProgram:
    """Parse, type and prove a text; a `FlowError` says what is wrong and where."""
    return prove(check_types(parse(text)))


def prove(typed: TypedProgram) -> ProvedProgram:
    """The proofs of all flows; a claim that fails is a `ProofError`, an operator that cannot aggregate too."""
    prover = _Prover(typed)
    proofs = {name: prover.proof(name, typed.definitions[name].place) for name in typed.definitions}
    refused = list[Failure]()
    first = ""
    for name, definition in typed.definitions.items():
        proof = proofs[name]
        if isinstance(definition, Aggregation) and not definition.assumed:
            cannot = tuple(
                each for each in proof.failures if each.premise in (Premise.ASSOCIATIVE, Premise.COMMUTATIVE)
            )
            claimed = MONOTONIC in definition.flavours and proof.strength is not Strength.STRONG
            if cannot or claimed:
                first = first or name
                refused += cannot or proof.failures
    if refused:
        raise ProofError(tuple(dict.fromkeys(refused)), first, typed.program.text)
    return ProvedProgram(typed, proofs)


class _Prover:
    def __init__(self, typed: TypedProgram) -> None:
        self._typed = typed
        self._visiting: list[str] = []

    def proof(self, name: str, used_at: Place) -> Proof:
        definition = self._typed.definitions[name]
        if isinstance(definition, Aggregation | Transformation) and definition.assumed:
            site = self._typed.sites[name]
            return Proof(Strength.STRONG if site is Site.GLOBAL else Strength.WEAK, Order.GROWS, assumed=True)
        if name in self._visiting:
            way = " -> ".join([*self._visiting[self._visiting.index(name) :], name])
            reason = f"{way} depends on itself; mark one of them assumed"
            return _none(Failure(Premise.CYCLE, used_at, reason), order=Order.GROWS)  # as if: what else is wrong?
        self._visiting.append(name)
        try:
            return self._derived(definition)
        finally:
            self._visiting.pop()

    def _derived(self, definition: object) -> Proof:
        match definition:
            case Input(order=order, name=name, place=place):
                if order is None:
                    return _none(
                        Failure(Premise.SOURCE, place, f"the input {name} is declared free: it goes up and down")
                    )
                return Proof(Strength.WEAK, order)
            case Aggregation():
                return self._aggregated(definition)
            case Transformation(expression=expression, name=name):
                proof = self._expressed(expression)
                if proof.strength is Strength.STRONG and self._typed.sites[name] is Site.NODES:
                    return msgspec.structs.replace(proof, strength=Strength.WEAK)
                return proof
            case Dissemination(source=source):
                return self.proof(source.name, source.place)
            case Distribution(place=place):
                return _none(
                    Failure(Premise.SOURCE, place, "a distribution deals values out: each node's goes up and down")
                )
        raise AssertionError(definition)

    def _expressed(self, expression: Expression) -> Proof:
        match expression:
            case Number():
                return Proof(Strength.STRONG)
            case Name(name, place):
                return self.proof(name, place)
            case Call():
                return self._called(expression)

    def _called(self, call: Call) -> Proof:
        """All arguments must pull the result the same way."""
        types = tuple(_type_of(self._typed, each) for each in call.arguments)
        function = function_for(call.function, types)
        assert function is not None
        strength, order, failures = Strength.STRONG, None, list[Failure]()
        for argument, direction in zip(call.arguments, function.directions, strict=True):
            proof = self._expressed(argument)
            failures += proof.failures
            if proof.order is None:
                continue
            if direction is None:
                reason = f"{call.function} follows no order of its arguments"
                return _none(*failures, Failure(Premise.SOURCE, call.place, reason))
            pulls = proof.order if direction is Order.GROWS else proof.order.reversed()
            if order is not None and pulls is not order:
                reason = f"{call.function!r} {order.value} with one argument and {pulls.value} with another"
                failures.append(Failure(Premise.ORDER, call.place, reason))
            order = order or pulls
            if proof.strength is Strength.WEAK:
                strength = Strength.WEAK
        return _none(*failures, order=order) if failures else Proof(strength, order)

    def _aggregated(self, definition: Aggregation) -> Proof:
        """The premises of Theorem 2.1, one by one."""
        operator, failures = OPERATORS[definition.operator], list[Failure]()

        def fails(premise: Premise, place: Place, reason: str) -> None:
            failures.append(Failure(premise, place, reason))

        at = definition.operator_place
        if not operator.associative:
            fails(Premise.ASSOCIATIVE, at, f"{operator.name}: (a, b), c and a, (b, c) differ")
        if not operator.commutative:
            fails(Premise.COMMUTATIVE, at, f"{operator.name}: a, b and b, a differ")
        if not operator.idempotent:
            fails(Premise.IDEMPOTENT, at, f"{operator.name}: a, a is not a")
        elif operator.strong is None:
            fails(Premise.STRONG, at, f"{operator.name}: there is no order in which a result is never above its parts")
        source = self._expressed(definition.source)
        failures += _as_source(source.failures)
        if operator.strong and source.order and source.order is not operator.strong:
            kept, found = _fall(operator.strong), _fall(source.order)
            reason = f"{operator.name} is strongly monotonic for values that {kept}, but these {found}"
            fails(Premise.ORDER, definition.source.place, reason)
        guarded = GUARDED in definition.flavours or definition.condition is not None
        if IN_ORDER not in definition.flavours:
            fails(Premise.IN_ORDER, definition.place, f"say [{IN_ORDER}]: newer aggregations then take newer values")
        if not guarded:
            fails(
                Premise.GUARDED, definition.place, f"say [{GUARDED}]: a node that joins must not be below what was said"
            )
        return _none(*failures) if failures else Proof(Strength.STRONG, operator.strong)


def _as_source(failures: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """What an aggregation lacks is a weakly monotonic source, whatever premise failed further up; a cycle stays one."""
    kept = (Premise.CYCLE, Premise.ORDER, Premise.SOURCE)
    return tuple(
        each if each.premise in kept else Failure(Premise.SOURCE, each.place, f"{each.premise.value}: {each.reason}")
        for each in failures
    )


def _none(*failures: Failure, order: Order | None = None) -> Proof:
    """``order``: in which it would be monotonic, but for the failures."""
    return Proof(Strength.NONE, order, tuple(dict.fromkeys(failures)))


def _fall(order: Order) -> str:
    return "grow" if order is Order.GROWS else "fall"


def _type_of(typed: TypedProgram, expression: Expression) -> Type:
    match expression:
        case Name(name):
            return typed.types[name]
        case Number():
            return Type.INT
        case Call(function, arguments):
            found = function_for(function, tuple(_type_of(typed, each) for each in arguments))
            assert found is not None
            return found.gives
