"""Faults planted in the ISIS toolkit: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import Planted, missed, planted_in, swarm_command

HERE = Path(__file__).parent
DIRECTORIES = {"isis": HERE / "toolkit", "evs": HERE / "toolkit_evs"}
SWARMS = {stack: swarm_command("--system", "toolkit", "--stack", stack, "--workers", "1") for stack in DIRECTORIES}
PLANTED = [(stack, planted) for stack, directory in DIRECTORIES.items() for planted in planted_in(directory)]


def names(value: str | Planted) -> str:
    return value if isinstance(value, str) else value.name


@pytest.mark.parametrize("stack", DIRECTORIES)
def test_each_is_another_fault(stack: str) -> None:
    faults = [planted for each, planted in PLANTED if each == stack]
    assert len(faults) >= 8 and len({planted.fault for planted in faults}) == len(faults)
    assert all(planted.seed <= 300 for planted in faults)


@pytest.mark.parametrize(("stack", "planted"), PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(stack: str, planted: Planted) -> None:
    assert missed(planted, SWARMS[stack]) == set()


@pytest.mark.parametrize(("stack", "seed"), sorted({(stack, planted.seed) for stack, planted in PLANTED}))
def test_the_sound_toolkit_passes_at_that_seed(stack: str, seed: int) -> None:
    system = system_named("toolkit")
    setting = Setting(system="toolkit", stack=stack, size=Size.SMALL)
    assert run_plan(system, draw_plan(system, setting, seed)).violations == ()
