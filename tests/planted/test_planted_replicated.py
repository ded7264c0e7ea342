"""Every fault planted into replicated objects breaks its property at its seed, and nothing is broken without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import Planted, missed, planted_in, swarm_command

PLANTED = planted_in(Path(__file__).parent / "replicated")
SWARM = swarm_command("--system", "replicated", "--stack", "oracle", "--workers", "1")
SEED_MAX = 300


def names(planted: Planted) -> str:
    return planted.name


def size_of(planted: Planted) -> str:
    return planted.options[planted.options.index("--size") + 1]


def test_there_are_at_least_ten() -> None:
    assert len(PLANTED) >= 10
    assert len({planted.fault for planted in PLANTED}) == len(PLANTED)
    assert all(planted.seed <= SEED_MAX for planted in PLANTED)


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


@pytest.mark.parametrize(("seed", "size"), sorted({(planted.seed, size_of(planted)) for planted in PLANTED}))
def test_the_sound_objects_pass_at_that_seed(seed: int, size: str) -> None:
    system = system_named("replicated")
    setting = Setting(system="replicated", stack="oracle", size=Size(size))
    assert run_plan(system, draw_plan(system, setting, seed)).violations == ()
