"""The swarm over flows: churn, loss, partitions, leaders that crash at every step; depth 1 to 4; nothing is broken."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from isotone.sim.flows.run import FlowsRun, WorkStep, draw_terms
from isotone.sim.plan import Size, encode_plan
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, play_plan, run_plan
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.sim.world import World
from isotone.spec.flows_properties import flow_labels
from isotone.trace.events import Row

SMALL = Setting(system="flows", stack="rings", size=Size.SMALL)
STANDARD = Setting(system="flows", stack="rings")


@cache
def results() -> tuple[RunResult, ...]:
    """100 seeds."""
    return (*run_swarm(SMALL, range(1, 91), workers=1), *run_swarm(STANDARD, range(1, 11), workers=1))


def test_no_property_is_broken() -> None:
    assert len(results()) == 100
    assert not {result.seed: result.violations for result in results() if result.violations}


def test_every_property_is_exercised() -> None:
    for label in flow_labels():
        assert any(result.verdicts[label] == "holds" for result in results()), label


def test_all_programs_depths_and_ambushes_occur() -> None:
    taken = Counter[str]()
    for result in results():
        taken.update(result.choices)
    assert all(taken[f"depth {depth}"] >= 5 for depth in (1, 2, 3, 4))
    assert all(taken[program] >= 5 for program in ("phases", "multicast", "commit", "health"))
    assert taken["struck"] >= 20
    drawn = [draw_terms(seed) for seed in range(1, 91)]
    assert {each.ranges_max for each in drawn} == {4, 100} and max(each.loss for each in drawn) > 0
    assert {each.bytes_per_s for each in drawn} == {0, 2_000, 100_000}


def test_all_are_live_well_within_the_bound() -> None:
    assert max(result.bounds["live"] for result in results()) <= 0.5


@pytest.mark.parametrize("seed", [1, 2, 4, 95, 107, 108, 176])
def test_seeds_that_have_found_something(seed: int) -> None:
    """A vote that came after the heal; a lost view; a token for somebody else; shares dealt twice; truncated sets that
    reached less far after a change of leaders; votes that keep a node out for ever."""
    system = system_named("flows")
    assert run_plan(system, draw_plan(system, SMALL, seed)).violations == ()


def test_a_run_is_a_function_of_its_plan() -> None:
    system = system_named("flows")
    plan = draw_plan(system, SMALL, 3)
    assert plan_from(encode_plan(plan)) == plan
    first: list[Row] = []
    second: list[Row] = []
    play_plan(system, plan, first.append)
    play_plan(system, plan, second.append)
    assert first == second and first


def test_one_node_alone_decides() -> None:
    system = system_named("flows")
    setting = Setting(system="flows", stack="rings", size=Size.SMALL, nodes="1")
    for seed in range(1, 6):
        assert run_plan(system, draw_plan(system, setting, seed)).violations == ()


def test_a_step_for_a_node_that_is_down_is_passed_over() -> None:
    system = system_named("flows")
    plan = draw_plan(system, SMALL, 1)
    world = World(seed=1)
    run = system.build(world, plan)
    assert isinstance(run, FlowsRun)
    name = plan.topology.names[-1]
    run.crash(name)
    run.play(WorkStep(at=0, node=name, number=1))
    run.kill_client(name, "nobody")
    assert not world.is_up(name)
