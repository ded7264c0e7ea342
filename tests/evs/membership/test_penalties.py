"""Penalties double, are capped, end by themselves, and are cleared by evidence."""

from __future__ import annotations

from isotone.evs.membership.penalties import Penalties
from isotone.evs.membership.settings import MembershipSettings

SETTINGS = MembershipSettings(steady_us=1_000, penalty_us=100, penalty_max_us=350, penalty_answers=3)


def flap(penalties: Penalties, at: int) -> int:
    """Reached and lost at once; how long the penalty lasts."""
    penalties.reached("x", at)
    penalties.lost("x", at + 1)
    end = penalties.next_end(at + 1)
    return 0 if end is None else end - at - 1


def test_who_was_never_reached_cannot_flap() -> None:
    penalties = Penalties(SETTINGS)
    penalties.lost("x", 5)
    assert not penalties.holds("x", 5)


def test_each_flap_doubles_the_penalty_up_to_its_cap() -> None:
    penalties = Penalties(SETTINGS)
    assert [flap(penalties, at) for at in (0, 200, 500, 1_000, 1_500)] == [100, 200, 350, 350, 350]


def test_a_penalty_ends_by_itself() -> None:
    penalties = Penalties(SETTINGS)
    flap(penalties, 0)
    assert penalties.holds("x", 100) and not penalties.holds("x", 101)


def test_a_loss_after_a_long_time_is_no_flap_and_clears_the_count() -> None:
    penalties = Penalties(SETTINGS)
    flap(penalties, 0)
    penalties.reached("x", 500)
    penalties.lost("x", 1_500)
    assert not penalties.holds("x", 1_500)
    assert flap(penalties, 2_000) == 100


def test_answers_in_a_row_clear_a_penalty() -> None:
    penalties = Penalties(SETTINGS)
    flap(penalties, 0)
    assert [penalties.answered("x", at) for at in (10, 20, 30)] == [False, False, True]
    assert not penalties.holds("x", 30)


def test_an_attempt_that_failed_for_want_of_a_daemon_counts_against_it() -> None:
    penalties = Penalties(SETTINGS)
    penalties.failed("x", 0)
    assert penalties.holds("x", 99) and not penalties.holds("x", 100)
    penalties.forget("x")
    assert not penalties.holds("x", 50)


def test_who_has_no_penalty_has_none_to_clear() -> None:
    penalties = Penalties(SETTINGS)
    assert not penalties.answered("x", 0)
    flap(penalties, 0)
    assert not penalties.answered("x", 101), "it ended by itself"
