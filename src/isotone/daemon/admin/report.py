"""What the administration port tells about a daemon, as values: health, readiness, status."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import msgspec

from isotone import __version__
from isotone.daemon.admin.clients import ClientStatus, GroupStatus, Listed, clients_of, groups_of
from isotone.daemon.admin.operated import Operated, TraceStatus
from isotone.evs.explain import Status, status

STATUS_LISTED_MAX = 200


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether clients are served; from the state as it is now."""

    ready: bool
    reason: str
    daemon: str


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """How many there are of what is listed only in part."""

    groups: int
    clients: int


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All of one daemon. Times are microseconds of its own clock; ``at`` is when this was."""

    software: str
    cluster: str
    name: str
    process: int
    at: int
    ready: bool
    why_not_ready: str
    stack: Status
    groups: tuple[GroupStatus, ...]
    clients: tuple[ClientStatus, ...]
    totals: Totals
    sessions: dict[str, int]
    counts: dict[str, dict[str, int]]
    trace: TraceStatus
    faults: list[dict[str, object]] | None
    """None when the settings do not enable them."""
    administration: Mapping[str, str]
    """Where the other daemons that the settings name are administrated; empty where that is for their machine alone."""


def readiness_of(node: Operated) -> Readiness:
    """Ready, or what is missing."""
    missing = node.why_not_ready
    return Readiness(ready=not missing, reason=missing or "a daemon view works", daemon=str(node.stack.me))


Others = Callable[[], Mapping[str, str]]
"""Where other daemons are administrated, by their names, as the settings are now."""


def status_of(node: Operated, administration: Mapping[str, str]) -> DaemonStatus:
    """All of it."""
    at, missing = node.now(), node.why_not_ready
    groups, clients = groups_of(node.stack, limit=STATUS_LISTED_MAX), clients_at(node, STATUS_LISTED_MAX)
    return DaemonStatus(
        software=__version__,
        cluster=node.cluster,
        name=node.name,
        process=os.getpid(),
        at=at,
        ready=not missing,
        why_not_ready=missing,
        stack=status(node.stack, at),
        groups=groups.groups,
        clients=clients.clients,
        totals=Totals(groups=groups.total, clients=clients.total),
        sessions=session_counts(node),
        counts={part: dict(counts) for part, counts in node.counts().items()},
        trace=node.trace_status(),
        faults=node.fault_rules(),
        administration=administration,
    )


def clients_at(node: Operated, limit: int) -> Listed:
    """The clients of a daemon, of every kind."""
    gateway = node.gateway
    return clients_of(node.stack, node.now(), limit, () if gateway is None else frozenset(gateway.clients))


def session_counts(node: Operated) -> dict[str, int]:
    """What the sessions counted; codes of ends and refusals as ``ended.slow`` and ``turned_away.full``."""
    sessions = node.stack.sessions
    if sessions is None:
        return {}
    counts: dict[str, int] = {"open": sessions.sessions, "held_bytes": sessions.held_bytes}
    counts["blocking"] = len(sessions.blocking)
    for name, value in vars(sessions.counters).items():
        if isinstance(value, int):
            counts[name] = value
        else:
            counts.update({f"{name}.{code.value}": count for code, count in value.items() if count})
    return counts
