"""Growth from three servers to five, explored to the end: numbers of reachable states are pinned."""

from __future__ import annotations

import pytest

from tests.model.corel_growth_model import GrowthModel


@pytest.mark.parametrize(("number_max", "states"), [(1, 682), (2, 21_997)], ids=["one primary", "two primaries"])
def test_primaries_are_one_chain_while_servers_are_added(number_max: int, states: int) -> None:
    assert GrowthModel(number_max).explore() == (states, "")


def test_a_reconfiguration_that_counts_only_when_green_breaks_the_chain() -> None:
    """One server has two of them green, others have them yellow: without those they are a quorum of the founders."""
    _, wrong = GrowthModel(2, yellow_counts=False).explore()
    assert "are both primary 2" in wrong


def test_learners_that_vote_break_the_chain() -> None:
    _, wrong = GrowthModel(2, learners_vote=True).explore()
    assert "are both primary 2" in wrong
