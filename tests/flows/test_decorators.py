"""Programs written as Python classes are the same as texts."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.core.errors import InputError
from isotone.flows.compiler import compile_text, plain_rules
from isotone.flows.decorators import (
    Input,
    aggregate,
    assumed,
    call,
    disseminate,
    distribute,
    flow_program,
    paired,
    program_text,
    transform,
)
from isotone.flows.library import COMMIT, MULTICAST
from isotone.flows.prover import Premise, ProofError

MONOTONIC = ("in-order", "guarded", "monotonic")


class Multicast:
    R = Input("set")

    @aggregate("intersect", *MONOTONIC)
    def S(R: Any) -> None: ...

    @aggregate("union", "in-order")
    def known(R: Any) -> None: ...

    @transform
    def M(known: Any, R: Any) -> Any:
        return paired(known - R)

    @aggregate("merge", "in-order")
    def todo(M: Any) -> None: ...

    @distribute
    def F(todo: Any, R: Any) -> None: ...

    @disseminate
    def D(S: Any) -> None: ...

    outputs = ("F", "D")


class Vote:
    C = Input("set")
    A = Input("set")

    @transform
    def P(D: Any) -> Any:
        return call("decided", D)

    @transform
    def Cp(C: Any, P: Any) -> Any:
        return C | P

    @transform
    def Ap(A: Any, P: Any) -> Any:
        return A - P

    @aggregate("intersect", *MONOTONIC)
    def commit(Cp: Any) -> None: ...

    @aggregate("union", "in-order")
    def abort(Ap: Any) -> None: ...

    @assumed
    def D(commit: Any, abort: Any) -> Any:
        return call("decide", commit, abort, 5000)

    outputs = ("D",)


@pytest.mark.parametrize(
    ("described", "text", "names"),
    [
        (Multicast, MULTICAST, {"known": "R'", "todo": "F'"}),
        (Vote, COMMIT, {"vote": "commit", "commit": "C'", "abort": "A'"}),
    ],
)
def test_a_class_is_the_same_program(described: type, text: str, names: dict[str, str]) -> None:
    made = renamed(plain_rules(flow_program(described)), names | {"-": "\\"})
    assert made == renamed(plain_rules(compile_text(text)), {})


def renamed(part: Any, names: dict[str, str]) -> Any:
    match part:
        case dict():
            return {renamed(key, names): renamed(value, names) for key, value in part.items()}
        case list():
            return [renamed(each, names) for each in part]
        case str():
            return names.get(part, part)
    return part


def test_what_is_wrong_is_said_as_of_a_text() -> None:
    class Broken:
        L = Input("int")

        @aggregate("sum", *MONOTONIC)
        def total(L: Any) -> None: ...

        outputs = ("total",)

    with pytest.raises(ProofError) as refused:
        flow_program(Broken)
    assert refused.value.failures[0].premise is Premise.IDEMPOTENT

    class Empty:
        @transform
        def N() -> Any:  # type: ignore[misc]
            return call("not", 1)

        outputs = ("N",)

    with pytest.raises(InputError, match="uses no flow"):
        flow_program(Empty)


def test_the_text_can_be_read() -> None:
    assert "S = intersect R [in-order, guarded, monotonic]" in program_text(Multicast)
