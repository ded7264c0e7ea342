"""Worst times and costs of failure detection, as functions of settings and conditions.

*Conditions* are what the network and the machine do: the longest round trip, the share of probe rounds that get lost,
how late our wake-ups are, how many peers are watched. The estimators never exceed what they are fed, and every timeout
grows with each of its terms, so the timeouts of the worst conditions bound all others.
"""

from __future__ import annotations

import msgspec

from isotone.detector.estimator import PARTS, probes_needed
from isotone.detector.settings import PROBES_REQUIRED, DetectorSettings, keep_alive_interval_us
from isotone.detector.timeouts import Limits, Measured, in_steps, limits_for


class Conditions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the network and the machine do at worst.

    ``round_trip_us`` and ``lateness_us`` bound every single one, ``lost_ppm`` the share of probes lost as estimated.
    """

    peers: int = 1
    round_trip_us: int = 1_000
    variation_us: int | None = None
    lost_ppm: int = 0
    lateness_us: int = 0


def worst_limits(settings: DetectorSettings, conditions: Conditions) -> Limits:
    """The longest timeouts that these conditions can lead to.

    Without a bound on the variation, a deviation is at most half the first round trip or the longest one, whichever
    the samples bring: the longest round trip bounds it.
    """
    variation = conditions.round_trip_us if conditions.variation_us is None else conditions.variation_us
    values = Measured(
        minimum_us=conditions.round_trip_us,
        smoothed_us=conditions.round_trip_us,
        variation_us=variation,
        probes=probes_needed(settings, conditions.lost_ppm),
        lateness_us=in_steps(settings, min(conditions.lateness_us, settings.pause_max_us)),
        keep_alive_us=keep_alive_interval_us(settings, conditions.peers),
    )
    return limits_for(settings, values)


def silence_suspected_within_us(settings: DetectorSettings, conditions: Conditions) -> int:
    """From the last sign of life of a peer to its suspicion, while we do not sleep."""
    keep_alive_us = keep_alive_interval_us(settings, conditions.peers)
    shortest_us = max(settings.silence_floor_us, keep_alive_us + (settings.probes_min - 2) * settings.fast_probe_us)
    probing_us = min(shortest_us, settings.silence_ceiling_us) - keep_alive_us
    doubts_us = _doubts_us(settings, conditions, probing_us, settings.fast_probe_us)
    return worst_limits(settings, conditions).silence.us + conditions.lateness_us + doubts_us


def refusal_confirmed_within_us(settings: DetectorSettings, conditions: Conditions) -> int:
    """From the first believed evidence against a silent peer to its suspicion, while we do not sleep."""
    shortest_us = max(settings.confirm_floor_us, (settings.probes_min - 1) * settings.confirm_probe_us)
    probing_us = min(shortest_us, settings.confirm_ceiling_us)
    doubts_us = _doubts_us(settings, conditions, probing_us, settings.confirm_probe_us)
    return worst_limits(settings, conditions).confirm.us + conditions.lateness_us + doubts_us


def one_way_suspected_within_us(settings: DetectorSettings, conditions: Conditions) -> int:
    """From the last round trip with a peer that we still hear to its suspicion, while we do not sleep."""
    limits = worst_limits(settings, conditions)
    return settings.measure_us + limits.one_way.us + 2 * conditions.lateness_us


def suspected_after_pause_within_us(settings: DetectorSettings, conditions: Conditions) -> int:
    """From the end of a pause of our own to the suspicion of a peer that is dead, while we do not sleep again.

    The pause itself teaches us that we wake up late, which lengthens the timeouts for a while.
    """
    taught = msgspec.structs.replace(conditions, lateness_us=settings.pause_max_us)
    limits = worst_limits(settings, taught)
    return max(limits.silence.us, limits.grace.us) + conditions.lateness_us + _doubts_us(settings, taught, 0, 1)


def trusted_within_us(settings: DetectorSettings, conditions: Conditions) -> int:
    """From the moment a suspected peer is reachable again to trust, if no packet is lost."""
    return settings.suspect_probe_us + conditions.round_trip_us + 2 * conditions.lateness_us


def idle_core_ppm(settings: DetectorSettings, conditions: Conditions) -> int:
    """Parts of a million of one core that keep-alives take when nothing else happens, at the cost in the settings."""
    interval = keep_alive_interval_us(settings, conditions.peers)
    # Probes go up to an eighth of the interval early, so that one wake-up serves many peers.
    return conditions.peers * settings.idle_cost_us * PARTS // (interval - interval // 8)


def _doubts_us(settings: DetectorSettings, conditions: Conditions, probing_us: int, interval_us: int) -> int:
    """What doubt of oneself adds when wake-ups are so late that too few probes fit into the shortest wait.

    Each doubt sends a probe at once and at least one more, so two of them make up the required number.
    """
    if 1 + probing_us // (interval_us + conditions.lateness_us) >= PROBES_REQUIRED:
        return 0
    return 2 * (worst_limits(settings, conditions).grace.us + conditions.lateness_us)
