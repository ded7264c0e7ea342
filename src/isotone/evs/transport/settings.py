"""Settings of the transport, each with the bound that it sets.

Implements: [Spread 3.3, 5.1], what they leave to be chosen. Deviations: D-delta, D-window, D-hold of
docs/protocols/ordering.md.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.codec.fragment import WHOLE_OVERHEAD_MAX
from isotone.evs.links.fragments import MESSAGE_BYTES_MAX
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.tcp import TcpSettings
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.stamper import UNIT_OVERHEAD_BYTES
from isotone.evs.ordering.units import Unit
from isotone.evs.overlay.topology import LinkLimits

FRAGMENT_HEADERS = 16  # of a large message at most one part in so many is headers of its fragments
UNIT_BYTES_MAX = BUNDLE_BYTES_MAX + WHOLE_OVERHEAD_MAX + UNIT_OVERHEAD_BYTES
RESENT_BYTES_MAX = UNIT_BYTES_MAX + 2 * 1024  # a unit of an earlier daemon view inside of one of the membership


Peek = Callable[[Unit], Peeked]


def everybody(unit: Unit) -> Peeked:
    """The peek of who knows no groups: every site needs everything."""
    del unit
    return Peeked()


class TransportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The same at every daemon of a view, but for addresses and ``record_network``."""

    ring: RingSettings = RingSettings()
    hop: HopSettings = HopSettings()
    tcp: TcpSettings = TcpSettings()
    site_window_bytes: int = 16 * 1024 * 1024  # of a site's units that are not yet known to be everywhere
    waiting_bytes_max: int = 4 * 1024 * 1024  # of drafts that wait for the token or the window: then there is no room
    delta_us: int = 0  # the longest wait of a line update; 0: from the limits of the links
    stall_us: int = 30_000_000  # lines that stand still for so long while somebody waits end everything
    peek: Peek = everybody  # what a unit's body says about groups; what it does not say is not pruned
    record_units: bool = True  # under a membership: record what is stamped
    record_network: bool = False  # also record what the network does, unit by unit

    def hop_for(self, limits: LinkLimits) -> HopSettings:
        """The hop settings of a link with these limits."""
        rate = limits.bits_per_second // 8 or self.hop.rate_bytes_per_second
        burst = limits.burst_bytes or self.hop.burst_bytes
        return msgspec.structs.replace(self.hop, rate_bytes_per_second=rate, burst_bytes=burst)

    @property
    def waiting_bytes_bound(self) -> int:
        """Of drafts that wait at one daemon: more is refused, and nobody comes to it who looks at the room first.

        Whoever finds room hands over a whole message, however large. The membership and the groups each hold back as
        much while no daemon view is installed, and hand it over at once.
        """
        return 2 * (self.waiting_bytes_max + MESSAGE_BYTES_MAX + MESSAGE_BYTES_MAX // FRAGMENT_HEADERS)

    def kept_bytes_max(self, *, sites: int, daemons: int) -> int:
        """Bound of the units that one daemon holds for ordering: docs/protocols/ordering.md has the argument."""
        return 2 * (sites * self.site_window_bytes + daemons * UNIT_BYTES_MAX)
