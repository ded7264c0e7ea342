"""The composition of links, overlay and ordering: everything reaches everyone, idle is silent, bounds hold."""

from __future__ import annotations

import pytest

from isotone.core.contract import Address, DatagramsReceived, SetTimer
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.ring import RingSettings
from isotone.evs.ordering.large import Joining, drafts_of
from isotone.evs.ordering.stamper import UNIT_OVERHEAD_BYTES, Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol
from isotone.evs.transport import DeliverUnits, Submitted, TransportSettings
from isotone.evs.transport.settings import UNIT_BYTES_MAX
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.trace.events import LinkFailed, NetworkReceived
from tests.evs.transport.cluster import SECOND, Cluster

SERVICES = list(Service)
SHAPES = [("a", ""), ("abc", ""), ("a b", "a-b"), ("ab cd e", "a-c c-e"), ("a b c d", "a-b a-c a-d b-c")]


@pytest.mark.parametrize("protocol", list(LinkProtocol))
@pytest.mark.parametrize(("sites", "links"), SHAPES)
def test_every_service_reaches_everyone_and_then_all_is_silent(sites: str, links: str, protocol: LinkProtocol) -> None:
    cluster = Cluster(sites, links, protocol=protocol)
    for turn in range(3):
        for name in cluster.names:
            for service in SERVICES:
                cluster.send(name, service, 0, 10 + turn, 3_000)
        cluster.world.run_for(turn * 50_000)
    assert cluster.run(), "idle is silent"
    assert cluster.violations() == {} and cluster.failed() == {}
    for name in cluster.names:
        assert len([unit for unit in cluster.speaker(name).heard if unit.service.is_reliable]) == 15 * len(
            cluster.names
        )
        assert cluster.transport(name).delivery.kept_bytes == 0, "everybody learns in the end that all is stable"


def test_all_agree_on_one_order() -> None:
    cluster = Cluster("ab cd", "a-c")
    for _ in range(20):
        for name in cluster.names:
            cluster.send(name, Service.AGREED)
        cluster.world.run_for(3_000)
    assert cluster.run()
    heard = [cluster.heard(name) for name in cluster.names]
    assert len(heard[0]) == 80 and all(each == heard[0] for each in heard)


def test_units_are_forwarded_although_earlier_ones_are_missing() -> None:
    """Reference: [Spread 4.3], non-blocking: what is lost on one link holds up nothing that follows it."""
    cluster = Cluster("a b c", "a-b b-c")
    cluster.send("a", Service.RELIABLE)
    cluster.run()
    cluster.world.cut("a", "b", one_way=True)
    cluster.send("a", Service.RELIABLE)
    cluster.world.run_for(1)
    cluster.world.mend("a", "b", one_way=True)
    cluster.send("a", Service.RELIABLE)
    cluster.world.run_for(25_000)
    assert [sequence for _, sequence in cluster.heard("c")] == [1, 3], "the third overtook the lost second"
    cluster.run()
    assert [sequence for _, sequence in cluster.heard("c")] == [1, 3, 2]


def test_a_dead_link_is_declared_and_ends_everything_at_that_daemon() -> None:
    """Reference: [Spread 2.23]."""
    cluster = Cluster("a b", "a-b")
    cluster.send("a", Service.AGREED)
    cluster.run()
    cluster.world.cut("a", "b")
    cluster.send("a", Service.AGREED)
    assert cluster.run(), "the link fails in bounded time"
    assert list(cluster.failed()) == ["a"] and "a~b" in cluster.failed()["a"]
    failed = next(row for row in cluster.rows if isinstance(row.entry, LinkFailed))
    assert not [
        row for row in cluster.rows if row.node == "a" and row.index > failed.index and row.entry != failed.entry
    ]
    cluster.send("a", Service.RELIABLE)
    assert cluster.violations() == {}


def test_a_dead_member_fails_the_ring_for_who_waits() -> None:
    cluster = Cluster("abc", settings=TransportSettings(record_network=True))
    cluster.send("a", Service.SAFE)
    cluster.run()
    cluster.world.pause("a")
    cluster.send("b", Service.AGREED)
    cluster.world.run_for(RingSettings().wait_bound_us() + SECOND)
    assert "did not come" in cluster.failed()["b"]
    assert cluster.violations() == {}


def test_strangers_and_foreign_frames_are_refused() -> None:
    cluster = Cluster("a b", "a-b")
    transport = cluster.transport("a")
    with pytest.raises(RemoteProtocolError):
        transport.handle(DatagramsReceived(0, Address("nobody.1"), b"hello", 5))


def test_a_draft_that_fits_into_no_unit_is_refused_at_the_sender() -> None:
    cluster = Cluster("a")
    draft = Draft("s", UnitKind.BUNDLE, Service.AGREED, bytes(UNIT_BYTES_MAX + 1))
    with pytest.raises(LocalProtocolError, match="fragments"):
        cluster.transport("a").handle(Submitted(0, [draft]))


