"""Settings of the membership, each with what it bounds. All times in microseconds.

Implements: [Spread 6.1.3], its timeouts; [Spread 2.3.3], the choice that obsolete views leave. Deviations: D-watch
as in `watch`; the exchange ends after a time without progress, however long it lasts, because large views take long.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core.contract import Address
from isotone.core.versions import PROTOCOL_VERSIONS, VersionRange
from isotone.detector.settings import DetectorSettings
from isotone.evs.links.ring import RingSettings
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol
from isotone.evs.transport.settings import TransportSettings


class InterimViews(Enum):
    """Obsolete views [Spread 2.3.3]: what happens to a daemon view that forms while a larger one is on its way."""

    SKIP = "skip"  # a smaller coordinator's daemon view takes its place before it is installed
    DELIVER = "deliver"  # it is installed first, and is then left for the larger one


class KnownDaemon(msgspec.Struct, frozen=True, gc=False):
    """A daemon that the settings name; its address is a hint."""

    name: str
    site: str
    address: Address


class LinkPlan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How two sites are linked; without a weight it is measured."""

    a: str
    b: str
    weight: int | None = None
    protocol: LinkProtocol = LinkProtocol.HOP
    limits: LinkLimits = LinkLimits()


class SiteGateways(msgspec.Struct, frozen=True, gc=False):
    """The daemons of a site that may be its gateway; without any of them the site is connected to no other one."""

    site: str
    daemons: tuple[str, ...]


PATIENT_RING = RingSettings(token_retries_max=60)
"""The detector says who is gone; a ring waits until the others have begun it too."""


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults suit a LAN and a WAN alike; docs/protocols/membership.md derives the bounds."""

    cluster: str = "isotone"
    """Daemons of other clusters are not heard."""
    known: tuple[KnownDaemon, ...] = ()
    seeds: tuple[Address, ...] = ()
    """Where daemons may be whose names nobody told; they are called until somebody there is reached."""
    links: tuple[LinkPlan, ...] = ()
    """Between which sites there are links; without any, every two sites are linked by hop."""
    gateways: tuple[SiteGateways, ...] = ()
    """Who may hold the links of a site to others; of a site that is not named, all its daemons."""
    versions: VersionRange = PROTOCOL_VERSIONS
    detector: DetectorSettings = DetectorSettings()
    transport: TransportSettings = TransportSettings(ring=PATIENT_RING)
    multicast: bool = True
    """Also announce oneself to the site by multicast, so that daemons that nobody named are found."""
    interim_views: InterimViews = InterimViews.SKIP
    record: bool = True
    """Record what crosses B3."""
    record_units: bool = True
    """Units too; not where content is pruned, because daemons that need none then deliver places only."""
    count_us: int = 1_000_000
    """And what links counted: at most so often while packets flow, and when a daemon view ends; 0: never."""

    first_wait_us: int = 0
    """Before a first view of one's own, look for others so long; 0 installs it at once [Spread Figure 6.2]."""
    alive_us: int = 50_000
    """Interval of ALIVE in SEG."""
    segment_us: int = 120_000
    """How long SEG looks for others in the site."""
    join_us: int = 60_000
    """Interval of JOIN in GATHER."""
    gather_us: int = 200_000
    """GATHER ends when the picture has not changed for so long and a round trip more."""
    gather_max_us: int = 2_000_000
    """But it waits no longer than this for daemons that are reached and do not reach each other yet."""
    represented_us: int = 1_000_000
    """Without a JOIN of the representative for so long, REP ends."""
    newmemb_us: int = 50_000
    """Interval at which the coordinator repeats NEWMEMB to who has not come yet."""
    exchange_us: int = 2_500_000
    """STATETRANS and EVS end without success when nothing came for so long."""
    lookup_us: int = 2_000_000
    """Interval at which a representative looks for others, whatever it has heard; doubles while that is in vain."""
    lookup_max_us: int = 8_000_000
    retry_us: int = 100_000
    """After an attempt that failed a coordinator waits so long before the next; doubles with each in a row."""
    retry_max_us: int = 2_000_000
    report_us: int = 10_000
    """A changed cut is reported after so long, so that many changes are one report."""
    steady_us: int = 10_000_000
    """A daemon that is suspected sooner than so long after it was reached has flapped."""
    penalty_us: int = 500_000
    """A daemon that flapped counts as not reached for so long; doubles each time."""
    penalty_max_us: int = 4_000_000
    penalty_answers: int = 8
    """So many answered probes clear a penalty before its time."""
    caller_us: int = 5_000_000
    """An accepted stream waits so long for the daemon view that it greets."""
    forget_us: int = 600_000_000
    """A daemon that the settings do not name is forgotten when it was not heard for so long."""
    waiting_bytes_max: int = 4 * 1024 * 1024
    """Of drafts that wait for the next daemon view."""
