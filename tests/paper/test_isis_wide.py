"""[ISIS 4.6], rule by rule: clusters joined into a wide-area network, played by hand."""

from __future__ import annotations

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings, check_sites
from tests.paper.isis_cluster import A, C, G
from tests.paper.isis_wide import CLUSTERS, SITES, WideCluster


def group(cluster: WideCluster, name: str, *sites: str) -> None:
    """Another group, with a process of each of these sites."""
    for site in sites:
        cluster.ask(site, e.JoinWanted(0, "p", name))
        cluster.run()
    cluster.carried.clear()


def to(cluster: WideCluster, name: str, site: str, primitive: e.Primitive, body: bytes) -> None:
    cluster.ask(site, e.BroadcastWanted(0, "p", name, primitive, body))


def went(cluster: WideCluster, *kinds: type) -> list[tuple[str, str]]:
    """From where to where frames of these kinds were carried, in their order."""
    return [(source, target) for source, target, body in cluster.carried if isinstance(body, kinds)]


def test_4_6_groups_extend_over_clusters_and_site_views_do_not() -> None:
    cluster = WideCluster()
    for number, primitive in enumerate((A, C, G, A)):
        cluster.cast(SITES[number], primitive, b"%d" % number)
        cluster.run()
    assert all(cluster.bodies(site) == [b"0", b"1", b"2", b"3"] for site in SITES)
    assert cluster.lives["a.1"].site.view.members == ("a.1", "b.1")
    assert cluster.lives["a.1"].site.groups["g"].members == tuple(f"{site}/p" for site in SITES)


def test_4_6_the_failure_of_an_external_process_is_learnt_from_its_cluster() -> None:
    cluster = WideCluster(("a.1", "c.1"))
    cluster.cut = {("c.1", "a.1")}
    cluster.cast("a.1", C, b"question", call=True, token=7)
    cluster.run()
    cluster.fail_in(1, "c.1", told=False)
    assert not any(isinstance(each, e.AnswerHeard) for each in cluster.heard["a.1"])
    cluster.tell_others(1)
    assert e.AnswerHeard(7, "c.1/p", b"", failed=True) in cluster.heard["a.1"]
    assert cluster.story("a.1")[-1] == ("c.1/p",)


@pytest.mark.parametrize("primitive", [A, C, G])
def test_4_6_local_destinations_have_it_before_it_goes_to_another_cluster(primitive: e.Primitive) -> None:
    cluster = WideCluster()
    cluster.cut = {("b.1", "a.1")}  # b has it and cannot say so
    cluster.cast("a.1", primitive, b"x")
    cluster.run()
    kinds = (w.AbcastStart, w.Packet, w.GbcastStart)
    assert went(cluster, *kinds) == [("a.1", "b.1")]
    cluster.mend()
    assert set(went(cluster, *kinds)[1:]) >= {("a.1", "c.1"), ("a.1", "d.1"), ("a.1", "e.1")}
    assert all(cluster.bodies(site) == [b"x"] for site in SITES)


def test_4_6_a_cbcast_goes_directly_to_external_destinations_and_takes_nothing_along() -> None:
    """x is for a and b; y for a and c waits until x is there, and goes alone."""
    cluster = WideCluster(("a.1", "c.1"))
    group(cluster, "h", "a.1", "b.1")
    cluster.cut = {("b.1", "a.1")}
    to(cluster, "h", "a.1", C, b"x")
    to(cluster, "g", "a.1", C, b"y")
    cluster.run()
    assert cluster.bodies("b.1") == [b"x"] and cluster.bodies("c.1") == []
    cluster.mend()
    (packet,) = [body for target, body in cluster.sent(w.Packet) if target == "c.1"]
    assert [each.body for each in packet.messages] == [b"y"]  # type: ignore[attr-defined]
    assert cluster.bodies("c.1") == [b"y"]


def test_4_6_transmission_keeps_the_order_of_what_precedes_along_a_way_through_other_clusters() -> None:
    """x goes to b and c; b says y to d, and d says z to c, which must have x by then: y waits for that."""
    cluster = WideCluster(("a.1", "b.1", "c.1"))
    group(cluster, "h", "c.1", "d.1")
    group(cluster, "k", "b.1", "d.1")
    cluster.cut = {("a.1", "c.1"), ("b.1", "c.1")}
    to(cluster, "g", "a.1", C, b"x")
    cluster.run()
    to(cluster, "k", "b.1", C, b"y")
    cluster.run()
    assert cluster.bodies("b.1") == [b"x", b"y"] and cluster.bodies("d.1") == []
    cluster.cut = {("a.1", "c.1")}
    cluster.run()
    to(cluster, "h", "d.1", C, b"z")
    cluster.run()
    assert cluster.bodies("c.1") == [b"x", b"z"] and cluster.bodies("d.1") == [b"y", b"z"]


