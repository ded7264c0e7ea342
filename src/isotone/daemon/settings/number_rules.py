"""Numbers: each within its range, and those that depend on each other in order."""

from __future__ import annotations

from collections.abc import Iterator

from isotone.core.addresses import PORT_MAX
from isotone.core.codec.fragment import MESSAGE_BYTES_MAX
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import Finding
from isotone.daemon.settings.tables import GIB, KIB, MIB, DaemonSettings
from isotone.detector.settings import DetectorSettings
from isotone.evs.membership import MembershipSettings
from isotone.evs.sessions.settings import FRAME_OVERHEAD_MAX

MS = 1_000
DAY_MS = 24 * 60 * 60 * 1_000
NUMBER_MAX = 10_000_000
BYTES_MAX = 1024 * GIB
FAST_PROBE_MS = DetectorSettings().fast_probe_us // MS
PAUSE_MIN_MS = DetectorSettings().pause_min_us // MS
JOIN_MS = MembershipSettings().join_us // MS

RANGES: dict[tuple[str, str], tuple[int, int]] = {
    ("cluster", "resolve_interval_ms"): (1_000, DAY_MS),
    ("cluster", "first_wait_ms"): (0, DAY_MS),
    ("limits", "sessions_max"): (1, NUMBER_MAX),
    ("limits", "handshakes_max"): (1, NUMBER_MAX),
    ("limits", "groups_max"): (1, NUMBER_MAX),
    ("limits", "groups_per_session_max"): (1, NUMBER_MAX),
    ("limits", "message_bytes_max"): (1, MESSAGE_BYTES_MAX),
    ("limits", "window_bytes"): (4 * KIB, GIB),
    ("limits", "large_messages_bytes_max"): (1, BYTES_MAX),
    ("limits", "buffer_bytes_max"): (64 * KIB, BYTES_MAX),
    ("limits", "buffers_bytes_max"): (64 * KIB, BYTES_MAX),
    ("limits", "resume_bytes_max"): (0, BYTES_MAX),
    ("limits", "waiting_bytes_max"): (64 * KIB, GIB),
    ("limits", "site_window_bytes"): (MIB, GIB),
    ("limits", "packet_bytes"): (576, 8_900),
    ("timeouts", "keep_alive_ms"): (FAST_PROBE_MS, DAY_MS),
    ("timeouts", "silence_floor_ms"): (1, DAY_MS),
    ("timeouts", "silence_ceiling_ms"): (1, DAY_MS),
    ("timeouts", "round_trip_initial_ms"): (1, 60_000),
    ("timeouts", "pause_max_ms"): (PAUSE_MIN_MS, 60_000),
    ("timeouts", "gather_ms"): (JOIN_MS, 60_000),
    ("timeouts", "gather_max_ms"): (JOIN_MS, 600_000),
    ("timeouts", "exchange_ms"): (100, 600_000),
    ("timeouts", "lookup_ms"): (10, DAY_MS),
    ("timeouts", "lookup_max_ms"): (10, DAY_MS),
    ("timeouts", "forget_ms"): (1_000, 365 * DAY_MS),
    ("timeouts", "link_fail_ms"): (100, DAY_MS),
    ("timeouts", "tcp_stall_ms"): (1_000, DAY_MS),
    ("timeouts", "client_heartbeat_ms"): (10, DAY_MS),
    ("timeouts", "client_silence_ms"): (20, DAY_MS),
    ("timeouts", "client_resume_ms"): (0, DAY_MS),
    ("timeouts", "handshake_ms"): (10, DAY_MS),
    ("timeouts", "stop_ms"): (0, DAY_MS),
    ("trace", "rotate_bytes"): (64 * KIB, 16 * GIB),
    ("trace", "retain_bytes"): (0, 1024 * BYTES_MAX),
    ("trace", "retain_hours"): (0, 100 * 365 * 24),
    ("spread", "port"): (1, PORT_MAX),
    ("spread", "sessions_max"): (1, NUMBER_MAX),
    ("spread", "groups_per_session_max"): (1, NUMBER_MAX),
    ("spread", "message_bytes_max"): (1, 143_952),
    ("admin", "port"): (1, PORT_MAX),
    ("replica", "port"): (1, PORT_MAX),
    ("replica", "reserve_bytes"): (0, BYTES_MAX),
    ("replica", "disk_within_ms"): (0, DAY_MS),
    ("replica", "maybe_after_ms"): (0, DAY_MS),
    ("replica", "waiting_records_max"): (1, NUMBER_MAX),
    ("replica", "held_bytes_max"): (MIB, BYTES_MAX),
    ("replica", "transfer_bytes_per_s"): (KIB, BYTES_MAX),
}

