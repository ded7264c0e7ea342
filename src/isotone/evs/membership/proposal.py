"""A NEWMEMB as a daemon view with its overlay: checked, because it comes from another daemon.

Implements: [Spread Figure 6.4], INITIALIZE. Deviations: none.
"""

from __future__ import annotations

from isotone.core.contract import Address
from isotone.core.errors import RemoteProtocolError
from isotone.evs.membership.messages import NewMemb
from isotone.evs.membership.node import Node
from isotone.evs.overlay.topology import (
    Link,
    LinkLimits,
    LinkProtocol,
    Topology,
    make_link,
    make_site,
    topology_problems,
)
from isotone.evs.transport.view import TransportView


def check_newmemb(message: NewMemb) -> None:
    """Raise what no coordinator sends."""
    daemons = [each.daemon for each in message.members]
    names = {each.name for each in message.members}
    if daemons != sorted(daemons) or len(names) != len(daemons):
        raise RemoteProtocolError("a NEWMEMB whose members are not sorted, or are there twice")
    if message.id.id.coordinator != daemons[0] or message.card.daemon != daemons[0]:
        raise RemoteProtocolError("a NEWMEMB that does not come from its smallest member")


def view_of(message: NewMemb, node: Node) -> TransportView:
    """The daemon view; where we know an address from its packets, that one counts."""
    addresses = {}
    for each in message.members:
        peer = node.peers.by_name.get(each.name)
        if each.name == node.me.name:
            addresses[each.name] = node.address or Address(each.address)
        elif peer is not None and peer.incarnation == each.incarnation and peer.address:
            addresses[each.name] = peer.address
        else:
            addresses[each.name] = Address(each.address)
    members = tuple(each.daemon for each in message.members)
    return TransportView(message.id.id, members, topology_of(message), addresses)


def topology_of(message: NewMemb) -> Topology:
    """Its overlay, or the problem with it."""
    by_site: dict[str, list[str]] = {}
    for each in message.members:
        by_site.setdefault(each.site, []).append(each.name)
    names = sorted(by_site)
    if len(message.gateways) != len(names):
        raise RemoteProtocolError("a NEWMEMB without a gateway for every site")
    sites = [make_site(name, by_site[name], gateway) for name, gateway in zip(names, message.gateways)]
    topology = Topology(tuple(sites), tuple(_links(message, names)))
    problems = topology_problems(topology)
    if problems:
        raise RemoteProtocolError("the overlay of a NEWMEMB: " + "; ".join(problems))
    return topology


def _links(message: NewMemb, names: list[str]) -> list[Link]:
    out = []
    for each in message.links:
        if max(each.a, each.b) >= len(names):
            raise RemoteProtocolError("a link of a NEWMEMB that ends nowhere")
        protocol = LinkProtocol.TCP if each.is_stream else LinkProtocol.HOP
        limits = LinkLimits(each.bits_per_second, each.burst_bytes)
        out.append(make_link(names[each.a], names[each.b], each.weight, protocol, limits))
    return out
