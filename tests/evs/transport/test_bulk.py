"""Fragments of large messages: they wait at their source, at a pace that leaves the slowest link a little idle."""

from __future__ import annotations

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import FRAME_HEADER_BYTES
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.evs.overlay.topology import LinkLimits
from isotone.evs.transport import Submitted, TransportSettings
from isotone.evs.transport.bulk_pace import BulkPace
from isotone.evs.transport.held_bulk import Held, HeldBulk, decode_held, encode_held
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from tests.evs.transport.cluster import SECOND, Cluster


def test_the_pace_is_open_until_somebody_holds_then_below_what_was_achieved_and_creeps_up() -> None:
    pace = BulkPace()
    for at in range(0, SECOND, 10_000):
        assert pace.wait_us(at) == 0
        pace.spent(1_000, at)
    pace.held(SECOND)
    assert pace.rate is not None and 0.09 < pace.rate < 0.1, "100 kB in a second were achieved"
    pace.spent(1_000, SECOND)
    assert 10_000 < pace.wait_us(SECOND) < 11_500
    before = pace.rate
    pace.spent(1_000, SECOND + 100_000)
    assert before < pace.rate < 1.02 * before
    pace.held(SECOND + 200_000)
    assert pace.rate < before, "each word lowers it"


def test_only_the_newest_word_of_a_neighbour_counts() -> None:
    held = HeldBulk()
    assert held.heard(1, Held(0, 2, is_held=True)) and held.is_held(0) and not held.is_held(1)
    assert not held.heard(1, Held(0, 1, is_held=False)) and held.is_held(0), "an older one that was overtaken"
    assert held.heard(2, Held(0, 1, is_held=True)) and held.heard(1, Held(0, 3, is_held=False))
    assert held.is_held(0), "another neighbour still has some"


def test_words_survive_the_wire_and_bad_ones_are_refused() -> None:
    held = Held(1, 70_000, is_held=True)
    body = encode_held(held).body()
    assert decode_held(body, sites=2) == held
    for bad, sites in ((body[:-1], 2), (body, 1)):
        with pytest.raises(RemoteProtocolError):
            decode_held(bad, sites=sites)


def bulky(sites: str, links: str, slow: tuple[str, str]) -> Cluster:
    """The last link is half as fast as the others."""
    fast = LinkSettings(latency_us=20_000, jitter_us=0, bandwidth_bytes_per_second=200_000)
    cluster = Cluster(
        sites, links, limits=LinkLimits(1_600_000), network=NetworkSettings(wan=fast), settings=TransportSettings()
    )
    one, other = slow
    half = LinkSettings(latency_us=20_000, jitter_us=0, bandwidth_bytes_per_second=100_000)
    cluster.world.network.link(one, other).change(half)
    return cluster


def send_bulk(cluster: Cluster, name: str, size: int) -> None:
    body = bytes(cluster.view.fragment_bytes())
    drafts = [Draft("bulk", UnitKind.FRAGMENT, Service.AGREED, body)] * (size // len(body))
    cluster.speaker(name)._told = lambda actions, at: [  # type: ignore[method-assign]
        action for action in actions if type(action).__name__ != "DeliverUnits"
    ]
    cluster.world.tell(name, "speaker", Submitted(0, drafts))


def test_bulk_waits_at_its_source_and_not_before_a_slow_link_on_the_way() -> None:
    """At most what the source sent above the slow link's rate while the word travelled, and a quantum."""
    cluster = bulky("a b c", "a-b b-c", ("b", "c"))
    for name in "bc":
        send_bulk(cluster, name, 0)
    send_bulk(cluster, "a", 400_000)
    gateway = cluster.transport("b").gateway
    assert gateway is not None
    trunk = next(each for each in gateway.trunks if each.name == "b~c")
    waited = []
    cluster.world.run_for(1)
    while cluster.transport("a").stamper.waiting_bytes:
        cluster.world.run_for(10_000)
        waited.append(trunk.bulk_bytes(0))
    assert cluster.world.now < 10 * SECOND, "and it does not starve"
    excess = (200_000 - 100_000) * 40_000 // SECOND
    assert max(waited) <= excess + trunk.quantum + 4 * (cluster.view.fragment_bytes() + FRAME_HEADER_BYTES)
    assert sorted(waited)[len(waited) // 2] <= trunk.quantum, "mostly the slow link has nothing waiting"
    assert cluster.run(60) and cluster.transport("c").delivery.kept_bytes == 0


def test_bulk_of_two_sites_shares_the_link_that_both_use() -> None:
    cluster = bulky("a b c", "a-b b-c", ("b", "c"))
    send_bulk(cluster, "c", 0)
    for name in "ab":
        send_bulk(cluster, name, 300_000)
    cluster.world.run_for(3 * SECOND)
    sent = {name: 300_000 - cluster.transport(name).stamper.waiting_bytes for name in "ab"}
    assert min(sent.values()) >= 0.25 * max(sent.values()) and sum(sent.values()) >= 100_000, sent
    assert cluster.run(120)
