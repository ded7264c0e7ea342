"""Gateways: those that reach the others, the same choice everywhere."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from isotone.evs.overlay.gateways import Reachability, choose_gateways, gateway_of, reach_each_other
from isotone.evs.overlay.topology import Site, make_site
from tests.evs.overlay.graphs import sites_named

SITES = sites_named("abc")
DAEMONS = [daemon for site in SITES for daemon in site.daemons]


def both_ways(*pairs: str) -> dict[str, set[str]]:
    """Reachability from text such as ``a1-b2``."""
    found: dict[str, set[str]] = {}
    for pair in pairs:
        one, other = pair.split("-")
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return found


def pairs_joined(sites: tuple[Site, ...], reachability: Reachability) -> int:
    gateways = [site.gateway for site in sites]
    return sum(reach_each_other(reachability, a, b) for a in gateways for b in gateways if a < b)


def test_the_daemon_that_reaches_the_most_sites_is_chosen() -> None:
    reachability = both_ways("a1-b1", "a2-b1", "a2-c1")
    assert gateway_of(SITES[0], SITES, reachability) == "a2"


def test_one_direction_does_not_count() -> None:
    reachability = {"a2": {"b1", "c1"}, **both_ways("a1-b1")}
    assert gateway_of(SITES[0], SITES, reachability) == "a1"


def test_among_equals_the_present_gateway_stays_then_the_name_decides() -> None:
    everybody: dict[str, set[str]] = {daemon: set(DAEMONS) for daemon in DAEMONS}
    assert gateway_of(make_site("a", ["a1", "a2"], "a2"), SITES, everybody) == "a2"
    assert gateway_of(make_site("a", ["a1", "a2"], ""), SITES, {}) == "a1"


def test_gateways_are_chosen_so_that_they_reach_each_other() -> None:
    """Each site's own favourite reaches daemons that are not gateways: together they find a pair that meets."""
    sites = sites_named("ab")
    chosen = choose_gateways(sites, both_ways("a2-b2"))
    assert [site.gateway for site in chosen] == ["a2", "b2"]


REACHABILITY = st.dictionaries(st.sampled_from(DAEMONS), st.sets(st.sampled_from(DAEMONS)))


@given(REACHABILITY, st.permutations(SITES))
def test_the_choice_is_the_same_for_any_order_of_the_input(reachability: Reachability, sites: list[Site]) -> None:
    turned = dict(reversed(list(reachability.items())))
    assert choose_gateways(sites, turned) == choose_gateways(SITES, reachability)


@given(REACHABILITY)
def test_no_single_change_would_join_more_pairs(reachability: Reachability) -> None:
    chosen = choose_gateways(SITES, reachability)
    found = pairs_joined(chosen, reachability)
    for place, site in enumerate(chosen):
        for daemon in site.daemons:
            changed = (*chosen[:place], Site(site.name, site.daemons, daemon), *chosen[place + 1 :])
            assert pairs_joined(changed, reachability) <= found


@given(REACHABILITY)
def test_where_anybody_can_meet_somebody_does(reachability: Reachability) -> None:
    best = max(
        pairs_joined(tuple(Site(s.name, s.daemons, g) for s, g in zip(SITES, gateways)), reachability)
        for gateways in product(*(site.daemons for site in SITES))
    )
    assert (pairs_joined(choose_gateways(SITES, reachability), reachability) > 0) == (best > 0)
