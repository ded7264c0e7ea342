"""What a metric is, and how metrics are read from one look at a daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from isotone.daemon.admin.operated import TraceStatus
from isotone.evs.explain import Status
from isotone.evs.explain.status import LinkStatus, PeerStatus
from isotone.evs.sessions.server import ServerSessions

US = 1_000_000
Reading = tuple[tuple[str, ...], float]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """All that metrics are read from, at one moment."""

    cluster: str
    at: int
    ready: bool
    status: Status
    configured: int
    """Daemons that the settings name, this one too."""
    sessions: ServerSessions | None
    trace: TraceStatus
    counts: Mapping[str, Mapping[str, int]]
    disks: Mapping[str, int]
    """Bytes free, by what they are for."""
    slow: int
    """Readers for which senders wait, Spread's among them."""
    faults: int
    requests: Mapping[int, int]


class Metric(msgspec.Struct, frozen=True):
    """One metric."""

    name: str
    kind: str  # counter or gauge
    text: str
    labels: tuple[str, ...]
    read: Callable[[Look], Iterable[Reading]]


def one(read: Callable[[Look], float]) -> Callable[[Look], Iterable[Reading]]:
    return lambda look: [((), read(look))]


def peers(read: Callable[[PeerStatus], float]) -> Callable[[Look], Iterable[Reading]]:
    return lambda look: [((peer.name, peer.site), read(peer)) for peer in look.status.peers]


def links(read: Callable[[LinkStatus], float]) -> Callable[[Look], Iterable[Reading]]:
    return lambda look: [((link.name, link.protocol), read(link)) for link in look.status.links]


def link_count(field: str) -> Callable[[Look], Iterable[Reading]]:
    return links(lambda link: getattr(link.counters, field))


def sessions(read: Callable[[ServerSessions], float]) -> Callable[[Look], Iterable[Reading]]:
    return lambda look: [] if look.sessions is None else [((), read(look.sessions))]


def session_count(field: str) -> Callable[[Look], Iterable[Reading]]:
    return sessions(lambda sessions: getattr(sessions.counters, field))


def session_codes(field: str) -> Callable[[Look], Iterable[Reading]]:
    def read(look: Look) -> Iterable[Reading]:
        codes = {} if look.sessions is None else getattr(look.sessions.counters, field)
        return [((code.value,), count) for code, count in codes.items()]

    return read


def waited(since: int | None, at: int) -> float:
    return 0.0 if since is None else max(0, at - since) / US


def lines(read: Callable[[Look], float]) -> Callable[[Look], Iterable[Reading]]:
    return lambda look: [] if look.status.lines is None else [((), read(look))]


def agreed_wait(look: Look) -> float:
    return waited(None if look.status.lines is None else look.status.lines.agreed_since, look.at)


def stable_wait(look: Look) -> float:
    return waited(None if look.status.lines is None else look.status.lines.stable_since, look.at)


def memory(look: Look) -> Iterable[Reading]:
    memory = msgspec.structs.asdict(look.status.memory)
    return [((name,), memory[name]) for name in memory if name not in ("undelivered", "window")]


def counts(look: Look) -> Iterable[Reading]:
    return [((part, name), count) for part, counts in look.counts.items() for name, count in sorted(counts.items())]
