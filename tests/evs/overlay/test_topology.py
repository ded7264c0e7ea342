"""The topology as a value: one form, checked in words, two weightings."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.errors import InputError
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import (
    WEIGHT_MAX,
    Link,
    LinkLimits,
    LinkProtocol,
    Site,
    Topology,
    fanout,
    make_link,
    make_site,
    make_topology,
    shared_tree,
    topology_problems,
)
from tests.evs.overlay.graphs import parts, sites_named, topologies, topology


@given(parts(), st.randoms(use_true_random=False))
def test_any_order_of_the_input_gives_the_same_value(both: tuple[list[Site], list[Link]], random: object) -> None:
    sites, links = both
    expected = make_topology(sites, links)
    turned_sites = [Site(site.name, site.daemons[::-1], site.gateway) for site in sites]
    turned_links = [Link(link.b, link.a, link.weight, link.protocol, link.limits) for link in links]
    random.shuffle(turned_sites)  # type: ignore[attr-defined]
    random.shuffle(turned_links)  # type: ignore[attr-defined]
    assert make_topology(turned_sites, turned_links) == expected


@given(topologies())
def test_a_topology_survives_the_wire(value: Topology) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=Topology) == value
    assert topology_problems(value) == []


def test_the_first_daemon_by_name_is_the_gateway_unless_one_is_named() -> None:
    assert make_site("x", ["d2", "d1"]) == Site("x", ("d1", "d2"), "d1")
    assert make_site("x", ["d2", "d1"], "d2").gateway == "d2"


A, B = sites_named("ab")


@pytest.mark.parametrize(
    ("sites", "links", "words"),
    [
        ([A, A], [], "site 'a' is there twice"),
        ([A, make_site("b", ["a1"])], [], "daemon 'a1' is there twice"),
        ([make_site("b", ["x", "x"])], [], "daemon 'x' is there twice"),
        ([make_site("b", [])], [], "site 'b' has no daemon"),
        ([make_site("b", ["b1"], "c1")], [], "the gateway 'c1' of site 'b' is none of its daemons"),
        ([make_site("", ["b1"])], [], "site name '' must have 1 to 64 characters"),
        ([make_site("s t", ["b1"])], [], "site name 's t' must have"),
        ([make_site("b", ["b#1"])], [], "site 'b': daemon name 'b#1'"),
        ([A, B], [make_link("a", "c")], "link a~c ends at 'c', which is no site"),
        ([A, B], [make_link("a", "a")], "link a~a ends where it begins"),
        ([A, B], [make_link("a", "b"), make_link("b", "a", 7)], "link a~b is there twice"),
        ([A, B], [make_link("a", "b", -1)], "link a~b has weight -1"),
        ([A, B], [make_link("a", "b", WEIGHT_MAX + 1)], "link a~b has weight"),
        ([A, B], [make_link("a", "b", limits=LinkLimits(bits_per_second=-1))], "negative limit"),
    ],
)
def test_what_is_wrong_is_said_in_words(sites: list[Site], links: list[Link], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_topology(sites, links)


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(InputError, match=r"no daemon.*ends where it begins"):
        make_topology([make_site("a", [])], [make_link("a", "a")])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Topology((B, A), ()), "sites are not sorted"),
        (Topology((Site("a", ("a2", "a1"), "a1"),), ()), "the daemons of site 'a' are not sorted"),
        (Topology((A, B), (Link("b", "a"),)), "the ends of link b~a are not sorted"),
        (Topology((A, B, *sites_named("c")), (Link("b", "c"), Link("a", "b"))), "links are not sorted"),
    ],
)
def test_another_form_from_a_peer_is_a_problem(value: Topology, words: str) -> None:
    assert topology_problems(value) == [words]


def test_a_link_has_one_name_and_two_ends() -> None:
    link = make_link("y", "x", 4, LinkProtocol.TCP, LinkLimits(1_500_000, 64_000))
    assert (link.name, link.other("x"), link.other("y")) == ("x~y", "y", "x")


def links_down(routes: Routes, source: str) -> list[Link]:
    return [routes.link(site, child) for site, below in routes.tree(source).children.items() for child in below]


def test_fanout_sends_directly_and_a_shared_tree_uses_its_links_alone() -> None:
    """Reference: [Spread 4.4, Figure 4.3 and Table 4.1]: the same links under two weightings."""
    value = topology("ab10 ac20 ad40 bc10 bd30 cd10")
    direct = Routes(fanout(value))
    assert direct.children("a", "a") == ("b", "c", "d")
    tree = Routes(shared_tree(value))
    for source in "abcd":
        used = {link.name for link in links_down(tree, source)}
        assert used == {"a~b", "b~c", "c~d"}


@given(topologies())
def test_a_shared_tree_reaches_all_that_could_be_reached_over_one_set_of_links(value: Topology) -> None:
    before, after = Routes(value), Routes(shared_tree(value))
    assert after.components() == before.components()
    names = [site.name for site in value.sites]
    used = {link.name for source in names for link in links_down(after, source)}
    assert len(used) == len(names) - len(before.components())
