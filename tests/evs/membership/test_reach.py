"""Maximal sets without cut pairs, and overlays that hold together."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from isotone.core.ids import DaemonId
from isotone.core.versions import VersionRange
from isotone.evs.membership.reach import maximal_set, may_be_together, pair, plan_topology
from isotone.evs.membership.settings import LinkPlan, SiteGateways
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import LinkProtocol

NAMES = "abcdefgh"
PAIRS = list(combinations(NAMES, 2))
ALONE = {name: name for name in NAMES}


def daemons(names: str) -> list[DaemonId]:
    return [DaemonId(name, 1) for name in names]


def chosen(
    names: str, cuts: set[tuple[str, str]], ranges: dict[str, VersionRange] | None = None, sites: dict[str, str] = ALONE
) -> str:
    found = maximal_set(
        daemons(names),
        is_cut=lambda one, other: pair(one, other) in cuts,
        versions=lambda name: (ranges or {}).get(name, VersionRange(1, 1)),
        site_of=lambda name: sites[name],
    )
    return "".join(each.name for each in found)


def test_without_cuts_everybody_is_taken() -> None:
    assert chosen("cab", set()) == "abc"


def test_the_first_in_the_order_stay() -> None:
    assert chosen("adbc", {("b", "d"), ("c", "d")}) == "ad"
    assert chosen("abcd", {("b", "d"), ("c", "d")}) == "abc"


def test_versions_must_have_one_in_common_with_all() -> None:
    ranges = {"a": VersionRange(1, 2), "b": VersionRange(2, 3), "c": VersionRange(1, 1)}
    assert chosen("abc", set(), ranges) == "ab"


@given(st.sets(st.sampled_from(PAIRS)))
def test_the_set_has_no_cut_pair_and_nobody_could_be_added(cuts: set[tuple[str, str]]) -> None:
    found = chosen(NAMES, cuts)
    assert found[0] == "a"
    assert not any(pair(one, other) in cuts for one, other in combinations(found, 2))
    for name in set(NAMES) - set(found):
        assert any(pair(name, other) in cuts for other in found)


def test_a_site_comes_in_through_one_who_is_looked_at_later() -> None:
    sites = {"a": "s", "b": "s", "c": "t", "d": "t"}
    cuts = {("a", "c"), ("a", "d"), ("b", "c")}
    assert chosen("abcd", cuts, sites=sites) == "abcd"  # c comes in behind d, who reaches b
    assert chosen("abcd", {*cuts, ("b", "d")}, sites=sites) == "ab"
    assert chosen("abcd", {*cuts, ("c", "d")}, sites=sites) == "abd"


def test_a_site_has_one_gateway_for_all_others() -> None:
    sites = {"a": "s", "b": "s", "c": "t", "d": "u"}
    assert chosen("abcd", {("a", "d"), ("b", "c")}, sites=sites) == "abc"


@given(st.sets(st.sampled_from(PAIRS)), st.lists(st.sampled_from("stu"), min_size=8, max_size=8))
def test_sites_are_linked_and_nobody_could_be_added(cuts: set[tuple[str, str]], homes: list[str]) -> None:
    sites = dict(zip(NAMES, homes))
    found = chosen(NAMES, cuts, sites=sites)

    def is_cut(one: str, other: str) -> bool:
        return pair(one, other) in cuts

    def fits(names: str) -> bool:
        near = [(one, other) for one, other in combinations(names, 2) if sites[one] == sites[other]]
        return not any(is_cut(*each) for each in near) and may_be_together(
            {each: sites[each] for each in names}, is_cut
        )

    assert fits(found)
    assert not any(fits("".join(sorted(found + name))) for name in set(NAMES) - set(found))


def test_only_who_is_named_is_a_gateway() -> None:
    sites, named = {"a": "s", "b": "s", "c": "t"}, (SiteGateways("s", ("b",)),)
    assert may_be_together(sites, lambda one, other: False, named)
    assert not may_be_together(sites, lambda one, other: (one, other) == ("b", "c"), named)
    assert not may_be_together({"a": "s", "c": "t"}, lambda one, other: False, named)
    assert plan_topology(sites, (), distance=nowhere, gateways=named).site("s").gateway == "b"


def nowhere(one: str, other: str) -> int | None:
    del one, other
    return None


def test_without_a_plan_all_sites_are_linked_by_measured_weights() -> None:
    topology = plan_topology(
        {"a": "s", "b": "t", "c": "u"}, (), distance=lambda one, other: {"st": 3_000}.get(one + other)
    )
    assert [(link.name, link.weight) for link in topology.links] == [("s~t", 30), ("s~u", 1), ("t~u", 1)]


def test_a_plan_counts_for_the_sites_that_are_there_and_is_bridged_where_others_are_missing() -> None:
    plans = (
        LinkPlan(a="s", b="t", weight=7, protocol=LinkProtocol.TCP),
        LinkPlan(a="t", b="u"),
    )
    whole = plan_topology({"a": "s", "b": "t", "c": "u"}, plans, distance=nowhere)
    assert [(link.name, link.weight, link.protocol.value) for link in whole.links] == [
        ("s~t", 7, "tcp"),
        ("t~u", 1, "hop"),
    ]
    bridged = plan_topology({"a": "s", "c": "u"}, plans, distance=nowhere)
    assert [link.name for link in bridged.links] == ["s~u"]


@given(
    st.lists(st.sampled_from("stuvw"), min_size=1, max_size=8), st.sets(st.sampled_from(list(combinations("stuvw", 2))))
)
def test_every_site_reaches_every_other(homes: list[str], planned: set[tuple[str, str]]) -> None:
    sites = dict(zip(NAMES, homes))
    plans = tuple(LinkPlan(a=a, b=b) for a, b in sorted(planned))
    routes = Routes(plan_topology(sites, plans, distance=nowhere))
    assert all(not routes.tree(home).unreachable for home in homes)


def test_gateways_whose_link_failed_are_avoided() -> None:
    sites = {"a": "s", "b": "s", "c": "t", "d": "t"}
    assert [site.gateway for site in plan_topology(sites, (), distance=nowhere).sites] == ["a", "c"]
    other = plan_topology(sites, (), distance=nowhere, avoided=[("a", "c")])
    assert {site.gateway for site in other.sites} != {"a", "c"}
