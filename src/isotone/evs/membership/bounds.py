"""The promised times of `isotone.spec.membership_bounds` for given settings and conditions.

Implements: DESIGN 4, liveness with a bound. The thesis promises no times [Spread 2.1].
"""

from __future__ import annotations

from isotone.detector.bounds import (
    Conditions,
    one_way_suspected_within_us,
    silence_suspected_within_us,
    trusted_within_us,
)
from isotone.evs.membership.settings import MembershipSettings
from isotone.spec.membership_bounds import MembershipTimes


def times_of(
    settings: MembershipSettings,
    conditions: Conditions,
    *,
    one_way: bool = False,
    lost_probes: int = 0,
    recovery_us: int = 0,
    gateways: bool = False,
) -> MembershipTimes:
    """``one_way``: links may pass one way only; ``lost_probes``: so many in a row get lost after a heal.

    ``recovery_us``: to send again what is missing takes so long. ``gateways``: some daemons
    reach those of other sites through gateways only.
    """
    detector = settings.detector
    detected = silence_suspected_within_us(detector, conditions)
    if one_way:
        detected = max(detected, one_way_suspected_within_us(detector, conditions))
    return MembershipTimes(
        detected_us=detected,
        trusted_us=trusted_within_us(detector, conditions),
        lost_probes=lost_probes,
        round_trip_us=conditions.round_trip_us,
        recovery_us=recovery_us,
        segment_us=settings.segment_us,
        represented_us=settings.represented_us,
        gather_us=settings.gather_us,
        gather_max_us=settings.gather_max_us,
        exchange_us=settings.exchange_us,
        retry_max_us=settings.retry_max_us,
        penalty_max_us=settings.penalty_max_us,
        lookup_us=settings.lookup_us if gateways else 0,
    )
