"""Interest: over which branches content must travel, against a dumb version without bits and cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.evs.overlay import interest as interest_module
from isotone.evs.overlay.interest import Interest, InterestChanged
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import Topology
from tests.evs.overlay.graphs import topologies, topology

GROUPS = ("g1", "g2", "#client#b2")


class DumbInterest:
    """A set of pairs."""

    def __init__(self, routes: Routes, at: str) -> None:
        self.routes, self.at = routes, at
        self.pairs: set[tuple[str, str]] = set()
        self.unknown: set[str] = set()

    def wants(self, site: str, groups: tuple[str, ...]) -> bool:
        if site in self.unknown:
            return True
        homes = [group.split("#")[2][0] for group in groups if group.startswith("#")]
        return site in homes or any((site, group) in self.pairs for group in groups)

    def branches_needing(self, source: str, groups: tuple[str, ...]) -> tuple[str, ...]:
        children = self.routes.children(source, self.at)
        return tuple(c for c in children if any(self.wants(s, groups) for s in self.routes.below(source, c)))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from("abcdef"), st.sampled_from(["g1", "g2"]), st.booleans()),
        st.tuples(st.just("state"), st.sampled_from("abcdef"), st.sampled_from(["", "g1", "g2"]), st.just(True)),
        st.tuples(st.just("forget"), st.sampled_from("abcdef"), st.just(""), st.just(True)),
    ),
    max_size=12,
)


@given(topologies(), st.data(), STEPS)
def test_the_same_branches_as_the_dumb_version(
    value: Topology, data: st.DataObject, steps: list[tuple[str, str, str, bool]]
) -> None:
    names = [site.name for site in value.sites]
    at = data.draw(st.sampled_from(names))
    routes = Routes(value)
    fast, dumb = Interest(routes, at), DumbInterest(routes, at)
    for step in steps:
        if step[1] in names:
            take(fast, dumb, step)
        groups = tuple(data.draw(st.lists(st.sampled_from(GROUPS), unique=True)))
        for source in names:
            needing = dumb.branches_needing(source, groups)
            assert fast.branches_needing(source, groups) == needing
            assert set(needing) <= set(routes.children(source, at))
        assert fast.sites_needing(groups) == tuple(name for name in names if dumb.wants(name, groups))


def take(fast: Interest, dumb: DumbInterest, step: tuple[str, str, str, bool]) -> None:
    """One step in both versions."""
    kind, site, group, interested = step
    if kind == "change":
        changed = ((site, group) in dumb.pairs) != interested
        assert fast.change(InterestChanged(0, site, group, interested)) == changed
        (dumb.pairs.add if interested else dumb.pairs.discard)((site, group))
    elif kind == "state":
        fast.state(site, [group] if group else [])
        dumb.pairs = {pair for pair in dumb.pairs if pair[0] != site} | ({(site, group)} if group else set())
        dumb.unknown.discard(site)
    else:
        fast.forget(site)
        dumb.unknown.add(site)


@given(topologies(), st.sets(st.sampled_from("abcdef")))
def test_content_is_held_by_who_needs_it_and_on_the_way_and_nowhere_else(value: Topology, wanting: set[str]) -> None:
    """Forwarding step by step, each site by its own copy of the same interest, gives the set that is computed."""
    routes = Routes(value)
    copies = {site.name: Interest(routes, site.name) for site in value.sites}
    for interest in copies.values():
        for site in sorted(wanting):
            interest.change(InterestChanged(0, site, "g1", True))
    for source, first in copies.items():
        arrived = [source]
        for site in arrived:
            arrived += copies[site].branches_needing(source, ("g1",))
        assert sorted(arrived) == list(first.sites_with_content(source, ("g1",)))
        needing = set(first.sites_needing(("g1",))) - set(routes.unreachable(source))
        assert needing <= set(arrived)


CHAIN = Routes(topology("ab1 bc1 cd1"))


def test_a_join_far_away_opens_the_branch_towards_it() -> None:
    interest = Interest(CHAIN, "b")
    assert interest.branches_needing("a", ("g1",)) == ()
    assert interest.change(InterestChanged(0, "d", "g1", True))
    assert interest.branches_needing("a", ("g1",)) == ("c",)
    assert interest.branch_towards("a", "d") == "c"
    assert interest.branch_towards("a", "a") is None
    assert interest.sites_with_content("a", ("g1",)) == ("a", "b", "c", "d")
    assert interest.change(InterestChanged(0, "d", "g1", False))
    assert interest.branches_needing("a", ("g1",)) == ()


def test_news_about_other_groups_leaves_what_was_looked_up_in_place() -> None:
    interest = Interest(CHAIN, "a")
    interest.change(InterestChanged(0, "b", "g1", True))
    first = interest.branches_needing("a", ("g1",))
    interest.change(InterestChanged(0, "b", "g2", True))
    assert interest.branches_needing("a", ("g1",)) is first


def test_a_private_group_lives_at_the_site_of_its_daemon() -> None:
    interest = Interest(CHAIN, "a")
    assert interest.sites_needing(("#alice#c2",)) == ("c",)
    assert interest.sites_needing(("#alice#nobody",)) == ()
    assert interest.branches_needing("a", ("#alice#c2",)) == ("b",)


def test_a_site_gets_everything_until_it_stated_its_interest() -> None:
    interest = Interest(CHAIN, "a")
    interest.change(InterestChanged(0, "b", "g1", True))
    interest.forget("b")
    assert interest.branches_needing("a", ("g2",)) == ("b",)
    interest.state("b", ["g3"])
    assert [interest.branches_needing("a", (group,)) for group in ("g1", "g2", "g3")] == [(), (), ("b",)]
    interest.state("b", [])
    assert interest._groups == {}


def test_an_unknown_site_is_no_error_and_changes_nothing() -> None:
    interest = Interest(CHAIN, "a")
    assert not interest.change(InterestChanged(0, "elsewhere", "g1", True))
    interest.state("elsewhere", ["g1"])
    assert interest.sites_needing(("g1",)) == ()
    assert interest.change(InterestChanged(0, "b", "g1", True))


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest_module, "CACHE_MAX", 5)
    interest = Interest(CHAIN, "a")
    for number in range(100):
        interest.branches_needing("a", (f"g{number}",))
        assert len(interest._cache) <= 5 and len(interest._cached) <= 5


def test_repeated_changes_and_look_ups_keep_the_index_of_the_cache_small() -> None:
    interest = Interest(CHAIN, "a")
    for number in range(200):
        interest.change(InterestChanged(0, "b", "g1", number % 2 == 0))
        interest.branches_needing("a", ("g1", "g2"))
    assert sum(map(len, interest._cached.values())) <= 4
