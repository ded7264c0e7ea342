"""A line that a ring claims is true at that moment: every daemon of the site has all units up to it. D-claim."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Action
from isotone.core.services import Service
from isotone.evs.links.ring import Ring
from isotone.evs.links.ring.events import SiteLineRose
from isotone.evs.links.ring.token import Token
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from tests.evs.transport.cluster import Cluster

LAN = LinkSettings(latency_us=200, jitter_us=400, loss=0.1)
NETWORK = NetworkSettings(lan=LAN, wan=LinkSettings(latency_us=5_000, jitter_us=1_000))
SERVICES = (Service.SAFE, Service.SAFE, Service.AGREED, Service.FIFO, Service.UNRELIABLE)


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize(("sites", "links"), [("abc", ""), ("abcde", ""), ("abc de", "a-d")])
def test_every_daemon_of_the_site_has_what_a_ring_claims(
    sites: str, links: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, choice, claims = Cluster(sites, links, seed=seed, network=NETWORK), Choice(f"claims/{seed}"), 0
    original = Ring._claim

    def claim(ring: Ring, came: Token) -> list[Action]:
        nonlocal claims
        actions = original(ring, came)
        site = next(word for word in sites.split() if any(cluster.transport(name).ring is ring for name in word))
        others = [cluster.transport(name) for name in site if cluster.transport(name).ring is not ring]
        for line in [action.line for action in actions if isinstance(action, SiteLineRose)]:
            claims += 1
            assert all(other.delivery.lines.agreed >= line for other in others)
        return actions

    monkeypatch.setattr(Ring, "_claim", claim)
    for _ in range(120):
        cluster.send(
            choice.pick(cluster.names), choice.pick(SERVICES), *[choice.between(1, 3_000)] * choice.between(1, 4)
        )
        cluster.world.run_for(choice.between(0, 3_000))
    assert cluster.run(30)
    assert claims > 20
    assert cluster.violations() == {}
