"""The fixed swarm seeds as tests of pytest, so that `mutants.py` treats them as it treats all others."""

from __future__ import annotations

import os

import pytest

from isotone.sim.swarm import run_seed
from isotone.sim.system import Setting

SEEDS = range(1, 21)


@pytest.mark.parametrize("seed", SEEDS)
def test_swarm(seed: int) -> None:
    setting = Setting(system=os.environ["MUTANT_SYSTEM"], stack=os.environ["MUTANT_STACK"])
    assert not run_seed(setting, seed).violations
