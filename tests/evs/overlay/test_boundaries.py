"""The exact limits of topologies, trees and the choice of gateways."""

from __future__ import annotations

import pytest

from isotone.core.errors import InputError
from isotone.evs.overlay.gateways import choose_gateways, gateway_of, reach_each_other
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import (
    SITE_NAME_MAX,
    WEIGHT_MAX,
    Link,
    LinkLimits,
    Site,
    Topology,
    fanout,
    make_link,
    make_site,
    make_topology,
    shared_tree,
    topology_problems,
)

A, B, C = (make_site(name, [f"{name}1", f"{name}2"]) for name in "abc")


def problems(*sites: Site, links: tuple[Link, ...] = ()) -> list[str]:
    return topology_problems(Topology(sites, links))


def test_weights_and_names_up_to_their_limits_are_fine() -> None:
    longest = "x" * SITE_NAME_MAX
    assert problems(Site("$~", ("d",), "d"), Site(longest, ("e",), "e")) == []
    for bad in ("", longest + "x", "a b", "#", "\x7f"):
        assert any("site name" in each for each in problems(Site(bad, ("d",), "d"))), bad
    for weight, fine in ((0, True), (WEIGHT_MAX, True), (-1, False), (WEIGHT_MAX + 1, False)):
        assert (problems(A, B, links=(Link("a", "b", weight),)) == []) is fine
    for limits, fine in ((LinkLimits(0, 0), True), (LinkLimits(-1, 0), False), (LinkLimits(0, -1), False)):
        assert (problems(A, B, links=(Link("a", "b", 1, limits=limits),)) == []) is fine


def test_everything_that_is_wrong_is_said() -> None:
    assert problems(B, A) == ["sites are not sorted"]
    assert problems(A, Site("b", ("a1",), "a1")) == ["daemon 'a1' is there twice"]
    assert problems(A, A) == ["site 'a' is there twice", "daemon 'a1' is there twice", "daemon 'a2' is there twice"]
    assert problems(Site("a", ("a2", "a1"), "a1")) == ["the daemons of site 'a' are not sorted"]
    assert problems(Site("a", (), "")) == ["site 'a' has no daemon"]
    assert problems(Site("a", ("a1",), "x")) == ["the gateway 'x' of site 'a' is none of its daemons"]
    assert problems(A, B, links=(Link("b", "a"),)) == ["the ends of link b~a are not sorted"]
    assert problems(A, B, links=(Link("a", "b"), Link("a", "b"))) == ["link a~b is there twice"]
    assert problems(A, links=(Link("a", "a"),)) == ["link a~a ends where it begins"]
    assert problems(A, links=(Link("a", "z"),)) == ["link a~z ends at 'z', which is no site"]
    assert problems(A, B, C, links=(Link("b", "c"), Link("a", "b"))) == ["links are not sorted"]
    with pytest.raises(InputError, match="no daemon; site 'b' has no daemon"):
        make_topology([Site("a", (), ""), Site("b", (), "")], [])


def test_one_form_whatever_the_order() -> None:
    made = make_topology([B, A], [make_link("b", "a", 3)])
    assert made == make_topology([A, B], [make_link("a", "b", 3)]) and made.site("b") == B
    assert made.links[0].other("a") == "b" and made.links[0].other("b") == "a" and made.links[0].name == "a~b"
    assert make_site("x", ["d2", "d1"]).gateway == "d1" and make_site("x", ["d1"], "d1").gateway == "d1"


RING = make_topology([A, B, C], [make_link("a", "b", 2), make_link("b", "c", 2), make_link("a", "c", 5)])


def test_trees_take_the_least_weight_then_the_fewest_links_then_the_smallest_parent() -> None:
    routes = Routes(RING)
    assert routes.tree("a").distance == {"a": 0, "b": 2, "c": 4} and routes.parent("a", "c") == "b"
    assert routes.children("a", "a") == ("b",) and routes.children("a", "b") == ("c",)
    assert routes.below("a", "b") == ("b", "c") and routes.below("a", "a") == ("a", "b", "c")
    assert [link.name for link in routes.links_used("a")] == ["a~b"]
    equal = Routes(RING.with_weights([2, 4, 2]))
    assert equal.parent("a", "c") == "a", "four is four, but over one link"
    assert routes.link("b", "a").name == "a~b"


def test_sites_that_are_cut_off_are_known() -> None:
    routes = Routes(make_topology([A, B, C], [make_link("a", "b")]))
    assert routes.components() == (("a", "b"), ("c",))
    assert routes.unreachable("a") == ("c",) and routes.unreachable("c") == ("a", "b")
    assert routes.parent("a", "c") is None and routes.children("a", "c") == () and routes.below("a", "c") == ()


def test_fanout_and_one_tree_for_all() -> None:
    assert [link.weight for link in fanout(RING).links] == [1, 1, 1]
    assert {link.name: link.weight for link in shared_tree(RING).links} == {"a~b": 1, "a~c": 3, "b~c": 1}


def test_a_gateway_reaches_the_most_sites_and_stays_among_equals() -> None:
    everybody = {name: {"a1", "a2", "b1", "b2", "c1", "c2"} for name in ("a1", "a2", "b1", "b2", "c1", "c2")}
    assert reach_each_other({"x": {"y"}, "y": {"x"}}, "x", "y") and not reach_each_other({"x": {"y"}}, "x", "y")
    assert gateway_of(A, [A, B, C], everybody) == "a1"
    assert gateway_of(make_site("a", ["a1", "a2"], "a2"), [A, B, C], everybody) == "a2", "it is so at present"
    deaf = {**everybody, "a1": {"b1", "b2"}}
    assert gateway_of(A, [A, B, C], deaf) == "a2"
    only_second = {name: {"a2", "b2", "c2"} if name.endswith("2") else set() for name in everybody}
    assert [site.gateway for site in choose_gateways([C, A, B], only_second)] == ["a2", "b2", "c2"]
