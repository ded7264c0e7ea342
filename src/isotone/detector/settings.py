"""What can be set about failure detection, with defaults for daemons on a LAN or a WAN. All times in microseconds."""

from __future__ import annotations

import msgspec

from isotone.core.errors import InputError

PROBES_REQUIRED = 4
"""Nobody is suspected of silence before this many probes went unanswered, however the timeouts came out."""


class DetectorSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Floors, ceilings and intervals; the timeouts themselves are measured. See ``docs/protocols/detector.md``."""

    keep_alive_us: int = 250_000
    """Silence after which a peer is probed, unless the idle budget asks for longer."""
    fast_probe_us: int = 40_000
    """Interval of probes once the first one went unanswered, and after a pause of one's own."""
    confirm_probe_us: int = 5_000
    """Interval of probes while evidence against a peer is being confirmed."""
    suspect_probe_us: int = 1_000_000
    """Interval of probes to a peer that is already suspected, to notice that it came back."""
    measure_us: int = 2_000_000
    """A peer that talks but gave no round trip for so long is probed too, to measure and to notice one-way links."""
    learn_samples: int = 24
    """Until so many round trips were measured the next follows soon: the first are those of processes that start."""

    silence_floor_us: int = 400_000
    silence_ceiling_us: int = 10_000_000
    confirm_floor_us: int = 40_000
    confirm_ceiling_us: int = 2_000_000
    one_way_floor_us: int = 1_000_000
    one_way_ceiling_us: int = 30_000_000

    probes_min: int = 8
    """Probes that fit into every timeout, so that a few lost packets accuse nobody."""
    probes_max: int = 40
    all_lost_ppm: int = 1
    """The timeouts grow with the measured loss until all probes of one silence get lost with this probability only."""

    round_trip_initial_us: int = 100_000
    """Taken for the round trip to a peer until the first measurement."""
    granularity_us: int = 2_000
    """Added to every round trip: the finest difference that clocks and schedulers let us trust."""
    minimum_window_us: int = 30_000_000
    """The smallest round trip is that of the last one to two windows."""

    pause_min_us: int = 60_000
    """A wake-up at least this late, and ``pause_factor`` times later than usual, counts as a pause of one's own."""
    pause_factor: int = 4
    pause_max_us: int = 200_000
    """A wake-up later than this is always a pause; so measured lateness never exceeds it."""

    hold_off_min_us: int = 200_000
    """Evidence that a sign of life contradicted does not shorten waits for this long; doubles each time."""
    hold_off_max_us: int = 10_000_000
    evidence_max: int = 16
    """Pieces of evidence kept about one peer."""

    require_answers: bool = True
    """Suspect a peer that is heard but answers no probe: it cannot hear us."""
    idle_cost_us: int = 150
    """CPU time of one keep-alive round with one peer: a probe and an answer in each direction."""
    idle_budget_permille: int = 5
    """Share of a core that keep-alives may take when nothing else happens; many peers lengthen the interval."""

    def __post_init__(self) -> None:
        problems = settings_problems(self)
        if problems:
            raise InputError("detector settings: " + "; ".join(problems))


def settings_problems(settings: DetectorSettings) -> list[str]:
    """Everything that is wrong with the settings, in words."""
    switches = ("require_answers", "all_lost_ppm")
    problems = [
        f"{name} must be at least 1"
        for name in settings.__struct_fields__
        if name not in switches and getattr(settings, name) < 1
    ]
    for kind in ("silence", "confirm", "one_way"):
        if getattr(settings, f"{kind}_floor_us") > getattr(settings, f"{kind}_ceiling_us"):
            problems.append(f"{kind}_floor_us is above {kind}_ceiling_us")
    if not PROBES_REQUIRED <= settings.probes_min <= settings.probes_max:
        problems.append(f"probes_min must lie between {PROBES_REQUIRED} and probes_max")
    if not 0 <= settings.all_lost_ppm <= 1_000_000:
        problems.append("all_lost_ppm must lie between 0 and 1000000")
    if settings.pause_min_us > settings.pause_max_us:
        problems.append("pause_min_us is above pause_max_us")
    if settings.hold_off_min_us > settings.hold_off_max_us:
        problems.append("hold_off_min_us is above hold_off_max_us")
    if not settings.confirm_probe_us <= settings.fast_probe_us <= settings.keep_alive_us <= settings.silence_ceiling_us:
        problems.append("confirm_probe_us, fast_probe_us, keep_alive_us and silence_ceiling_us must not decrease")
    return problems


def keep_alive_interval_us(settings: DetectorSettings, peers: int) -> int:
    """Silence after which a peer is probed: longer with many peers, so that the idle budget holds.

    Half the ceiling of silence is the limit, since a peer must be probed well before it is given up.
    """
    affordable = peers * settings.idle_cost_us * 1000 // settings.idle_budget_permille
    return min(max(settings.keep_alive_us, affordable), max(settings.keep_alive_us, settings.silence_ceiling_us // 2))
