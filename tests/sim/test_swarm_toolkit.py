"""The swarm over the ISIS toolkit: no property is broken, every one is exercised, all are live within the bound."""

from __future__ import annotations

from functools import cache

import pytest

from isotone.sim.plan import Size, encode_plan
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, play_plan, run_plan
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.spec.toolkit_properties import toolkit_labels
from isotone.trace.events import Row
from isotone.trace.toolkit import MemberReady

STACKS = ("isis", "evs")


def small(stack: str) -> Setting:
    return Setting(system="toolkit", stack=stack, size=Size.SMALL)


@cache
def results(stack: str) -> tuple[RunResult, ...]:
    return tuple(run_swarm(small(stack), range(1, 61), workers=1))


@pytest.mark.parametrize("stack", STACKS)
def test_no_property_is_broken(stack: str) -> None:
    assert not {result.seed: result.violations for result in results(stack) if result.violations}


@pytest.mark.parametrize("stack", STACKS)
def test_every_property_is_exercised(stack: str) -> None:
    for label in toolkit_labels():
        assert any(result.verdicts[label] == "holds" for result in results(stack)), label


@pytest.mark.parametrize("stack", STACKS)
def test_all_are_live_within_the_bound(stack: str) -> None:
    assert max(result.bounds["live"] for result in results(stack)) <= 1


@pytest.mark.parametrize("stack", STACKS)
def test_a_run_is_a_function_of_its_plan(stack: str) -> None:
    system = system_named("toolkit")
    plan = draw_plan(system, small(stack), 3)
    assert plan_from(encode_plan(plan)) == plan
    first: list[Row] = []
    second: list[Row] = []
    play_plan(system, plan, first.append)
    play_plan(system, plan, second.append)
    assert first == second and first


@pytest.mark.parametrize("stack", STACKS)
def test_states_come_in_every_way(stack: str) -> None:
    """Founded, from a checkpoint (rarely: all members of a group must fail), by transfer."""
    system = system_named("toolkit")
    rows: list[Row] = []
    standard = [(Setting(system="toolkit", stack=stack), 10)]
    for setting, seed in [*((small(stack), seed) for seed in range(1, 13)), *standard]:
        play_plan(system, draw_plan(system, setting, seed), rows.append)
    assert {row.entry.how for row in rows if isinstance(row.entry, MemberReady)} >= {
        "founded",
        "checkpoint",
        "transferred",
    }


@pytest.mark.parametrize("seed", [4, 15, 37, 52, 100])
def test_seeds_that_have_found_something_on_kernels(seed: int) -> None:
    """A broadcast of an earlier membership; an answer that nobody else had; answers in a minority.

    An action that was begun twice by a member that formed its group; a lock in a checkpoint of a process that had left
    and was back.
    """
    system = system_named("toolkit")
    assert run_plan(system, draw_plan(system, small("isis"), seed)).violations == ()


@pytest.mark.parametrize("seed", [188, 210, 299])
def test_seeds_that_have_found_something_on_view_synchronous_groups(seed: int) -> None:
    """A state whose only sender failed while two loaded it, one behind the other, at three instants.

    And broadcasts that were lost when a group was formed twice in a row.
    """
    system = system_named("toolkit")
    assert run_plan(system, draw_plan(system, small("evs"), seed)).violations == ()
