"""Faults planted in HAB: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting
from tests.planted.harness import Planted, missed, planted_in, swarm_command

PLANTED = planted_in(Path(__file__).parent / "hab")
SWARM = swarm_command("--system", "hab", "--stack", "consensus", "--workers", "1")


def names(planted: Planted) -> str:
    return planted.name


def test_there_are_at_least_ten_within_300_seeds() -> None:
    assert len(PLANTED) >= 10
    assert all(planted.seed <= 300 for planted in PLANTED)


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


def test_the_sound_centres_pass_at_those_seeds() -> None:
    seeds = sorted({planted.seed for planted in PLANTED})
    results = run_swarm(Setting(system="hab", stack="consensus", size=Size.SMALL), seeds, workers=1)
    assert not {result.seed: result.violations for result in results if result.violations}