def test_each_unit_is_received_once_by_everyone() -> None:
    """Reference: [Spread 2.22]. A source's tree gives each site one parent, so nothing comes twice."""
    cluster = Cluster("a b c d", "a-b b-c c-d d-a a-c")
    for name in cluster.names:
        cluster.send(name, Service.RELIABLE)
    cluster.run()
    assert sum(isinstance(row.entry, NetworkReceived) for row in cluster.rows) == 16


# --- sizes ---------------------------------------------------------------------------------------------------------


def test_empty_messages_and_ten_thousand_of_one_byte_arrive() -> None:
    cluster = Cluster("ab c", "a-c")
    cluster.send("a", Service.AGREED, 0)
    for _ in range(10):
        cluster.send("b", Service.AGREED, *[1] * 1_000)
    assert cluster.run()
    assert cluster.violations() == {}
    assert len(cluster.speaker("c").heard) == 11


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_sixteen_mebibytes_arrive_as_fragments(protocol: LinkProtocol) -> None:
    message = bytes(range(256)) * 64 * 1024
    cluster = Cluster("a b", "a-b", settings=TransportSettings(), protocol=protocol)
    heard: list[Unit] = []
    joining = Joining(2)
    cluster.speaker("b")._told = lambda actions, at: _keep(actions, joining, heard)  # type: ignore[method-assign]
    cluster.speaker("a")._told = lambda actions, at: _keep(actions, Joining(2), [])  # type: ignore[method-assign]
    drafts = drafts_of(Draft("bulk", UnitKind.BUNDLE, Service.AGREED, message), number=1)
    assert len(drafts) > 256 and cluster.transport("a").room > 0
    cluster.world.tell("a", "speaker", Submitted(0, drafts))
    assert cluster.run(300)
    assert [(unit.kind, bytes(unit.body) == message) for unit in heard] == [(UnitKind.BUNDLE, True)]
    assert cluster.transport("b").delivery.kept_bytes == joining.held_bytes == 0


def _keep(actions: list, joining: Joining, heard: list[Unit]) -> list:  # type: ignore[type-arg]
    for action in actions:
        if isinstance(action, DeliverUnits):
            heard += joining.join(action.units)
    return [action for action in actions if not isinstance(action, DeliverUnits)]


# --- bounds --------------------------------------------------------------------------------------------------------


def test_memory_stays_bounded_behind_a_slow_but_live_site() -> None:
    """A window of a site is all that it may have unstable, however slow the slowest site is."""
    settings = TransportSettings(site_window_bytes=100_000)
    cluster = Cluster("a b c", "a-b b-c", settings=settings)
    cluster.world.network.link("b", "c").change(LinkSettings(latency_us=10_000, bandwidth_bytes_per_second=50_000))
    kept = 0
    for _ in range(400):
        for name in "ab":
            cluster.send(name, Service.RELIABLE, 2_000)
        cluster.world.run_for(5_000)
        kept = max(kept, *(cluster.transport(name).delivery.kept_bytes for name in "abc"))
        gateway = cluster.transport("b").gateway
        assert gateway is not None
        assert all(trunk.waiting_bytes <= settings.kept_bytes_max(sites=3, daemons=3) for trunk in gateway.trunks)
    assert 100_000 < kept <= settings.kept_bytes_max(sites=3, daemons=3)
    assert cluster.transport("a").stamper.waiting_bytes > 100_000, "the rest waits before it is stamped"
    assert cluster.run(200) and not cluster.failed()
    assert cluster.transport("c").delivery.kept_bytes == 0


def test_what_waits_to_be_stamped_is_bounded_and_more_is_refused() -> None:
    """Who looks at the room never comes to the bound; who does not is told, and nothing of it is taken."""
    settings = TransportSettings(waiting_bytes_max=100_000)
    transport = Cluster("a b", "a-b", settings=settings).transport("a")
    draft = Draft("s", UnitKind.BUNDLE, Service.AGREED, bytes(60_000))
    transport.handle(Submitted(0, [draft] * 3))
    assert transport.room == -80_000 and transport.stamper.waiting_bytes == 180_000, "it has not started"
    fits = (settings.waiting_bytes_bound - 180_000) // 60_000
    with pytest.raises(LocalProtocolError, match="look at the room first"):
        transport.handle(Submitted(0, [draft] * (fits + 1)))
    assert transport.stamper.waiting_bytes == 180_000
    transport.handle(Submitted(0, [draft] * fits))
    rest = settings.waiting_bytes_bound - transport.stamper.waiting_bytes
    transport.handle(Submitted(0, [Draft("s", UnitKind.BUNDLE, Service.AGREED, bytes(rest))]))
    assert transport.stamper.waiting_bytes == settings.waiting_bytes_bound, "the bound itself may wait"
    with pytest.raises(LocalProtocolError, match="look at the room first"):
        transport.handle(Submitted(0, [Draft("s", UnitKind.BUNDLE, Service.AGREED, b"x")]))


