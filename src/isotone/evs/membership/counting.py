"""What the links of a network count, told to the record: packets and bytes, and what had to be sent again.

It is told when the failure detector wakes up anyway, at most once in a while and only if packets flowed, and once more
when the network ends. So it costs nothing that grows with the traffic; a record that was cut lacks what its last
moments counted; and the counts of one link only grow.

Implements: [DESIGN 4], the record of a run. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action, Record
from isotone.evs.links.contract import Link, LinkCounters
from isotone.evs.links.ring import Ring
from isotone.evs.transport.transport import Transport
from isotone.evs.transport.view import TransportView
from isotone.trace.events import LinkCounted


class NamedLink(msgspec.Struct, frozen=True):
    """A link of a network: how it is called, how it works, where it leads, itself, and what waits for it."""

    name: str
    protocol: str
    to: tuple[str, ...]
    link: Ring | Link
    waiting_bytes: int


class Counting:
    """The counts of one network at one daemon."""

    def __init__(self, me: str, view: TransportView, transport: Transport, every_us: int) -> None:
        """With 0 it never tells."""
        self._daemon, self._network = str(view.members[view.index_of(me)]), str(view.id)
        self._links = [each for each in links_of(me, view, transport) if every_us and each.to]
        self._every_us = every_us
        self._told = [(0, 0)] * len(self._links)
        self._told_at = 0

    def begin(self, at: int) -> None:
        """The network begins."""
        self._told_at = at

    def tell(self, at: int) -> list[Action]:
        """What changed, if it was not told of late."""
        if not self._links or at < self._told_at + self._every_us:
            return []
        self._told_at = at
        return self.tell_last()

    def tell_last(self) -> list[Action]:
        """What changed since."""
        return [Record(entry) for entry in self._changed()]

    def _changed(self) -> list[LinkCounted]:
        found = []
        for place, each in enumerate(self._links):
            counts = each.link.counters
            now = counts.packets_sent, counts.packets_received
            if now != self._told[place]:
                self._told[place] = now
                found.append(self._entry(each, counts))
        return found

    def _entry(self, named: NamedLink, counts: LinkCounters) -> LinkCounted:
        return LinkCounted(
            daemon=self._daemon,
            network=self._network,
            link=named.name,
            protocol=named.protocol,
            to=named.to,
            packets_sent=counts.packets_sent,
            packets_received=counts.packets_received,
            packets_resent=counts.packets_resent,
            bytes_sent=counts.bytes_sent,
            bytes_received=counts.bytes_received,
            requests_sent=counts.requests_sent,
            duplicates=counts.duplicates,
        )


def links_of(me: str, view: TransportView, transport: Transport) -> list[NamedLink]:
    """The ring of one's site, and where one is its gateway those to other sites; as they are now."""
    site, sites = view.site_of(me), view.topology.sites
    others = tuple(daemon for daemon in site.daemons if daemon != me)
    trunks = transport.gateway.trunks if transport.gateway is not None else []
    return [
        NamedLink(site.name, "ring", others, transport.ring, transport.injection.waiting_bytes),
        *(
            NamedLink(
                trunk.name,
                type(trunk.link).__name__.lower(),
                (sites[trunk.site].gateway,),
                trunk.link,
                trunk.waiting_bytes,
            )
            for trunk in trunks
        ),
    ]
