"""The language: texts in, programs or errors out, each at its place; what the prover says, premise by premise."""

from __future__ import annotations

import pytest

from isotone.flows.compiler import compile_text, told_rules
from isotone.flows.library import COMMIT_AS_PRINTED, PROGRAMS
from isotone.flows.parser import DEPTH_MAX, TEXT_MAX, parse
from isotone.flows.prover import Premise, ProofError, Strength, read_program
from isotone.flows.syntax import FlowError
from isotone.flows.typing import FLOWS_MAX

MONOTONIC = "[in-order, guarded, monotonic]"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_library_is_proved_and_compiled(name: str) -> None:
    rules = compile_text(PROGRAMS[name])
    assert rules.program == name and rules.outputs and told_rules(rules)


def test_what_is_proved_of_multicast() -> None:
    proofs = read_program(PROGRAMS["multicast"]).proofs
    assert {name for name, proof in proofs.items() if proof.strength is Strength.STRONG} == {"S", "D"}
    assert proofs["R"].strength is Strength.WEAK
    assert {each.premise for each in proofs["R'"].failures} == {Premise.ORDER, Premise.GUARDED}


def test_the_commit_program_as_printed_fails_three_premises() -> None:
    with pytest.raises(ProofError) as refused:
        read_program(COMMIT_AS_PRINTED)
    failures = {(each.premise, each.place.line) for each in refused.value.failures}
    assert (Premise.CYCLE, 6) in failures  # D depends on itself
    assert (Premise.ORDER, 4) in failures  # C \ D shrinks as D grows
    assert (Premise.ORDER, 5) in failures  # union is monotonic for sets that fall
    assert any("union is strongly monotonic for values that fall" in each.reason for each in refused.value.failures)


def test_the_reformulated_commit_program_assumes_one_flow() -> None:
    proofs = read_program(PROGRAMS["commit"]).proofs
    assert [name for name, proof in proofs.items() if proof.assumed] == ["D"]
    assert proofs["C'"].strength is Strength.STRONG


BROKEN = [
    ("input L : int", f"X = sum L {MONOTONIC}", Premise.IDEMPOTENT, (3, 5)),
    ("input L : int", f"X = middle L {MONOTONIC}", Premise.ASSOCIATIVE, (3, 5)),
    ("input L : int", "X = last L [in-order]", Premise.COMMUTATIVE, (3, 5)),
    ("input L : int", f"X = max L {MONOTONIC}", Premise.ORDER, (3, 9)),
    ("input L : int falls", f"X = min L {MONOTONIC}", Premise.ORDER, (3, 9)),
    ("input L : set", f"X = \\/ L {MONOTONIC}", Premise.ORDER, (3, 8)),
    ("input L : int free", f"X = min L {MONOTONIC}", Premise.SOURCE, (2, 7)),
    ("input L : int", "X = min L [in-order, monotonic]", Premise.GUARDED, (3, 1)),
    ("input L : int", "X = min L [guarded, monotonic]", Premise.IN_ORDER, (3, 1)),
    ("input L : int; input K : int", f"X = min (L - K) {MONOTONIC}", Premise.ORDER, (3, 12)),
    ("input L : int", f"X = min (L + X) {MONOTONIC}", Premise.CYCLE, (3, 14)),
    ("input L : int; Y = max L [in-order]", f"X = min (L + Y) {MONOTONIC}", Premise.ORDER, (2, 24)),
    ("input L : bool free", f"X = all L {MONOTONIC}", Premise.SOURCE, (2, 7)),
]


@pytest.mark.parametrize(("inputs", "flow", "premise", "place"), BROKEN, ids=[each[1] for each in BROKEN])
def test_a_broken_program_is_refused_with_the_premise_and_the_place(
    inputs: str, flow: str, premise: Premise, place: tuple[int, int]
) -> None:
    with pytest.raises(ProofError) as refused:
        read_program(f"program broken\n{inputs}\n{flow}\noutput X\n")
    first = refused.value.failures[0]
    assert (first.premise, (first.place.line, first.place.column)) == (premise, place)
    assert first.premise.value in str(refused.value) and "^" in str(refused.value)


UNDEALT = "program x\ninput R : set\nM = self * R\nT = merge M\n"
ERRORS = [
    ("input L : int", "a program begins with", (1, 1)),
    ("program x\ninput L : text\noutput L", "there is no type 'text'", (2, 11)),
    ("program x\ninput L int", "expected ':'", (2, 9)),
    ("program x\ninput L : int\nN = L +\noutput N", "expected a flow, a number", (3, 8)),
    ("program x\ninput L : int\nN = K + 1\noutput N", "there is no flow K", (3, 5)),
    ("program x\ninput L : int\ninput L : int\noutput L", "L is defined twice", (3, 7)),
    ("program x\ninput L : set\nN = min L\noutput N", "min aggregates int, not set", (3, 9)),
    ("program x\ninput L : set\nN = L + 1\noutput N", "'+' does not take set, int", (3, 7)),
    ("program x\ninput L : int\nN = min L [often]\noutput N", "a flavour is one of", (3, 12)),
    ("program x\ninput L : int\nM = min L\nN = min M\noutput N", "nothing to aggregate", (4, 9)),
    ("program x\ninput L : int\nN = disseminate L\noutput N", "only global ones go to all", (3, 17)),
    ("program x\ninput L : int\nglobal N = L + 1\noutput N", "uses values of single nodes", (3, 8)),
    ("program x\ninput L : int\nN = N + 1\noutput N", "depends on itself", (3, 1)),
    ("program x\ninput L : int", "a program has an output", (2, 7)),
    ("program x\ninput L : int @", "'@' means nothing here", (2, 15)),
    ("program x\ninput L : int\nN = min L where L <= L\noutput N", "compares it with what it aggregates", (3, 17)),
    (
        "program x\ninput R : set\nM = self * R\nT = merge M\nF = distribute T where F|2 <= R\noutput F",
        "the union",
        (5, 31),
    ),
]


@pytest.mark.parametrize(("text", "problem", "place"), ERRORS, ids=[each[1] for each in ERRORS])
def test_an_error_points_at_its_place(text: str, problem: str, place: tuple[int, int]) -> None:
    with pytest.raises(FlowError) as refused:
        compile_text(text)
    assert problem in str(refused.value)
    assert (refused.value.place.line, refused.value.place.column) == place


def test_a_text_has_bounds() -> None:
    with pytest.raises(FlowError, match="at most 20000 characters"):
        parse("#" * (TEXT_MAX + 1))
    deep = "(" * DEPTH_MAX + "L" + ")" * DEPTH_MAX
    with pytest.raises(FlowError, match="nested deeper"):
        parse(f"program x\ninput L : int\nN = {deep}\noutput N")
    many = "\n".join(f"input L{number} : int" for number in range(FLOWS_MAX + 1))
    with pytest.raises(FlowError, match=f"at most {FLOWS_MAX} flows"):
        read_program(f"program x\n{many}\noutput L1")
    with pytest.raises(FlowError, match="15 digits"):
        parse("program x\nN = 1234567890123456\noutput N")


def test_both_ways_to_write_the_condition_of_figure_3() -> None:
    for condition in ("S <= R", "R <= S"):
        text = f"program x\ninput R : set\nS = /\\ R [in-order, monotonic] where {condition}\noutput S"
        assert read_program(text).proofs["S"].strength is Strength.STRONG