def test_daemons_that_are_no_gateway_run_ahead_of_its_links_by_two_visits_at_most() -> None:
    """They hear that the links are full with the next rotation; until then each may have stamped twice."""
    ring = RingSettings(personal_window=5)
    slow = LinkSettings(latency_us=5_000, jitter_us=0, bandwidth_bytes_per_second=50_000)
    network = NetworkSettings(lan=LinkSettings(jitter_us=0), wan=slow)
    cluster = Cluster("abc d", "a-d", settings=TransportSettings(ring=ring), network=network)
    for _ in range(200):
        for name in "bc":
            cluster.send(name, Service.AGREED, 1_000)
    cluster.world.run_for(1)
    visit = ring.personal_window * ring.body_bytes + 1_000 + UNIT_OVERHEAD_BYTES
    gateway = cluster.transport("a").gateway
    assert gateway is not None
    waited = 0
    while any(cluster.transport(name).stamper.waiting_bytes for name in "bc"):
        cluster.world.run_for(1_000)
        waited = max(waited, gateway.trunks[0].waiting_bytes)
    assert 0 < waited <= gateway.trunks[0].quantum + 2 * 2 * visit
    assert cluster.run(100) and not cluster.failed()


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_a_receiver_that_stalls_for_ever_fails_the_link_in_bounded_time(protocol: LinkProtocol) -> None:
    settings = TransportSettings(site_window_bytes=200_000, stall_us=20 * SECOND)
    cluster = Cluster("a b", "a-b", settings=settings, protocol=protocol)
    cluster.send("a", Service.AGREED)
    cluster.run()
    cluster.world.pause("b")
    for _ in range(100):
        cluster.send("a", Service.AGREED, 20_000)
        cluster.world.run_for(10_000)
        transport = cluster.transport("a")
        assert transport.delivery.kept_bytes <= settings.kept_bytes_max(sites=2, daemons=2)
    cluster.world.run_for(max(HopSettings().fail_bound_us(2 * SECOND), 20 * SECOND) + SECOND)
    assert list(cluster.failed()) == ["a"]


def test_bulk_of_one_site_does_not_hold_up_another_sites_messages() -> None:
    """Stamping follows the pace of the links, so bulk waits before it has a place in the order, not behind it."""
    rate = LinkLimits(1_500_000)
    slow = LinkSettings(latency_us=30_000, jitter_us=0, bandwidth_bytes_per_second=187_500)
    latencies = []
    for bulk in (0, 2_000):
        cluster = Cluster(
            "a b c", "a-b b-c", limits=rate, network=NetworkSettings(wan=slow), settings=TransportSettings()
        )
        for _ in range(bulk):
            cluster.send("a", Service.AGREED, 1_300)
        cluster.world.run_for(3 * SECOND)
        before = len([unit for unit in cluster.speaker("a").heard if unit.site == 2])
        start = cluster.world.now
        cluster.send("c", Service.AGREED, 100)
        while len([unit for unit in cluster.speaker("a").heard if unit.site == 2]) == before:
            cluster.world.run_for(1_000)
        latencies.append(cluster.world.now - start)
    packet_us = 1_400 * SECOND // 187_500
    assert latencies[1] <= latencies[0] + 60_000 + 2 * packet_us * 2, latencies


def test_timers_of_the_parts_do_not_mix() -> None:
    cluster = Cluster("ab c", "a-c")
    cluster.send("a", Service.AGREED)
    cluster.world.run_for(100)
    actions = cluster.transport("a").handle(Submitted(cluster.world.clock("a"), []))
    assert all(isinstance(each.key, tuple) for each in actions if isinstance(each, SetTimer))


def test_room_that_returns_while_nothing_else_happens_is_used() -> None:
    """What waits to be stamped goes on when the link has taken what stood before it, though no line moves then."""
    slow = LinkSettings(latency_us=5_000, jitter_us=0, bandwidth_bytes_per_second=20_000)
    cluster = Cluster("a b", "a-b", network=NetworkSettings(wan=slow), settings=TransportSettings())
    for _ in range(50):
        cluster.send("a", Service.RELIABLE, 3_000)
    assert cluster.run(100) and cluster.transport("a").stamper.waiting_bytes == 0
    assert len(cluster.speaker("b").heard) == 50


def test_a_window_that_opens_with_the_last_word_of_the_others_is_used() -> None:
    """The update that makes everything stable is the last event: what waited for the window goes on with it."""
    cluster = Cluster("a b", "a-b", settings=TransportSettings(site_window_bytes=2_000))
    for _ in range(20):
        cluster.send("a", Service.AGREED, 1_500)
    assert cluster.run(60) and cluster.transport("a").stamper.waiting_bytes == 0
    assert len(cluster.speaker("b").heard) == 20
