"""The swarm over replicated objects: no property is broken on either stack, and every one is exercised."""

from __future__ import annotations

from functools import cache

import pytest

from isotone.sim.plan import Size, encode_plan
from isotone.sim.registry import plan_from, system_named
from isotone.sim.replicated.programs import DEEDS, ObjectStep
from isotone.sim.run import NOT_JUDGED, RunResult, play_plan, run_plan
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.spec.replicated_properties import replicated_labels
from isotone.trace.events import Row

ORACLE = Setting(system="replicated", stack="oracle", size=Size.SMALL)
FULL = Setting(system="replicated", stack="full", size=Size.SMALL)
STANDARD = Setting(system="replicated", stack="oracle", size=Size.STANDARD)
ELSEWHERE = Setting(system="replicated", stack="full", size=Size.STANDARD)
SEEDS = {"oracle": range(1, 15), "full": range(1, 5)}
STANDARD_SEEDS = (102, 104)
"""With forty operations on one key at one time, and with many that are never answered."""


@cache
def results(stack: str) -> tuple[RunResult, ...]:
    return tuple(run_swarm(ORACLE if stack == "oracle" else FULL, SEEDS[stack], workers=1))


@pytest.mark.parametrize("stack", ["oracle", "full"])
def test_no_property_is_broken(stack: str) -> None:
    assert not {result.seed: result.violations for result in results(stack) if result.violations}


@pytest.mark.parametrize("stack", ["oracle", "full"])
def test_linearizability_is_judged_in_every_run(stack: str) -> None:
    assert not [result.seed for result in results(stack) if result.verdicts["REP-LINEAR"] == NOT_JUDGED]


@pytest.mark.parametrize("seed", STANDARD_SEEDS)
def test_linearizability_is_judged_at_standard_size(seed: int) -> None:
    system = system_named("replicated")
    result = run_plan(system, draw_plan(system, STANDARD, seed))
    assert (result.violations, result.verdicts["REP-LINEAR"]) == ((), "holds")


def test_a_program_that_finds_no_server_hears_in_the_end_what_became_of_its_command() -> None:
    """Its stream broke behind the command, and then all servers were away for a while."""
    system = system_named("replicated")
    assert run_plan(system, draw_plan(system, ELSEWHERE, 42004)).violations == ()


def test_every_property_is_exercised() -> None:
    for label in replicated_labels():
        assert any(result.verdicts[label] == "holds" for result in results("oracle")), label


def test_every_deed_is_drawn() -> None:
    system = system_named("replicated")
    plans = [draw_plan(system, ORACLE, seed) for seed in range(1, 40)]
    assert {step.deed for plan in plans for step in plan.steps if isinstance(step, ObjectStep)} == set(DEEDS)
    assert {len(plan.topology.nodes) for plan in plans} == {3, 4, 5}


def test_a_run_is_a_function_of_its_plan() -> None:
    system = system_named("replicated")
    plan = draw_plan(system, ORACLE, 3)
    assert plan_from(encode_plan(plan)) == plan
    first: list[Row] = []
    second: list[Row] = []
    play_plan(system, plan, first.append)
    play_plan(system, plan, second.append)
    assert first == second and first


def test_a_server_alone() -> None:
    system = system_named("replicated")
    plan = draw_plan(system, Setting("replicated", "oracle", Size.SMALL, nodes="1"), 1)
    assert run_plan(system, plan).violations == ()