@pytest.mark.parametrize("primitive", [A, G])
def test_4_6_the_new_coordinator_is_in_the_cluster_of_the_first(primitive: e.Primitive) -> None:
    """c fails; a is the oldest of all destinations, and d takes over."""
    cluster = WideCluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("c.1", primitive, b"x")
    cluster.run()
    cluster.carried.clear()
    cluster.fail_in(1, "c.1")
    starts = [body for _, body in cluster.sent(w.AbcastStart) + cluster.sent(w.GbcastStart) if body.body == b"x"]  # type: ignore[attr-defined]
    assert starts and not [body for _, body in cluster.sent(type(starts[0]), "a.1") if body == starts[0]]
    assert all(cluster.story(site) == [b"x", ("c.1/p",)] for site in ("a.1", "b.1", "d.1", "e.1"))


def test_4_6_where_no_local_participant_is_left_another_cluster_takes_over() -> None:
    cluster = WideCluster(("a.1", "c.1", "d.1", "e.1"))
    cluster.cut = {("d.1", "a.1")}
    cluster.cast("a.1", A, b"x")
    cluster.run()
    cluster.fail_in(0, "a.1")
    assert all(cluster.story(site) == [b"x", ("a.1/p",)] for site in ("c.1", "d.1", "e.1"))


def test_4_6_the_failure_gbcast_of_a_group_in_one_cluster_waits_for_no_other() -> None:
    cluster = WideCluster(("c.1", "d.1", "e.1"))
    cluster.apart()
    cluster.fail_in(1, "e.1", told=False)
    assert cluster.story("c.1") == cluster.story("d.1") == [("e.1/p",)]


def test_4_6_that_of_a_group_in_several_waits_until_all_have_flushed() -> None:
    """c and d have x of b, and e has it not, when all of the first cluster fail: e has it before their failure."""
    cluster = WideCluster(("a.1", "b.1", "c.1", "e.1"))
    cluster.cut = {("b.1", "e.1"), ("c.1", "e.1")}
    cluster.cast("b.1", C, b"x")
    cluster.run()
    assert cluster.bodies("c.1") == [b"x"] and cluster.bodies("e.1") == []
    cluster.fail_in(0, "a.1", "b.1")
    assert not any(isinstance(each, e.DeliverView) and each.failed for each in cluster.heard["c.1"])
    cluster.mend()
    for site in ("c.1", "e.1"):
        assert cluster.story(site) == [b"x", ("a.1/p", "b.1/p")]


def test_4_6_a_message_waits_until_its_receiver_knows_the_site_views_of_its_sender() -> None:
    """D-hold: d has taken over for c; what c still had under way to a comes too late."""
    cluster = WideCluster()
    cluster.fail_in(1, "c.1", told=False)
    cluster.cast("d.1", C, b"x")
    cluster.run()
    assert cluster.bodies("e.1") == [b"x"] and cluster.bodies("a.1") == []
    cluster.tell_others(1)
    assert b"x" in cluster.bodies("a.1")


def test_4_6_garbage_collection_within_a_cluster_goes_on_while_others_cannot_answer() -> None:
    """D-wide-garbage: what went to other clusters is kept until its destinations there answer."""
    cluster = WideCluster()
    group(cluster, "h", "a.1", "b.1")
    cluster.cut = {("c.1", "a.1")}
    cluster.cast("b.1", C, b"wide")
    to(cluster, "h", "a.1", C, b"local")
    cluster.run()
    cluster.apart()
    for _ in range(3):
        cluster.collect()
    kept = [each.message.body for each in cluster.lives["a.1"].cbcasts.buffer.values()]
    assert kept == [b"wide"]
    cluster.mend()
    for _ in range(3):
        cluster.collect()
    assert not any(life.site.store or life.cbcasts.buffer for life in cluster.lives.values())


def test_4_6_a_group_is_first_joined_when_the_register_has_heard_of_every_cluster() -> None:
    a = Life(IsisSettings("a", CLUSTERS[0], clusters=CLUSTERS), "a.1")
    a.enter_view(w.SiteView(1, ("a.1",), (("a", 1),)))
    a.ask(e.JoinWanted(0, "p", "g"))
    a.settle(transmit=True)
    assert "g" not in a.site.groups
    a.learn(1, w.SiteView(1, (), ()))
    a.settle(transmit=True)
    assert a.site.groups["g"].members == ("a.1/p",)


def test_the_sites_of_a_site_are_one_of_the_clusters() -> None:
    with pytest.raises(LocalProtocolError, match="one of them"):
        check_sites(IsisSettings("a", ("a", "b", "c"), clusters=CLUSTERS))
    check_sites(IsisSettings("a", ("a", "b"), clusters=CLUSTERS))