ASCENDING: tuple[tuple[str, str, str], ...] = (
    ("timeouts", "keep_alive_ms", "silence_ceiling_ms"),
    ("timeouts", "silence_floor_ms", "silence_ceiling_ms"),
    ("timeouts", "gather_ms", "gather_max_ms"),
    ("timeouts", "lookup_ms", "lookup_max_ms"),
    ("limits", "buffer_bytes_max", "buffers_bytes_max"),
    ("limits", "window_bytes", "large_messages_bytes_max"),
)
"""Of each two the first must not be the larger."""


def findings(settings: DaemonSettings) -> Iterator[Finding]:
    """All that is wrong with numbers."""
    for (table, key), (low, high) in RANGES.items():
        value = getattr(getattr(settings, table), key)
        if not low <= value <= high:
            yield Finding((table, key), f"{value} is out of range", f"choose {low} to {high}")
    for table, small, large in ASCENDING:
        values = getattr(settings, table)
        if getattr(values, small) > getattr(values, large):
            what = f"{getattr(values, small)} is more than {large}, {getattr(values, large)}"
            yield Finding((table, small), what, f"lower it, or raise {large}")
    yield from _together(settings)
    yield from _links(settings)


def _together(settings: DaemonSettings) -> Iterator[Finding]:
    times, limits, trace = settings.timeouts, settings.limits, settings.trace
    if 2 * times.client_heartbeat_ms > times.client_silence_ms:
        what = f"clients say something every {times.client_heartbeat_ms} ms: one that is late would be given up"
        remedy = f"choose at least {2 * times.client_heartbeat_ms}"
        yield Finding(("timeouts", "client_silence_ms"), what, remedy)
    frame = limits.message_bytes_max + FRAME_OVERHEAD_MAX
    if limits.large_messages_bytes_max < frame:
        what = "the largest message would never get credit"
        yield Finding(("limits", "large_messages_bytes_max"), what, f"choose at least {frame}")
    if trace.level != "off" and not trace.directory:
        yield Finding(("trace", "directory"), "it is empty", 'name a directory, or set level = "off"')
    if trace.retain_bytes and trace.retain_bytes < 2 * trace.rotate_bytes:
        what = "less than two files would be kept"
        yield Finding(("trace", "retain_bytes"), what, f"choose at least {2 * trace.rotate_bytes}, or 0 to keep all")
    if trace.network and trace.level == "off":
        yield Finding(("trace", "network"), "nothing is recorded at level off", 'set level to "buffered" or "full"')


def warnings(settings: DaemonSettings) -> Iterator[Finding]:
    """Numbers that are allowed but doubtful."""
    limits = settings.limits
    under_way = limits.site_window_bytes + limits.waiting_bytes_max
    named = [*(each.slow_policy for each in limits.group), *(each.slow_policy for each in limits.client)]
    if "block" in (limits.slow_policy, *named) and limits.buffer_bytes_max < under_way:
        what = "what is under way when senders begin to wait may exceed twice this, and the reader be disconnected"
        yield Finding(("limits", "buffer_bytes_max"), what, f"choose at least {under_way}")


def _links(settings: DaemonSettings) -> Iterator[Finding]:
    for place, link in enumerate(settings.link):
        path: Path = ("link", place)
        if link.weight is not None and link.weight < 1:
            yield Finding((*path, "weight"), "a weight is at least 1", "leave it out to have it measured")
        for key in ("bits_per_second", "burst_bytes"):
            if getattr(link, key) < 0:
                yield Finding((*path, key), "it is negative", "use 0 for no limit")
        if 0 < link.bits_per_second < 8 * settings.limits.packet_bytes:
            what = "not even one packet a second would pass"
            yield Finding((*path, "bits_per_second"), what, f"choose at least {8 * settings.limits.packet_bytes}")
