"""Settings of the transport, each with the bound that it sets."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.tcp import TcpSettings
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.stamper import UNIT_OVERHEAD_BYTES
from isotone.evs.ordering.units import Unit
from isotone.evs.overlay.topology import LinkLimits

UNIT_BYTES_MAX = 64 * 1024 + UNIT_OVERHEAD_BYTES


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
    waiting_bytes_max: int = 4 * 1024 * 1024  # of drafts that wait at one daemon for the token or the window
    delta_us: int = 0  # the longest wait of a line update; 0: from the limits of the links
    stall_us: int = 30_000_000  # lines that stand still for so long while somebody waits end everything
    peek: Peek = everybody  # what a unit's body says about groups; what it does not say is not pruned
    record_network: bool = False  # also record what the network does, unit by unit

    def hop_for(self, limits: LinkLimits) -> HopSettings:
        """The hop settings of a link with these limits."""
        rate = limits.bits_per_second // 8 or self.hop.rate_bytes_per_second
        burst = limits.burst_bytes or self.hop.burst_bytes
        return msgspec.structs.replace(self.hop, rate_bytes_per_second=rate, burst_bytes=burst)

    def kept_bytes_max(self, *, sites: int, daemons: int) -> int:
        """Bound of the units that one daemon holds for ordering: docs/protocols/ordering.md has the argument."""
        return 2 * (sites * self.site_window_bytes + daemons * UNIT_BYTES_MAX)
