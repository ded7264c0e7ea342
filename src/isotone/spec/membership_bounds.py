"""How long daemon views may take to change and to merge: functions of settings and of what the network does.

Numbers only, since `spec` knows no protocol; `isotone.evs.membership.bounds` fills them in from the settings. The
derivation stands on docs/protocols/membership.md, step by step under the names used here.

Implements: [DESIGN 1], "Time bounds that we promise"; [Spread 6.3], which has the bound in words.
"""

from __future__ import annotations

import msgspec

from isotone.spec.bounds import Bound


class MembershipTimes(msgspec.Struct, frozen=True, kw_only=True):
    """All in microseconds. The first block is the network's and the detector's, the second one is settings."""

    detected_us: int  # from a fault to its suspicion by everybody whom it concerns
    trusted_us: int  # from a heal to the first probe that is answered, if none is lost
    lost_probes: int = 0  # probes in a row that get lost after a heal, at most
    round_trip_us: int
    recovery_us: int = 0  # to send again what daemons that moved together are missing, at the links' rates

    segment_us: int
    represented_us: int
    gather_us: int
    gather_max_us: int
    exchange_us: int
    retry_max_us: int
    penalty_max_us: int
    lookup_us: int = 0  # if there are daemons who are reached through gateways: how often cards are passed on again

    @property
    def spread_us(self) -> int:
        """Until a card came to who is reached through others: to the gateway across, and into its site."""
        return 2 * self.lookup_us * (1 + self.lost_probes)

    @property
    def window_us(self) -> int:
        """The shortest gathering."""
        return self.gather_us + 2 * self.round_trip_us

    @property
    def gathering_us(self) -> int:
        """The longest one: it waits for daemons that do not reach each other yet, then for a smaller one."""
        return 2 * (self.gather_max_us + self.window_us)

    @property
    def round_us(self) -> int:
        """From having no daemon view to an attempt, and to its end: SEG, REP in vain, SEG, GATHER, the exchange."""
        forming = 2 * self.segment_us + self.represented_us + self.retry_max_us + self.gathering_us
        return forming + self.exchange_us + self.recovery_us


def view_change_within_us(times: MembershipTimes) -> int:
    """From the last fault to daemon views that stay, in every set of daemons that reach each other."""
    return times.detected_us + times.spread_us + 2 * times.round_us


def merge_within_us(times: MembershipTimes) -> int:
    """From a heal of everything, also in the midst of changes, to one daemon view."""
    trusted = times.trusted_us * (1 + times.lost_probes)
    return max(times.detected_us, trusted + times.penalty_max_us) + times.spread_us + 2 * times.round_us


VIEW_CHANGE: Bound[MembershipTimes] = Bound(
    name="daemon views settle",
    derivation=(
        "Until the fault is detected by all, and cards have told of it, attempts may fail for it. The round that runs "
        "then may still have been begun with the old picture; the next one begins with the right one and ends in a "
        "daemon view."
    ),
    function=view_change_within_us,
)

MERGE: Bound[MembershipTimes] = Bound(
    name="daemon views merge",
    derivation=(
        "Everybody is trusted after a probe, and every penalty has ended, when the longest of them has; then cards "
        "come to whoever is reached through gateways. The round that runs then may have been begun before that; in the "
        "next one the smallest representative takes everybody."
    ),
    function=merge_within_us,
)
