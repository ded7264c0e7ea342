"""Lateness of our own wake-ups, and pauses."""

from __future__ import annotations

import pytest

from isotone.detector.self_doubt import WakeUps
from isotone.detector.settings import DetectorSettings

SETTINGS = DetectorSettings(pause_min_us=100, pause_factor=4, pause_max_us=1_000)


def waiting(*, due_at: int, awake_at: int = 0, lateness_us: int = 0) -> WakeUps:
    return WakeUps(SETTINGS, awake_at=awake_at, due_at=due_at, lateness_us=lateness_us)


def test_a_wake_up_in_time_teaches_nothing() -> None:
    wake_ups = waiting(due_at=50)
    assert wake_ups.woke(50, by_timer=True) == 0
    assert (wake_ups.lateness_us, wake_ups.due_at, wake_ups.awake_at) == (0, None, 50)


def test_a_late_wake_up_is_measured_at_once_and_forgotten_slowly() -> None:
    wake_ups = waiting(due_at=50)
    assert wake_ups.woke(130, by_timer=True) == 0
    assert wake_ups.lateness_us == 80
    wake_ups.due_at = 200
    wake_ups.woke(200, by_timer=True)
    assert wake_ups.lateness_us == 70
    for at in range(201, 260):
        wake_ups.due_at = at
        wake_ups.woke(at, by_timer=True)
    assert wake_ups.lateness_us == 0


def test_other_events_neither_teach_nor_disarm() -> None:
    wake_ups = waiting(due_at=50)
    assert wake_ups.woke(120, by_timer=False) == 0
    assert (wake_ups.lateness_us, wake_ups.due_at) == (0, 50)


@pytest.mark.parametrize("by_timer", [True, False])
def test_a_pause_is_found_by_any_event_and_counts_from_the_last_one(by_timer: bool) -> None:
    wake_ups = waiting(awake_at=20, due_at=50)
    assert wake_ups.woke(151, by_timer=by_timer) == 131
    assert (wake_ups.due_at, wake_ups.lateness_us) == (None, 100)
    assert wake_ups.woke(152, by_timer=False) == 0


def test_who_is_always_late_needs_a_longer_pause_up_to_a_limit() -> None:
    assert waiting(due_at=0, lateness_us=20).pause_above_us == 100
    assert waiting(due_at=0, lateness_us=60).pause_above_us == 240
    assert waiting(due_at=0, lateness_us=900).pause_above_us == 1_000


def test_a_pause_teaches_no_more_than_what_would_just_not_be_one() -> None:
    wake_ups = waiting(due_at=50, lateness_us=60)
    assert wake_ups.woke(1_000_000, by_timer=True) == 1_000_000
    assert wake_ups.lateness_us == 240


def test_without_a_timer_nothing_is_late() -> None:
    wake_ups = WakeUps(SETTINGS)
    assert wake_ups.woke(10, by_timer=False) == 0
    assert wake_ups.woke(10_000_000, by_timer=False) == 0


def test_time_does_not_go_backwards() -> None:
    wake_ups = WakeUps(SETTINGS, awake_at=10)
    with pytest.raises(AssertionError, match="backwards"):
        wake_ups.woke(9, by_timer=False)
