"""Faults planted in HAB: the checkers must find each at its seed, and nothing at that seed without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.plan import Size
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting
from isotone.spec.hab_properties import hab_labels
from tests.planted.harness import Planted, missed, planted_in, swarm_command

PLANTED = planted_in(Path(__file__).parent / "hab")
SWARM = swarm_command("--system", "hab", "--stack", "consensus", "--workers", "1")
FOUND_ELSEWHERE = {
    "HAB-AGREEMENT": "what a process lacks at the end is RUN-LIVE, which asks for more",
}


def names(planted: Planted) -> str:
    return planted.name


def chosen(planted: Planted, option: str, usual: str) -> str:
    """Most are on consensus and small. What a restart finds is on COReL; some need more than three centres."""
    options = planted.options
    return options[options.index(option) + 1] if option in options else usual


def setting_of(planted: Planted) -> Setting:
    stack, size = chosen(planted, "--stack", "consensus"), chosen(planted, "--size", "standard")
    return Setting(system="hab", stack=stack, size=Size(size))


def test_there_are_at_least_ten_within_300_seeds() -> None:
    assert len(PLANTED) >= 10
    assert all(planted.seed <= 300 for planted in PLANTED)


def test_every_promise_is_broken_by_one_of_them() -> None:
    raised = {label for planted in PLANTED for label in planted.raises}
    assert set(hab_labels()) - raised == FOUND_ELSEWHERE.keys()


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert missed(planted, SWARM) == set()


def test_the_sound_centres_pass_at_those_seeds() -> None:
    settings = {setting_of(planted) for planted in PLANTED}
    assert {(each.stack, each.size) for each in settings} >= {("consensus", Size.SMALL), ("corel", Size.SMALL)}
    for setting in settings:
        seeds = sorted({planted.seed for planted in PLANTED if setting_of(planted) == setting})
        results = run_swarm(setting, seeds, workers=1)
        assert not {result.seed: result.violations for result in results if result.violations}
