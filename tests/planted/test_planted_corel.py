"""Faults planted in COReL: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import Planted, missed, planted_in, swarm_command
from tests.planted.search import SEEDS_AT_A_PLACE, hunts_at

PLANTED = planted_in(Path(__file__).parent / "corel")
SWARM = swarm_command("--system", "corel", "--stack", "oracle", "--workers", "1")


def names(planted: Planted) -> str:
    return planted.name


def test_there_are_at_least_twelve() -> None:
    assert len(PLANTED) >= 12
    assert len({planted.fault for planted in PLANTED}) == len(PLANTED)


def test_a_soak_looks_at_so_many_seeds_that_a_rare_fault_is_met() -> None:
    seeds = SEEDS_AT_A_PLACE["corel"]
    assert all(planted.seed * 5 < seeds for planted in PLANTED)
    hunts = list(hunts_at(PLANTED, 5, 6, seeds))
    assert [hunt.planted for hunt in hunts] == PLANTED[5:7]
    assert hunts[0].last - hunts[0].first + 1 == seeds and hunts[1].first == hunts[0].last + 1


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_sound_replica_passes_at_that_seed(planted: Planted) -> None:
    told = dict(zip(planted.options[::2], planted.options[1::2]))
    setting = Setting(
        system="corel",
        stack="oracle",
        size=Size(told.get("--size", "standard")),
        faults=told.get("--faults", "all"),
        nodes=told.get("--nodes"),
    )
    system = system_named(setting.system)
    assert run_plan(system, draw_plan(system, setting, planted.seed)).violations == ()
