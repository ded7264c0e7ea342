"""Trees of shortest paths: the same everywhere, each site reached once, no path shorter."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import WEIGHT_MAX, Link, Site, Topology, make_topology
from tests.evs.overlay.graphs import parts, topologies, topology


def simple_paths(value: Topology, source: str, target: str, seen: tuple[str, ...] = ()) -> Iterator[tuple[int, int]]:
    """Weight and number of links of every path that visits no site twice: the dumb version."""
    if source == target:
        yield (0, 0)
        return
    for link in value.links:
        if source in (link.a, link.b) and link.other(source) not in (*seen, source):
            for weight, hops in simple_paths(value, link.other(source), target, (*seen, source)):
                yield (weight + link.weight, hops + 1)


@given(topologies())
def test_no_path_is_shorter_than_that_of_the_tree(value: Topology) -> None:
    routes = Routes(value)
    for source in value.sites:
        tree = routes.tree(source.name)
        for target in value.sites:
            best = min(simple_paths(value, source.name, target.name), default=None)
            assert (best is None) == (target.name in tree.unreachable)
            if best is not None:
                assert (tree.distance[target.name], len(way(routes, source.name, target.name)) - 1) == best


def way(routes: Routes, source: str, target: str) -> list[str]:
    """The sites from the source to the target, along parents; checks the distances on the way."""
    found = [target]
    while (parent := routes.parent(source, found[-1])) is not None:
        link = routes.link(parent, found[-1])
        tree = routes.tree(source)
        assert tree.distance[found[-1]] == tree.distance[parent] + link.weight
        found.append(parent)
    assert found[-1] == source
    return found[::-1]


@given(topologies())
def test_forwarding_reaches_each_site_exactly_once(value: Topology) -> None:
    routes = Routes(value)
    for source in value.sites:
        arrived = [source.name]
        for site in arrived:
            for child in routes.children(source.name, site):
                assert routes.parent(source.name, child) == site
                assert routes.link(site, child).other(site) == child
                arrived.append(child)
        assert len(arrived) == len(set(arrived))
        assert sorted([*arrived, *routes.unreachable(source.name)]) == [site.name for site in value.sites]


@given(parts(), st.randoms(use_true_random=False))
def test_every_daemon_computes_the_same_trees(both: tuple[list[Site], list[Link]], random: object) -> None:
    sites, links = both
    shuffled_sites, shuffled_links = list(sites), list(links)
    random.shuffle(shuffled_sites)  # type: ignore[attr-defined]
    random.shuffle(shuffled_links)  # type: ignore[attr-defined]
    mine, theirs = Routes(make_topology(sites, links)), Routes(make_topology(shuffled_sites, shuffled_links))
    order = [site.name for site in shuffled_sites]
    assert {name: theirs.tree(name) for name in order} == {site.name: mine.tree(site.name) for site in sites}


@given(topologies())
def test_branches_say_what_lies_below_them(value: Topology) -> None:
    routes = Routes(value)
    names = [site.name for site in value.sites]
    for source in names:
        for site in names:
            reached = site not in routes.unreachable(source)
            below = [far for far in names if reached and far not in routes.unreachable(source)]
            below = [far for far in below if site in way(routes, source, far)]
            assert list(routes.below(source, site)) == below


@given(topologies())
def test_components_are_the_sites_that_reach_each_other(value: Topology) -> None:
    routes = Routes(value)
    components = routes.components()
    assert sorted(name for component in components for name in component) == [site.name for site in value.sites]
    for component in components:
        for source in component:
            assert set(routes.unreachable(source)) == {site.name for site in value.sites} - set(component)


def test_equal_paths_are_decided_by_fewer_links_then_by_the_parents_name() -> None:
    assert Routes(topology("ab1 bc1 ac2")).children("a", "a") == ("b", "c")
    diamond = Routes(topology("ab5 ac5 bd5 cd5"))
    assert (diamond.parent("a", "d"), diamond.parent("d", "a")) == ("b", "b")


def test_weights_of_zero_and_huge_ones() -> None:
    zero = Routes(topology("ab0 bc0 ca0 cd0"))
    assert [zero.parent("a", site) for site in "abcd"] == [None, "a", "a", "c"]
    huge = Routes(topology(f"ab{WEIGHT_MAX} bc{WEIGHT_MAX} cd{WEIGHT_MAX} ad{WEIGHT_MAX}"))
    assert huge.tree("a").distance["c"] == 2 * WEIGHT_MAX


def test_removing_a_site_sends_its_traffic_another_way() -> None:
    value = topology("ab1 bc1 cd1 ad9")
    assert Routes(value).parent("a", "d") == "c"
    left = Routes(topology("cd1 ad9", names="acd"))
    assert (left.parent("a", "d"), left.parent("a", "c")) == ("a", "d")
    assert left.components() == (("a", "c", "d"),)


def test_a_disconnected_site_is_reported() -> None:
    routes = Routes(topology("ab1", names="abc"))
    assert routes.unreachable("a") == ("c",)
    assert routes.components() == (("a", "b"), ("c",))
    assert (routes.parent("a", "c"), routes.children("a", "c"), routes.below("a", "c")) == (None, (), ())


def test_only_links_that_some_tree_takes_need_be_kept_up() -> None:
    routes = Routes(topology("ab1 bc1 ac5"))
    assert [link.name for link in routes.links_used("a")] == ["a~b"]
    assert [link.name for link in routes.links_used("b")] == ["a~b", "b~c"]
