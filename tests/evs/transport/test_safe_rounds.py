"""What a lone SAFE message waits for, in visits of the token: one round more than an AGREED one at its sender."""

from __future__ import annotations

import pytest

from isotone.core.services import Service
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from tests.evs.transport.cluster import Cluster

LATENCY_US = 200
NETWORK = NetworkSettings(lan=LinkSettings(latency_us=LATENCY_US, jitter_us=0))
LOOK_US = 20


def visits(cluster: Cluster) -> int:
    return max(cluster.transport(name).ring._custody.visit for name in cluster.names)


def heard_after(cluster: Cluster, sender: str, service: Service) -> dict[str, tuple[int, int]]:
    """When each daemon delivers a message sent at rest: microseconds, and visits of the token."""
    began, before = cluster.world.now, visits(cluster)
    known = {name: len(cluster.speaker(name).heard) for name in cluster.names}
    found: dict[str, tuple[int, int]] = {}
    cluster.send(sender, service)
    while len(found) < len(cluster.names):
        cluster.world.run_for(LOOK_US)
        assert cluster.world.now - began < 1_000_000
        for name in cluster.names:
            if len(cluster.speaker(name).heard) > known[name]:
                found.setdefault(name, (cluster.world.now - began, visits(cluster) - before))
    assert cluster.run(10)
    return found


@pytest.mark.parametrize("names", ["ab", "abc", "abcde"])
def test_a_lone_safe_message_waits_for_one_round_of_the_token(names: str) -> None:
    """The token rests with the sender, as it does for one who sends now and then."""
    cluster, count = Cluster(names, network=NETWORK), len(names)
    assert cluster.run(10)
    heard_after(cluster, "b", Service.SAFE)
    agreed, safe = heard_after(cluster, "b", Service.AGREED), heard_after(cluster, "b", Service.SAFE)
    assert agreed["b"][1] == 1 and safe["b"][1] == count + 1, "its own visit, and when everybody was visited"
    assert safe["b"][0] <= count * LATENCY_US + LOOK_US
    assert max(rounds for _, rounds in safe.values()) == 2 * count, "the others when it comes to them again"
    assert cluster.violations() == {}


def test_the_token_rests_after_two_rounds() -> None:
    cluster = Cluster("abc", network=NETWORK)
    assert cluster.run(10)
    heard_after(cluster, "b", Service.SAFE)
    before = visits(cluster)
    heard_after(cluster, "b", Service.SAFE)
    assert visits(cluster) - before == 7
