"""Obsolete views [Spread 2.3.3]: of two changes that cascade, the first is a view of its own or is passed over.

b and c form a daemon view, slowly, and before they have installed it a, whose id is smaller, reaches both.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.membership import InterimViews, MembershipSettings
from isotone.evs.stack import StackSettings
from isotone.sim.full_cluster import CALM, FullCluster
from isotone.sim.links import LinkSettings
from isotone.spec.check import State, check
from isotone.trace.events import DaemonViewDelivered

SITES = {"a": "x", "b": "y", "c": "z"}
CLIENTS = {"a": "alice", "b": "bob", "c": "carol"}
SLOW, SLOWER = LinkSettings(latency_us=50_000), LinkSettings(latency_us=400_000)
INTERIM = ("2!b#1", ("b#1", "c#1"))
ALL = ("a#1", "b#1", "c#1")


def cascade(interim_views: InterimViews) -> FullCluster:
    """The same plan, whatever the setting."""
    membership = MembershipSettings(interim_views=interim_views)
    cluster = FullCluster(*SITES, sites=SITES, settings=StackSettings(pruning=False, membership=membership))
    set_between_b_and_c(cluster, SLOW)
    for node, client in CLIENTS.items():
        cluster.join(node, client, "chat")
    cluster.partition("a", "b", "c")
    assert cluster.run_until_quiet()
    talk(cluster, "before")
    cluster.partition("a", "bc")
    assert cluster.run_until_state("b", "STATETRANS")
    assert str(cluster.stack("b").membership.node.accepted) == INTERIM[0], "the first change is under way"
    set_between_b_and_c(cluster, SLOWER)
    cluster.heal()
    talk(cluster, "during")
    cluster.run_for(3_000)
    set_between_b_and_c(cluster, CALM.wan)  # else something is always under way, and it is never quiet
    assert cluster.finish()
    return cluster


def set_between_b_and_c(cluster: FullCluster, settings: LinkSettings) -> None:
    cluster.link("b", "c", settings)
    cluster.link("c", "b", settings)


def talk(cluster: FullCluster, word: str) -> None:
    for node, client in CLIENTS.items():
        for service in (Service.RELIABLE, Service.AGREED, Service.SAFE):
            cluster.send(node, client, "chat", f"{node} {word} {service.name}", service=service)


def views_of(cluster: FullCluster) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """The daemon views that each daemon installed, behind its first one."""
    views: dict[str, list[tuple[str, tuple[str, ...]]]] = {name: [] for name in SITES}
    for row in cluster.rows:
        if isinstance(row.entry, DaemonViewDelivered):
            views[row.node].append((str(row.entry.view), row.entry.members))
    return {name: found[1:] for name, found in views.items()}


def is_safe(cluster: FullCluster) -> None:
    report = check(cluster.rows)
    assert not report.violations
    assert report.verdicts["EVS-2.3"].state is State.HOLDS
    for node, client in CLIENTS.items():
        heard = cluster.messages(node, client)
        assert {f"{node} {word} {name}".encode() for word in ("before", "during") for name in ("AGREED", "SAFE")} <= {
            *heard
        }


def test_skip_passes_over_the_view_that_a_larger_one_makes_obsolete() -> None:
    cluster = cascade(InterimViews.SKIP)
    views = views_of(cluster)
    assert [[members for _, members in views[name]] for name in SITES] == [[ALL]] * 3
    is_safe(cluster)


def test_deliver_installs_it_first() -> None:
    cluster = cascade(InterimViews.DELIVER)
    views = views_of(cluster)
    assert views["b"][0] == views["c"][0] == INTERIM
    assert INTERIM not in views["a"]
    assert {views[name][-1] for name in SITES} == {views["a"][-1]} and views["a"][-1][1] == ALL
    is_safe(cluster)


def test_skip_is_what_nobody_need_set() -> None:
    assert MembershipSettings().interim_views is InterimViews.SKIP
