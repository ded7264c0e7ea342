"""Links over TCP whose streams are lost silently between two gateways, while all datagrams pass: others are chosen."""

from __future__ import annotations

import pytest

from isotone.core.contract import Address
from isotone.evs.links.tcp.settings import TcpSettings
from isotone.evs.membership import LinkPlan, MembershipSettings
from isotone.evs.overlay.topology import LinkProtocol
from isotone.sim.streams import Segment, Streams
from tests.evs.membership.cluster import Cluster


def planned(*pairs: tuple[str, str]) -> tuple[LinkPlan, ...]:
    return tuple(LinkPlan(a=a, b=b, protocol=LinkProtocol.TCP) for a, b in pairs)


@pytest.mark.parametrize(
    ("sites", "links", "silent", "gateways"),
    [
        ("ab cd", planned(("ab", "cd")), "ac", {"ab": "b", "cd": "c"}),
        ("a bc de", planned(("a", "bc"), ("bc", "de")), "bd", {"a": "a", "bc": "c", "de": "d"}),
    ],
    ids=["the coordinator's own link", "a link between others"],
)
def test_gateways_that_get_no_stream_through_are_replaced(
    sites: str, links: tuple[LinkPlan, ...], silent: str, gateways: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    land = Streams._land_at_address

    def lose(self: Streams, address: Address, segment: Segment) -> None:
        opener = segment.source
        if {opener.lane.process.node.name, opener.peer_node} != set(silent):
            land(self, address, segment)

    monkeypatch.setattr(Streams, "_land_at_address", lose)
    cluster = Cluster(sites, links=links)
    cluster.run(10)
    everybody = "".join(sorted(cluster.names))
    assert cluster.views() == dict.fromkeys(cluster.names, everybody)
    network = cluster.membership("a").node.network
    assert network is not None
    assert {site.name: site.gateway for site in network.view.topology.sites} == gateways
    assert len(cluster.talker("a").views) == 2, "its own first view, and the one of all"
    cluster.run(30)
    assert len(cluster.talker("a").views) == 2, "and there is rest"


def test_a_link_gives_up_before_the_exchange_does() -> None:
    assert TcpSettings().open_us < MembershipSettings().exchange_us
