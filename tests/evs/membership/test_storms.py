"""Random storms: every property of EVS-S and of the network, and one daemon view when they are over."""

from __future__ import annotations

import pytest

from isotone.core.services import Service
from isotone.evs.membership import InterimViews, MembershipSettings, State
from tests.evs.membership.storm import Storm, cut_for_good


@pytest.mark.parametrize("seed", range(14))
def test_safe_in_the_storm_and_together_after_it(seed: int) -> None:
    storm = Storm(seed)
    storm.rage(storm.choice.between(5, 10))
    storm.heal()
    assert storm.verdict() == {}


@pytest.mark.parametrize("seed", range(3))
def test_with_interim_views_delivered(seed: int) -> None:
    storm = Storm(f"interim {seed}", settings=MembershipSettings(interim_views=InterimViews.DELIVER))
    storm.rage(6)
    storm.heal()
    assert storm.verdict() == {}


@pytest.mark.parametrize("seed", range(3))
def test_with_heavy_loss(seed: int) -> None:
    storm = Storm(f"lossy {seed}", loss=0.25)
    storm.rage(5)
    storm.heal()
    assert storm.verdict() == {}


@pytest.mark.parametrize("seed", range(6))
def test_links_that_stay_cut(seed: int) -> None:
    """Daemon views come to rest, and nobody stays apart who reaches the whole of the other's daemon view."""
    storm = Storm(f"cut {seed}", loss=0.0)
    cluster = storm.cluster
    cluster.run_until_together()
    cuts = cut_for_good(storm)
    for name in storm.letters:
        cluster.talk(name, Service.SAFE)
    cluster.run(20)
    before = {name: len(cluster.talker(name).views) for name in storm.letters}
    cluster.run(30)
    assert before == {name: len(cluster.talker(name).views) for name in storm.letters}, "daemon views do not rest"
    assert all(cluster.membership(name).state in (State.OP, State.GATHER) for name in storm.letters)
    apart = {frozenset(each) for each in cuts}
    views = cluster.views()
    for one in storm.letters:
        for other in storm.letters:
            if other not in views[one]:
                assert any(frozenset((one, each)) in apart for each in views[other]) or any(
                    frozenset((other, each)) in apart for each in views[one]
                ), (one, other, views, cuts)
    storm.heal()
    assert storm.verdict() == {}
