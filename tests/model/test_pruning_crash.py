"""The source of pruned content crashes, and with it who else has it; every interleaving before that."""

from __future__ import annotations

import pytest

from isotone.core.services import Service
from isotone.evs.ordering.farewell import Farewell
from isotone.evs.ordering.units import Unit
from isotone.sim.explorer import explore
from tests.model.pruning_crash_model import PruningCrash


def test_nobody_passes_what_another_is_owed_and_can_still_lose() -> None:
    found = explore(PruningCrash(late=False, holder=False))
    assert found.complete and found.violation is None, found.violation
    assert (found.states, found.transitions) == (4_215, 19_491)


@pytest.mark.parametrize(("late", "holder", "states"), [(False, True, 5_047), (True, False, 13_153)])
def test_nor_when_the_last_other_holder_crashes_too_or_the_owed_one_joins_late(
    late: bool, holder: bool, states: int
) -> None:
    """As far as eight steps."""
    found = explore(PruningCrash(late=late, holder=holder), depth=8)
    assert found.violation is None, found.violation
    assert found.states == states


def test_metadata_that_is_passed_when_it_is_cleared_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bystander delivers in front of its signal what the owed site cannot."""
    monkeypatch.setattr(Unit, "waits_for_all", property(lambda self: self.service is Service.SAFE))
    found = explore(PruningCrash(late=False, holder=False))
    assert found.violation is not None and found.violation.problem == "the signal stands at different places"
    assert len(found.violation.steps) == 7


def test_a_recovery_that_takes_metadata_for_enough_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Farewell, "_is_lost", lambda self, unit: False)
    found = explore(PruningCrash(late=False, holder=False))
    assert found.violation is not None and "only a later one before the signal" in found.violation.problem
