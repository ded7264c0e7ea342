"""What links counted is in the record: while packets flow, when a daemon view ends, and never twice the same."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from isotone.core.services import Service
from isotone.evs.links.contract import LinkCounters
from isotone.evs.membership import MembershipSettings
from isotone.evs.membership.settings import PATIENT_RING
from isotone.evs.transport.settings import TransportSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.trace.events import LinkCounted
from tests.evs.membership.cluster import SECOND, Cluster

LOSSY = NetworkSettings(
    lan=LinkSettings(jitter_us=20, loss=0.05), wan=LinkSettings(latency_us=10_000, jitter_us=500, loss=0.05)
)


def told(cluster: Cluster, name: str) -> list[LinkCounted]:
    return [row.entry for row in cluster.rows if row.node == name and isinstance(row.entry, LinkCounted)]


def last(cluster: Cluster, name: str) -> dict[tuple[str, str], LinkCounted]:
    return {(entry.network, entry.link): entry for entry in told(cluster, name)}


def counts(entry: LinkCounted) -> tuple[int, ...]:
    return (entry.packets_sent, entry.packets_received, entry.packets_resent, entry.bytes_sent, entry.bytes_received)


def counters_of(counters: LinkCounters) -> tuple[int, ...]:
    return (
        counters.packets_sent,
        counters.packets_received,
        counters.packets_resent,
        counters.bytes_sent,
        counters.bytes_received,
    )


def talk(cluster: Cluster, turns: int = 100) -> None:
    for _ in range(turns):
        for name in cluster.names:
            cluster.talk(name, Service.AGREED, 500)
        cluster.world.run_for(5_000)


def test_all_that_links_counted_is_told_soon_after_they_rest() -> None:
    cluster = Cluster("ab c", network=LOSSY)
    cluster.run_until_together()
    talk(cluster)
    cluster.world.run_for(3 * SECOND)
    for name in cluster.names:
        network = cluster.membership(name).node.network
        assert network is not None
        found = last(cluster, name)
        ring = network.transport.ring.counters
        if name in "ab":
            entry = found[str(network.id), "ab"]
            assert counts(entry) == counters_of(ring)
            assert (entry.protocol, entry.to) == ("ring", ("b" if name == "a" else "a",))
        if name in "ac":
            assert network.transport.gateway is not None
            (trunk,) = network.transport.gateway.trunks
            entry = found[str(network.id), trunk.name]
            assert counts(entry) == counters_of(trunk.link.counters)
            assert (entry.protocol, entry.to) == ("hop", ("c" if name == "a" else "a",))
    entries = [entry for name in cluster.names for entry in last(cluster, name).values()]
    assert all(entry.packets_resent < entry.packets_sent for entry in entries)
    assert {entry.protocol for entry in entries if entry.packets_resent} == {"ring", "hop"}


def test_what_all_send_on_a_ring_without_losses_is_what_all_receive() -> None:
    """Copies, tokens and headers are counted alike at both ends; a multicast is one packet that two receive."""
    ring = msgspec.structs.replace(PATIENT_RING, multicast=False)
    cluster = Cluster("abc", settings=MembershipSettings(transport=TransportSettings(ring=ring)))
    cluster.run_until_together()
    talk(cluster)
    cluster.world.run_for(3 * SECOND)
    network = cluster.membership("a").node.network
    assert network is not None
    entries = [last(cluster, name)[str(network.id), "abc"] for name in cluster.names]
    assert sum(entry.packets_sent for entry in entries) == sum(entry.packets_received for entry in entries) > 300
    assert sum(entry.bytes_sent for entry in entries) == sum(entry.bytes_received for entry in entries)
    assert all(entry.packets_resent == 0 for entry in entries)


def test_it_is_told_at_most_once_in_a_second_and_only_what_changed() -> None:
    cluster = Cluster("ab")
    cluster.run_until_together()
    talk(cluster, turns=1000)  # five seconds
    cluster.world.run_for(20 * SECOND)
    entries = told(cluster, "a")
    assert 5 <= len(entries) <= 8
    assert [counts(one) < counts(other) for one, other in pairwise(entries)] == [True] * (len(entries) - 1)


def test_the_end_of_a_daemon_view_tells_the_rest() -> None:
    cluster = Cluster("ab")
    cluster.run_until_together()
    talk(cluster, turns=3)
    network = cluster.membership("a").node.network
    assert network is not None
    cluster.world.crash("b")
    cluster.run_until_together("a")
    assert counts(last(cluster, "a")[str(network.id), "ab"]) == counters_of(network.transport.ring.counters)


def test_who_does_not_want_it_gets_nothing() -> None:
    for settings in (MembershipSettings(count_us=0), MembershipSettings(record=False)):
        cluster = Cluster("ab", settings=settings)
        cluster.run_until_together()
        talk(cluster)
        cluster.world.run_for(3 * SECOND)
        assert told(cluster, "a") == []
