"""Every metric of a daemon as data: name, kind, meaning, labels, and how it is read from one look at the daemon.

Names follow the conventions of Prometheus: base units, ``_total`` for what only grows, ``_info`` for labels alone.
Counters of links begin at 0 with every daemon view; ``rate()`` knows how to bear that.
"""

from __future__ import annotations

from isotone import __version__
from isotone.daemon.admin.readings import (
    US,
    Metric,
    agreed_wait,
    counts,
    lines,
    link_count,
    links,
    memory,
    one,
    peers,
    session_codes,
    session_count,
    sessions,
    stable_wait,
    waited,
)
from isotone.evs.membership.states import State

DAEMON = (
    Metric(
        "isotone_info",
        "gauge",
        "Always 1; the labels say which daemon this is.",
        ("cluster", "daemon", "site", "version"),
        lambda look: [((look.cluster, look.status.daemon, look.status.site, __version__), 1)],
    ),
    Metric(
        "isotone_ready",
        "gauge",
        "Whether a daemon view works and clients are served.",
        (),
        one(lambda look: look.ready),
    ),
    Metric(
        "isotone_daemon_view_info",
        "gauge",
        "1 while the daemon view with this id works; two ids in a cluster are a split.",
        ("cluster", "view"),
        lambda look: [((look.cluster, look.status.view.daemon_view), 1)] if look.status.view.is_working else [],
    ),
    Metric(
        "isotone_daemon_view_members",
        "gauge",
        "Daemons in the daemon view that works, 0 without one.",
        (),
        one(lambda look: len(look.status.view.members) if look.status.view.is_working else 0),
    ),
    Metric(
        "isotone_daemons_configured",
        "gauge",
        "Daemons that the settings name, this one too.",
        (),
        one(lambda look: look.configured),
    ),
    Metric(
        "isotone_daemons_known",
        "gauge",
        "Daemons that are known, this one too.",
        (),
        one(lambda look: len(look.status.peers) + 1),
    ),
    Metric(
        "isotone_membership_state",
        "gauge",
        "1 for the state that the membership is in.",
        ("state",),
        lambda look: [((state.name.lower(),), state.name == look.status.view.state) for state in State],
    ),
    Metric(
        "isotone_membership_state_seconds",
        "gauge",
        "How long the membership is in its state.",
        (),
        one(lambda look: waited(look.status.view.since, look.at)),
    ),
    Metric(
        "isotone_membership_entries_total",
        "counter",
        "States entered, by the reason.",
        ("reason",),
        lambda look: [((reason.lower(),), count) for reason, count in look.status.entries.items()],
    ),
    Metric(
        "isotone_self_doubts_total",
        "counter",
        "How often this daemon found that it slept.",
        (),
        one(lambda look: look.status.doubts),
    ),
    Metric(
        "isotone_faults_injected",
        "gauge",
        "Faults that are injected now, for a drill.",
        (),
        one(lambda look: look.faults),
    ),
)

PEERS = (
    Metric(
        "isotone_peer_reached",
        "gauge",
        "Whether packets pass both ways.",
        ("peer", "site"),
        peers(lambda peer: peer.reached),
    ),
    Metric(
        "isotone_peer_suspected",
        "gauge",
        "Whether the detector suspects it.",
        ("peer", "site"),
        peers(lambda peer: bool(peer.suspected)),
    ),
    Metric(
        "isotone_peer_silence_seconds",
        "gauge",
        "Since it was last heard.",
        ("peer", "site"),
        peers(lambda peer: peer.silent_us / US),
    ),
    Metric(
        "isotone_peer_round_trip_seconds",
        "gauge",
        "Smoothed round trip.",
        ("peer", "site"),
        peers(lambda peer: peer.round_trip_us / US),
    ),
    Metric(
        "isotone_peer_round_trip_variation_seconds",
        "gauge",
        "Its variation.",
        ("peer", "site"),
        peers(lambda peer: peer.variation_us / US),
    ),
    Metric(
        "isotone_peer_lost_ratio",
        "gauge",
        "Share of probes without an answer.",
        ("peer", "site"),
        peers(lambda peer: peer.lost_ppm / US),
    ),
)

LINKS = (
    *(
        Metric(f"isotone_link_{field}_total", "counter", text, ("link", "protocol"), link_count(field))
        for field, text in (
            ("packets_sent", "Packets sent on a link of the daemon view."),
            ("packets_received", "Packets received."),
            ("bytes_sent", "Bytes sent."),
            ("bytes_received", "Bytes received."),
            ("packets_resent", "Packets sent again because they were lost or late."),
            ("duplicates", "Packets that came more than once."),
            ("requests_sent", "Requests to send something again."),
            ("malformed", "Packets that no correct daemon sends."),
        )
    ),
    Metric(
        "isotone_link_round_trip_seconds",
        "gauge",
        "Round trip, as the link measures it.",
        ("link", "protocol"),
        links(lambda link: link.counters.round_trip_us / US),
    ),
    Metric(
        "isotone_link_buffered_bytes",
        "gauge",
        "Bytes in the link's buffers.",
        ("link", "protocol"),
        links(lambda link: link.counters.buffered_bytes),
    ),
    Metric(
        "isotone_link_room_bytes",
        "gauge",
        "Bytes that the link takes now.",
        ("link", "protocol"),
        links(lambda link: link.room),
    ),
    Metric(
        "isotone_link_waiting_bytes",
        "gauge",
        "Bytes that wait for room on the link.",
        ("link", "protocol"),
        links(lambda link: link.waiting_bytes),
    ),
)

