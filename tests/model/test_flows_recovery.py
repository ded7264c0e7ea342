"""Every interleaving of small recoveries: decisions, and what a ring tells the one above, never fall."""

from __future__ import annotations

import pytest

from isotone.flows.ring import Ring
from isotone.flows.root import Root
from isotone.sim.explorer import Exploration, explore
from tests.model.flows_recovery_model import Recovery


def explored(*views: str, top: bool, ticks: int, grown: int, **values: int) -> Exploration:
    return explore(Recovery(views, values, top=top, ticks=ticks, grown=grown))


def test_two_candidates_of_the_top_ring_recover() -> None:
    found = explored("ab", top=True, ticks=4, grown=0, a=1, b=0)
    assert found.complete and found.violation is None, found.violation
    assert (found.states, found.transitions) == (5_548, 16_870)


def test_a_top_ring_that_was_replaced_recovers_while_the_old_one_goes_on() -> None:
    """All members of the first view are taken for dead, and are not; the other one's floor may be too low."""
    found = explored("a", "c", top=True, ticks=5, grown=1, a=1, c=0)
    assert found.complete and found.violation is None, found.violation
    assert (found.states, found.transitions) == (8_984, 23_357)


def test_a_ring_below_begins_a_new_life() -> None:
    """One of two candidates is replaced, at any moment of the recovery."""
    found = explored("ab", "ac", top=False, ticks=3, grown=0, a=1, b=1, c=0)
    assert found.complete and found.violation is None, found.violation
    assert (found.states, found.transitions) == (10_575, 31_431)


def test_a_root_that_follows_up_any_decision_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was before the explorer found it: two recoveries, one of them above an old decision."""
    monkeypatch.setattr(Root, "_falls", lambda self, aggregates: False)
    found = explored("a", "c", top=True, ticks=5, grown=1, a=1, c=0)
    assert found.violation is not None and found.violation.problem == "the decision falls from 1 to 0"
    assert len(found.violation.steps) == 13


def test_newcomers_without_a_guard_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ring, "_reaches", lambda self, floor: True)
    found = explored("ab", "ac", top=False, ticks=3, grown=0, a=1, b=1, c=0)
    assert found.violation is not None and found.violation.problem == "a tells the ring above 0 after 1"
