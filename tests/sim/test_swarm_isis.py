"""The swarm over ISIS on all stacks: no property is broken, every one is exercised, all are live within the bound."""

from __future__ import annotations

from functools import cache

import pytest

from isotone.sim.plan import Size, encode_plan
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, play_plan, run_plan
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.spec.isis_properties import isis_labels
from isotone.trace.events import Row
from isotone.trace.isis import BroadcastBegun, SiteKilled, SiteViewInstalled

SMALL = Setting(system="isis", stack="oracle", size=Size.SMALL)
STANDARD = Setting(system="isis", stack="oracle")
FULL_SMALL = Setting(system="isis", stack="full", size=Size.SMALL)
WIDE_SMALL = Setting(system="isis", stack="wide", size=Size.SMALL)


@cache
def results() -> tuple[RunResult, ...]:
    """On the oracle."""
    return (*run_swarm(SMALL, range(1, 41), workers=1), *run_swarm(STANDARD, range(1, 4), workers=1))


def test_no_property_is_broken() -> None:
    assert not {result.seed: result.violations for result in results() if result.violations}


def test_no_property_is_broken_on_our_own_daemons() -> None:
    found = list(run_swarm(FULL_SMALL, range(1, 5), workers=1))
    assert not {result.seed: result.violations for result in found if result.violations}
    assert max(result.bounds["live"] for result in found) <= 1


def test_no_property_is_broken_in_several_clusters() -> None:
    found = list(run_swarm(WIDE_SMALL, range(1, 7), workers=1))
    assert not {result.seed: result.violations for result in found if result.violations}
    assert max(result.bounds["live"] for result in found) <= 1


@pytest.mark.parametrize("seed", [18, 40, 59, 96, 139])
def test_seeds_that_have_found_something(seed: int) -> None:
    """A process that left and joined at once; a newcomer told last; extensions and ballots of superseded managers;

    a process that left while another failed, with a message under way.
    """
    system = system_named("isis")
    assert run_plan(system, draw_plan(system, STANDARD, seed)).violations == ()


def test_every_property_is_exercised() -> None:
    for label in isis_labels():
        assert any(result.verdicts[label] == "holds" for result in results()), label


def test_all_are_live_within_the_bound() -> None:
    assert max(result.bounds["live"] for result in results()) <= 1


def test_a_run_is_a_function_of_its_plan() -> None:
    system = system_named("isis")
    plan = draw_plan(system, SMALL, 3)
    assert plan_from(encode_plan(plan)) == plan
    first: list[Row] = []
    second: list[Row] = []
    play_plan(system, plan, first.append)
    play_plan(system, plan, second.append)
    assert first == second and first


def test_most_is_broadcast_while_there_are_faults() -> None:
    """A run whose first site view stands when all faults are over shows nothing."""
    system = system_named("isis")
    for seed in (2, 5):
        plan = draw_plan(system, SMALL, seed)
        rows: list[Row] = []
        play_plan(system, plan, rows.append)
        begun = [row.at < plan.faults_end_us for row in rows if isinstance(row.entry, BroadcastBegun)]
        assert sum(begun) > len(begun) // 2


def test_sites_are_killed_and_views_change() -> None:
    system = system_named("isis")
    rows: list[Row] = []
    for seed in range(1, 4):
        play_plan(system, draw_plan(system, SMALL, seed), rows.append)
    assert any(isinstance(row.entry, SiteKilled) for row in rows)
    assert max(row.entry.number for row in rows if isinstance(row.entry, SiteViewInstalled)) >= 4
