"""A daemon view with its overlay, as indices: the one form in which daemons and sites travel in units and frames.

Implements: [Spread 3.3], the overlay of one membership. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.contract import Address
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.evs.links.fragments import fragment_limit
from isotone.evs.ordering.updates import RATE_UNKNOWN
from isotone.evs.overlay.topology import Link, Site, Topology

FRAGMENT_US = 3_500  # a fragment holds the slowest link for so long: about half a packet at 1.5 Mbit/s
FRAGMENT_BYTES_MIN = 600  # below, headers would take too much of it


class TransportView(msgspec.Struct, frozen=True):
    """Given by the membership, equal at all members; daemons are sorted, sites are those of the topology."""

    id: DaemonViewId
    members: tuple[DaemonId, ...]
    topology: Topology
    addresses: Mapping[str, Address]  # daemon name to where it is reached

    def index_of(self, daemon: str) -> int:
        """The place of a daemon among the members."""
        return next(index for index, member in enumerate(self.members) if member.name == daemon)

    def site_of(self, daemon: str) -> Site:
        """The site in which a daemon stands."""
        return next(site for site in self.topology.sites if daemon in site.daemons)

    def site_index(self, site: str) -> int:
        """The place of a site among all."""
        return [each.name for each in self.topology.sites].index(site)

    def ring_number(self, site: Site) -> int:
        """64 bits that no other ring ever had."""
        return self._number(f"ring {site.name}", 8)

    def link_number(self, link: Link) -> int:
        """32 bits that no other link between these two is likely to have had."""
        return self._number(f"link {link.name}", 4)

    def slowest_rate(self) -> int:
        """Bytes in a second over the slowest link that has a limit; 0 when none has."""
        return slowest_rate(self.topology)

    def fragment_bytes(self) -> int:
        """How large a fragment of a large message may be, its header included."""
        return fragment_bytes(self.topology)

    def _number(self, what: str, size: int) -> int:
        return int.from_bytes(blake2b(f"{self.id} {what}".encode(), digest_size=size).digest(), "big")


def slowest_rate(topology: Topology) -> int:
    """Bytes in a second over the slowest link that has a limit; 0 when none has."""
    return min((link.limits.bits_per_second // 8 for link in topology.links if link.limits.bits_per_second), default=0)


def fragment_bytes(topology: Topology) -> int:
    """How large a fragment of a large message may be, its header included: docs/protocols/ordering.md, D-hold."""
    if not topology.links:
        return BUNDLE_BYTES_MAX
    rate = slowest_rate(topology) or RATE_UNKNOWN
    return fragment_limit(rate, packet_bytes=FRAGMENT_BYTES_MIN, hold_us=FRAGMENT_US)
