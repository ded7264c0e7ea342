"""Bounds: a value with a name, a derivation and a function; reports compare it with what a run took."""

from __future__ import annotations

import pytest

from isotone.spec.bounds import ORACLE_SETTLES, Bound, BoundReport
from isotone.spec.oracle.settings import OracleSettings

TWICE: Bound[int] = Bound("twice", "a thing is done twice", lambda once_us: 2 * once_us)


@pytest.mark.parametrize(("observed_us", "kept"), [(0, True), (20, True), (21, False)])
def test_a_report_says_whether_the_promise_was_kept(observed_us: int, kept: bool) -> None:
    report = TWICE.report(10, observed_us=observed_us)
    assert report == BoundReport("twice", observed_us, 20)
    assert report.kept is kept
    assert report.ratio == observed_us / 20


def test_a_bound_of_no_time_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="positive"):
        TWICE.report(0, observed_us=0)


def test_the_oracle_settles_later_where_its_steps_or_its_forming_take_longer() -> None:
    base = ORACLE_SETTLES.function(OracleSettings())
    assert ORACLE_SETTLES.function(OracleSettings(step_us_max=16_000)) > base
    assert ORACLE_SETTLES.function(OracleSettings(form_us_max=60_000)) > base
    assert ORACLE_SETTLES.derivation
