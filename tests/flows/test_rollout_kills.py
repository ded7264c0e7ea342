"""The roll-out over 32 real nodes in three layers, through kills and restarts; and what judges it."""

from __future__ import annotations

from tests.flows.rollout_kills import NODES_EACH, STEPS, Happened, run_round, violations


def test_a_roll_out_goes_on_through_kills_and_restarts() -> None:
    """Two processes of eight nodes are killed and come back, then the authority."""
    told = run_round(seed=1, kills=3)
    assert told["violations"] == []
    assert told["versions"] >= 7 * STEPS and told["confirmations"] >= 4 * NODES_EACH * STEPS


def happened(*events: tuple[str, str, object]) -> list[Happened]:
    return [Happened(at, *each) for at, each in enumerate(events)]


def test_who_begins_too_early_is_found() -> None:
    course = [("a", "regular", True), ("a", "confirmed", 1), ("b", "applying", 2), ("b", "applying", 3)]
    assert violations(happened(*course)) == ["b begins 3, a is at 1"]
    assert violations(happened(*course[:3])) == []


def test_who_does_not_count_holds_nobody_back() -> None:
    early = [("r-1/1", "confirmed", 1), ("b", "applying", 3)]
    assert violations(happened(*early)) == []
    left_out = [("r-1/1", "regular", True), *early, ("r-1/1", "regular", False)]
    assert violations(happened(*left_out)) == []
    killed = [("r-1/1", "regular", True), *early, ("r", "killed", None)]
    assert violations(happened(*killed)) == []
