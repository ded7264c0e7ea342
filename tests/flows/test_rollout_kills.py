"""The roll-out over 32 processes in three layers, through kills and restarts; and what judges it."""

from __future__ import annotations

from tests.flows.rollout_kills import NODES, STEPS, Happened, run_round, summary, violations


def test_a_roll_out_goes_on_through_kills_and_restarts() -> None:
    """A node is killed and comes back, then all eight of a ring, then the authority."""
    told = run_round(seed=1, kills=3)
    assert told["violations"] == [] and told["quiet"] == 4
    assert told["versions"] >= 7 * STEPS and told["confirmations"] >= len(NODES) * STEPS


def test_rounds_are_summed_up() -> None:
    one = {"seconds": 3.5, "kills": 4, "versions": 9, "confirmations": 288, "quiet": 5, "left_out": 0}
    told = summary([{**one, "seed": 1, "violations": []}, {**one, "seed": 2, "violations": ["b begins 3, a is at 1"]}])
    assert "rounds 2, in 7 seconds" in told and "kills 8" in told and told.endswith("seed 2: b begins 3, a is at 1")


def happened(*events: tuple[str, str, object]) -> list[Happened]:
    return [Happened(at, *each) for at, each in enumerate(events)]


def test_who_begins_too_early_is_found() -> None:
    course = [("a", "confirmed", 1), ("", "quiet", None), ("b", "applying", 2), ("b", "applying", 3)]
    assert violations(happened(*course)) == ["b begins 3, a is at 1"]
    assert violations(happened(*course[:3])) == []


def test_nothing_is_judged_while_somebody_may_not_count() -> None:
    begins = [("a", "confirmed", 1), ("", "quiet", None)]
    for why in (("", "deed", None), ("a", "left_out", 1)):
        assert violations(happened(*begins, why, ("b", "applying", 3))) == []
