"""Interest: which sites content must pass, against a dumb version without bits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isotone.evs.overlay.interest import Interest, InterestChanged
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import Topology
from tests.evs.overlay.graphs import topologies, topology
from tests.evs.overlay.needing import sites_needing

GROUPS = ("g1", "g2", "#client#b2")


class DumbInterest:
    """A set of pairs."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.pairs: set[tuple[str, str]] = set()
        self.unknown: set[str] = set()

    def wants(self, site: str, groups: tuple[str, ...]) -> bool:
        if site in self.unknown:
            return True
        homes = [group.split("#")[2][0] for group in groups if group.startswith("#")]
        return site in homes or any((site, group) in self.pairs for group in groups)

    def sites_with_content(self, source: str, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Forwarded step by step, to each branch below which somebody wants it."""
        arrived = [source]
        for at in arrived:
            for child in self.routes.children(source, at):
                if any(self.wants(site, groups) for site in self.routes.below(source, child)):
                    arrived.append(child)
        return tuple(sorted(arrived))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from("abcdef"), st.sampled_from(["g1", "g2"]), st.booleans()),
        st.tuples(st.just("state"), st.sampled_from("abcdef"), st.sampled_from(["", "g1", "g2"]), st.just(True)),
        st.tuples(st.just("forget"), st.sampled_from("abcdef"), st.just(""), st.just(True)),
    ),
    max_size=12,
)


@given(topologies(), st.data(), STEPS)
def test_content_is_held_by_the_same_sites_as_in_the_dumb_version(
    value: Topology, data: st.DataObject, steps: list[tuple[str, str, str, bool]]
) -> None:
    names = [site.name for site in value.sites]
    routes = Routes(value)
    fast, dumb = Interest(routes), DumbInterest(routes)
    for step in steps:
        if step[1] in names:
            take(fast, dumb, step)
        groups = tuple(data.draw(st.lists(st.sampled_from(GROUPS), unique=True)))
        for source in names:
            assert fast.sites_with_content(source, groups) == dumb.sites_with_content(source, groups)
        assert sites_needing(fast, *groups) == tuple(name for name in names if dumb.wants(name, groups))


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


CHAIN = Routes(topology("ab1 bc1 cd1"))


def test_a_join_far_away_opens_the_way_towards_it() -> None:
    interest = Interest(CHAIN)
    assert interest.sites_with_content("b", ("g1",)) == ("b",)
    assert interest.change(InterestChanged(0, "d", "g1", True))
    assert interest.sites_with_content("a", ("g1",)) == ("a", "b", "c", "d")
    assert interest.sites_with_content("b", ("g1",)) == ("b", "c", "d"), "a does not lie on the way"
    assert interest.change(InterestChanged(0, "d", "g1", False))
    assert interest.sites_with_content("b", ("g1",)) == ("b",)


def test_a_private_group_lives_at_the_site_of_its_daemon() -> None:
    interest = Interest(CHAIN)
    assert sites_needing(interest, "#alice#c2") == ("c",)
    assert sites_needing(interest, "#alice#nobody") == ()
    assert interest.sites_with_content("a", ("#alice#c2",)) == ("a", "b", "c")


def test_a_site_gets_everything_until_it_stated_its_interest() -> None:
    interest = Interest(CHAIN)
    interest.change(InterestChanged(0, "b", "g1", True))
    interest.forget("b")
    assert sites_needing(interest, "g2") == ("b",)
    interest.state("b", ["g3"])
    assert [sites_needing(interest, group) for group in ("g1", "g2", "g3")] == [(), (), ("b",)]
    interest.state("b", [])
    assert interest._groups == {}


def test_an_unknown_site_is_no_error_and_changes_nothing() -> None:
    interest = Interest(CHAIN)
    assert not interest.change(InterestChanged(0, "elsewhere", "g1", True))
    interest.state("elsewhere", ["g1"])
    assert sites_needing(interest, "g1") == ()
    assert interest.change(InterestChanged(0, "b", "g1", True))


def test_an_unknown_site_that_is_forgotten_makes_nobody_need_everything() -> None:
    interest = Interest(CHAIN)
    interest.forget("elsewhere")
    assert sites_needing(interest, "g1") == ()


def test_what_is_no_news_says_so() -> None:
    interest = Interest(CHAIN)
    assert not interest.change(InterestChanged(0, "b", "g1", False))
    assert interest.change(InterestChanged(0, "b", "g1", True))
    assert not interest.change(InterestChanged(0, "b", "g1", True))
    assert interest.change(InterestChanged(0, "c", "g1", True))
    assert interest.change(InterestChanged(0, "b", "g1", False)) and sites_needing(interest, "g1") == ("c",)
