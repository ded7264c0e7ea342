"""Faults planted in flows: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import Planted, missed, planted_in, swarm_command

PLANTED = planted_in(Path(__file__).parent / "flows")
SWARM = swarm_command("--system", "flows", "--stack", "rings", "--workers", "1")


def names(planted: Planted) -> str:
    return planted.name


def test_there_are_at_least_ten() -> None:
    assert len(PLANTED) >= 10
    assert len({planted.fault for planted in PLANTED}) == len(PLANTED)
    assert all(planted.seed <= 300 for planted in PLANTED)


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_sound_rings_pass_at_that_seed(planted: Planted) -> None:
    told = dict(zip(planted.options[::2], planted.options[1::2]))
    setting = Setting(system="flows", stack="rings", size=Size(told.get("--size", "standard")))
    system = system_named("flows")
    assert run_plan(system, draw_plan(system, setting, planted.seed)).violations == ()
