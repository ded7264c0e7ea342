"""ABCAST and site views of ISIS, explored: numbers of reachable states are pinned, and faults are found."""

from __future__ import annotations

import pytest

from isotone.isis.abcast import Abcasts
from isotone.sim.explorer import explore
from tests.model.isis_model import AbcastModel, SiteViewModel


def test_two_abcasts_of_which_one_coordinator_crashes() -> None:
    found = explore(AbcastModel(("a.1", "b.1"), ("a.1",), uniform=False))
    assert (found.complete, found.violation, found.deadlocks) == (True, None, 0)
    assert (found.states, found.ends) == (1_598, 26)


def test_an_abcast_with_the_extra_phase_and_a_crash_of_any_site() -> None:
    found = explore(AbcastModel(("a.1",), ("a.1", "b.1", "c.1"), uniform=True))
    assert (found.complete, found.violation, found.deadlocks) == (True, None, 0)
    assert (found.states, found.ends) == (599, 11)


def test_without_take_over_a_survivor_is_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Abcasts, "on_view", lambda self: None)
    assert explore(AbcastModel(("a.1",), ("a.1",), uniform=False)).deadlocks > 0


def test_site_views_with_a_crash_of_the_manager() -> None:
    found = explore(SiteViewModel(suspects=0, restarts=False))
    assert (found.complete, found.violation) == (True, None)
    assert found.states == 401
