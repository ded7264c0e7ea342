"""The swarm over data centres on both local broadcasts: no promise is broken, and what is to be shown happens."""

from __future__ import annotations

from functools import cache

import pytest

from isotone.sim.plan import Size, encode_plan
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, play_plan
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.spec.hab_properties import assumption_labels, hab_labels
from isotone.spec.verdicts import State
from isotone.trace.events import Row
from isotone.trace.hab import HaDeclared, HaDisaster, HaInstalled, HaRole

STACKS = ("consensus", "corel")
SEEDS_SMALL, SEEDS_STANDARD = range(1, 53), range(1, 9)
"""60 of each stack."""


@cache
def results(stack: str) -> tuple[RunResult, ...]:
    small = run_swarm(Setting(system="hab", stack=stack, size=Size.SMALL), SEEDS_SMALL, workers=1)
    return (*small, *run_swarm(Setting(system="hab", stack=stack), SEEDS_STANDARD, workers=1))


@pytest.mark.parametrize("stack", STACKS)
def test_no_promise_is_broken(stack: str) -> None:
    assert not {result.seed: result.violations for result in results(stack) if result.violations}


@pytest.mark.parametrize("stack", STACKS)
def test_every_promise_is_exercised(stack: str) -> None:
    for label in hab_labels():
        assert any(result.verdicts[label] == "holds" for result in results(stack)), label


@pytest.mark.parametrize("seed", [7, 13, 22, 28, 34, 57, 75, 110, 117, 153, 299, 360])
def test_seeds_that_have_found_something(seed: int) -> None:
    """A full log without a snapshot, a change that waits for a lost centre, a hand-over to one that is lost …"""
    [result] = run_swarm(Setting(system="hab", stack="consensus", size=Size.SMALL), [seed], workers=1)
    assert not result.violations


@pytest.mark.parametrize(
    ("stack", "seed"), [("consensus", 5), ("consensus", 53), ("consensus", 111), ("consensus", 2033)]
)
def test_standard_seeds_that_have_found_something(stack: str, seed: int) -> None:
    """A hand-over that its target never stored; broadcasts that overtook the first of them; a slow drain; overrides."""
    [result] = run_swarm(Setting(system="hab", stack=stack), [seed], workers=1)
    assert not result.violations


@pytest.mark.parametrize("seed", [69, 106, 127, 246, 257, 284, 390, 412, 528])
def test_seeds_of_corel_that_have_found_something(seed: int) -> None:
    """A number that was given twice; two overrides against each other; a majority that was removed; a second
    declaration that left none; two operators apart; a centre that led though removed; two that waited for each other.
    """
    [result] = run_swarm(Setting(system="hab", stack="corel", size=Size.SMALL), [seed], workers=1)
    assert not result.violations


@cache
def rows_of(stack: str, seed: int) -> list[Row]:
    system = system_named("hab")
    rows: list[Row] = []
    play_plan(system, draw_plan(system, Setting(system="hab", stack=stack, size=Size.SMALL), seed), rows.append)
    return rows


def test_everything_happens() -> None:
    """Disasters, wrong declarations, overrides, take-overs, hand-overs, returns, and a second coordinator."""
    entries = [row.entry for stack in STACKS for seed in range(1, 41) for row in rows_of(stack, seed)]
    assert any(isinstance(each, HaDisaster) for each in entries)
    assert any(isinstance(each, HaInstalled) and not each.replayed for each in entries)
    assert any(isinstance(each, HaDeclared) and each.override for each in entries)
    why = {each.why for each in entries if isinstance(each, HaRole)}
    assert {
        "it was declared lost",
        "it knows what the others have",
        "the primary role was handed over",
        "another process is the coordinator",
    } <= why


def test_a_wrong_declaration_breaks_an_assumption_and_no_promise() -> None:
    found = [check(rows_of("consensus", seed)).verdicts for seed in range(1, 41)]
    wrong = [verdicts for verdicts in found if verdicts["HAB-ASSUME-ACCURACY"].state is State.VIOLATED]
    assert wrong
    for verdicts in wrong:
        assert not [label for label in hab_labels() if verdicts[label].state is State.VIOLATED]
    assert set(assumption_labels()).isdisjoint(system_named("hab").properties("consensus"))


@pytest.mark.parametrize("stack", STACKS)
def test_a_plan_survives_its_file_and_the_same_seed_is_the_same_run(stack: str) -> None:
    system = system_named("hab")
    plan = draw_plan(system, Setting(system="hab", stack=stack, size=Size.SMALL), 3)
    assert plan_from(encode_plan(plan)) == plan
    again: list[Row] = []
    play_plan(system, plan, again.append)
    assert again == rows_of(stack, 3)
