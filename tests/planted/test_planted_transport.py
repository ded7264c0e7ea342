"""Faults planted in the transport: the swarm on one stable daemon view finds each at its seed, nothing without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan
from tests.planted.harness import Planted, missed, planted_in
from tests.planted.search import SEEDS, SWARMS

PLANTED = planted_in(Path(__file__).parent / "transport")


def names(planted: Planted) -> str:
    return planted.name


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found_at_its_seed(planted: Planted) -> None:
    assert 1 <= planted.seed <= SEEDS and missed(planted, SWARMS["transport"]) == set()


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_sound_transport_passes_at_that_seed(planted: Planted) -> None:
    system = system_named("evs")
    assert run_plan(system, draw_plan(system, Setting(system="evs", stack="transport"), planted.seed)).violations == ()
