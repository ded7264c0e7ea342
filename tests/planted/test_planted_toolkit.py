"""Faults planted in the ISIS toolkit: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import Planted, missed, planted_in, swarm_command

PLANTED = planted_in(Path(__file__).parent / "toolkit")
SWARM = swarm_command("--system", "toolkit", "--stack", "isis", "--workers", "1")


def names(planted: Planted) -> str:
    return planted.name


def test_each_is_another_fault() -> None:
    assert len(PLANTED) >= 8 and len({planted.fault for planted in PLANTED}) == len(PLANTED)
    assert all(planted.seed <= 300 for planted in PLANTED)


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


@pytest.mark.parametrize("seed", sorted({planted.seed for planted in PLANTED}))
def test_the_sound_toolkit_passes_at_that_seed(seed: int) -> None:
    system = system_named("toolkit")
    setting = Setting(system="toolkit", stack="isis", size=Size.SMALL)
    assert run_plan(system, draw_plan(system, setting, seed)).violations == ()
