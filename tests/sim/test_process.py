"""Clocks of processes, and what a failure says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.contract import Started
from isotone.sim.process import Clock, RunFailed


@given(
    began=st.integers(0, 10**12),
    offset=st.integers(0, 10**10),
    drift=st.integers(-10_000, 10_000),
    passed=st.integers(0, 10**10),
    after=st.integers(0, 10**8),
)
def test_when_is_the_first_moment_that_a_clock_shows_a_time(
    began: int, offset: int, drift: int, passed: int, after: int
) -> None:
    clock = Clock(began, offset, drift)
    now = began + passed
    shown = clock.read(now) + after
    due = clock.when(shown)
    assert clock.read(due) >= shown
    assert clock.read(due - 1) < shown or after == 0
    assert due <= now or after > 0


@given(drift=st.integers(-10_000, 10_000), moments=st.lists(st.integers(0, 10**9), min_size=2, max_size=9))
def test_a_clock_never_runs_backwards(drift: int, moments: list[int]) -> None:
    clock = Clock(0, 5, drift)
    shown = [clock.read(moment) for moment in sorted(moments)]
    assert shown == sorted(shown)


def test_drift_is_in_parts_per_million() -> None:
    assert Clock(0, 0, 100).read(10**9) - 10**9 == pytest.approx(10**5, rel=0.01)
    assert Clock(0, 0, -100).read(10**9) - 10**9 == pytest.approx(-(10**5), rel=0.01)


def test_a_failure_is_short_whatever_the_event_holds() -> None:
    failure = RunFailed(process="a#1", automaton="main", at=7, event=Started(7, "x" * 10_000), problem="no")  # type: ignore[arg-type]
    assert len(str(failure)) < 600 and "a#1/main at 7 us" in str(failure)