ORDERING = (
    Metric(
        "isotone_agreed_line_wait_seconds",
        "gauge",
        "How long messages wait for the line of the slowest site.",
        (),
        lines(agreed_wait),
    ),
    Metric(
        "isotone_stable_line_wait_seconds",
        "gauge",
        "How long messages wait to be known to be everywhere.",
        (),
        lines(stable_wait),
    ),
    Metric(
        "isotone_undelivered_units",
        "gauge",
        "Units that are here and wait for their place.",
        (),
        one(lambda look: look.status.memory.undelivered),
    ),
    Metric("isotone_memory_bytes", "gauge", "Bytes held, by what holds them.", ("holder",), memory),
    Metric(
        "isotone_window_bytes",
        "gauge",
        "Bytes of this daemon that may be not yet everywhere.",
        (),
        one(lambda look: look.status.memory.window),
    ),
    Metric("isotone_room_bytes", "gauge", "Bytes that clients may send now.", (), one(lambda look: look.status.room)),
)

CLIENTS = (
    Metric("isotone_groups", "gauge", "Groups with members.", (), one(lambda look: look.status.groups.groups)),
    Metric(
        "isotone_group_memberships",
        "gauge",
        "Memberships of this daemon's clients.",
        (),
        one(lambda look: look.status.groups.memberships),
    ),
    Metric(
        "isotone_clients",
        "gauge",
        "Clients of this daemon, of every kind.",
        (),
        one(lambda look: look.status.groups.sessions),
    ),
    Metric(
        "isotone_sessions",
        "gauge",
        "Sessions, also those that wait for their client.",
        (),
        sessions(lambda each: each.sessions),
    ),
    Metric("isotone_sessions_max", "gauge", "Their bound.", (), sessions(lambda each: each.settings.sessions_max)),
    Metric(
        "isotone_session_buffers_bytes",
        "gauge",
        "Bytes kept for clients that did not acknowledge them.",
        (),
        sessions(lambda each: each.held_bytes),
    ),
    Metric(
        "isotone_session_buffers_bytes_max",
        "gauge",
        "Their bound.",
        (),
        sessions(lambda each: each.settings.buffers_bytes_max),
    ),
    Metric(
        "isotone_slow_clients",
        "gauge",
        "Readers for which senders wait now.",
        (),
        one(lambda look: look.slow),
    ),
    Metric(
        "isotone_slow_warnings_total",
        "counter",
        "Warnings to readers at half of their buffer.",
        (),
        session_count("warnings"),
    ),
    Metric(
        "isotone_slow_blocks_total",
        "counter",
        "Times that senders began to wait for a reader.",
        (),
        session_count("blocked"),
    ),
    Metric("isotone_sessions_opened_total", "counter", "Sessions opened.", (), session_count("opened")),
    Metric(
        "isotone_sessions_resumed_total",
        "counter",
        "Sessions that went on on another stream.",
        (),
        session_count("resumed"),
    ),
    Metric("isotone_sessions_ended_total", "counter", "Sessions ended, by code.", ("code",), session_codes("ended")),
    Metric(
        "isotone_streams_turned_away_total",
        "counter",
        "Streams that came to no session, by code.",
        ("code",),
        session_codes("turned_away"),
    ),
    *(
        Metric(f"isotone_session_{name}_total", "counter", text, (), session_count(field))
        for name, field, text in (
            ("frames_received", "frames_received", "Frames from clients."),
            ("received_bytes", "bytes_received", "Bytes from clients."),
            ("writes", "written", "Writes to clients."),
            ("written_bytes", "bytes_written", "Bytes to clients."),
            ("indications", "encoded", "Indications encoded, once for all their receivers."),
            ("requests", "handed_on", "Requests handed on to the groups."),
            ("dropped_messages", "dropped_messages", "Messages whose deadline passed."),
            ("malformed", "malformed", "Frames that no correct client sends."),
        )
    ),
)

RECORD = (
    Metric(
        "isotone_trace_level_info",
        "gauge",
        "1 for the level of the trace.",
        ("level",),
        lambda look: [((look.trace.level,), 1)],
    ),
    Metric("isotone_trace_rows_total", "counter", "Rows written.", (), one(lambda look: look.trace.rows)),
    Metric(
        "isotone_trace_lost_rows_total",
        "counter",
        "Rows lost; the trace has gaps there.",
        (),
        one(lambda look: look.trace.lost),
    ),
    Metric("isotone_trace_bytes", "gauge", "Bytes of the trace on disk.", (), one(lambda look: look.trace.bytes)),
    Metric(
        "isotone_trace_failed",
        "gauge",
        "1 while the trace cannot be written.",
        (),
        one(lambda look: bool(look.trace.failed)),
    ),
    Metric(
        "isotone_disk_free_bytes",
        "gauge",
        "Bytes free where it is written.",
        ("purpose",),
        lambda look: [((purpose,), free) for purpose, free in look.disks.items()],
    ),
)

SHELL = (
    Metric(
        "isotone_events_total",
        "counter",
        "What parts of the daemon counted, refusals by reason among it.",
        ("part", "what"),
        counts,
    ),
    Metric(
        "isotone_admin_responses_total",
        "counter",
        "Answers of the administration port.",
        ("status",),
        lambda look: [((str(status),), count) for status, count in sorted(look.requests.items())],
    ),
)

METRICS: tuple[Metric, ...] = (*DAEMON, *PEERS, *LINKS, *ORDERING, *CLIENTS, *RECORD, *SHELL)
