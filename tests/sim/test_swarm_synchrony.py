"""The swarm over view-synchronous groups on both stacks: no property is broken, and every one is exercised."""

from __future__ import annotations

from functools import cache

from isotone.sim.plan import Size
from isotone.sim.run import RunResult
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting
from isotone.spec.synchrony_properties import synchrony_labels

SMALL = Setting(system="synchrony", stack="oracle", size=Size.SMALL)
STANDARD = Setting(system="synchrony", stack="oracle")
FULL_SMALL = Setting(system="synchrony", stack="full", size=Size.SMALL)


@cache
def results() -> tuple[RunResult, ...]:
    """On the oracle."""
    return (*run_swarm(SMALL, range(1, 41), workers=1), *run_swarm(STANDARD, range(1, 9), workers=1))


def test_no_property_is_broken() -> None:
    assert not {result.seed: result.violations for result in results() if result.violations}


def test_no_property_is_broken_on_our_own_daemons() -> None:
    found = list(run_swarm(FULL_SMALL, range(1, 7), workers=1))
    assert not {result.seed: result.violations for result in found if result.violations}
    assert max(result.bounds["live"] for result in found) <= 1


def test_a_member_of_another_view_is_not_heard_before_the_groups_are_merged() -> None:
    """A daemon view ended while the groups of two sides were gathered: what one side sent came to the other."""
    found = list(run_swarm(Setting(system="synchrony", stack="full"), (9008,), workers=1))
    assert not {result.seed: result.violations for result in found if result.violations}


def test_every_property_is_exercised() -> None:
    for label in synchrony_labels():
        assert any(result.verdicts[label] == "holds" for result in results()), label


def test_all_are_live_within_the_bound() -> None:
    assert max(result.bounds["live"] for result in results()) <= 1
