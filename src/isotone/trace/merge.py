"""Interleave the records of several nodes into one stream.

Each node keeps its own order; that is all a reader may rely on, with one thing more where the records allow it: a
send stands before its deliveries. Clocks of different machines cannot give that, so a delivery waits for its send as
long as the record of the sender's node goes on and has no gap. Otherwise the row with the smallest ``at`` comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import msgspec

from isotone.trace.events import (
    DaemonDelivered,
    DaemonSent,
    Delivered,
    Entry,
    Gap,
    NetworkReceived,
    NetworkSent,
    Row,
    Sent,
    Truncated,
)

_Key = tuple[str, ...]
"""A sequence of messages: whose boundary, which node, and whose there."""


class Stream(msgspec.Struct, frozen=True):
    """Rows of these nodes, each node's in its own order; what a stream holds of a send and its delivery is in order."""

    nodes: frozenset[str]
    rows: Iterator[Row]


class _Head(msgspec.Struct, order=True):
    """The next row of a stream; the driver of the faults (node ``""``) speaks after all others of its time."""

    at: int
    is_driver: bool
    place: int  # differs in all heads, so rows are never compared
    row: Row
    forced: bool = False


def merge(streams: Iterable[Stream]) -> Iterator[Row]:
    """All rows of all streams."""
    ordered = list(streams)
    if len(ordered) == 1:
        return ordered[0].rows
    return _Merge(ordered).run()


class _Merge:
    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams
        self._ready: list[_Head] = []
        self._waiting: defaultdict[_Key, list[_Head]] = defaultdict(list)
        self._sent: dict[_Key, int] = {}  # the highest sequence whose send came out
        self._trusted = {node: place for place, stream in enumerate(streams) for node in stream.nodes}

    def run(self) -> Iterator[Row]:
        for place in range(len(self._streams)):
            self._advance(place)
        while self._ready or self._release_one():
            head = heappop(self._ready)
            if not head.forced and self._must_wait(head):
                continue
            yield head.row
            self._passed(head.row)
            self._advance(head.place)

    def _advance(self, place: int) -> None:
        stream = self._streams[place]
        row = next(stream.rows, None)
        if row is None:
            for node in sorted(stream.nodes):
                self._distrust(node)
            return
        heappush(self._ready, _Head(row.at, row.node == "", place, row))

    def _must_wait(self, head: _Head) -> bool:
        need = _needed(head.row.entry)
        if need is None:
            return False
        key, sequence = need
        if self._sent.get(key, 0) >= sequence or self._trusted.get(key[1], head.place) == head.place:
            return False
        self._waiting[key].append(head)
        return True

    def _passed(self, row: Row) -> None:
        if isinstance(row.entry, Gap | Truncated):
            self._distrust(row.node)
            return
        sent = _sent(row.entry)
        if sent is not None:
            key, sequence = sent
            self._sent[key] = max(sequence, self._sent.get(key, 0))
            self._wake(key)

    def _distrust(self, node: str) -> None:
        """This node's record ended or has a gap: nobody waits for what may never come."""
        self._trusted.pop(node, None)
        for key in [key for key in self._waiting if key[1] == node]:
            self._wake(key)

    def _wake(self, key: _Key) -> None:
        """Those who still have to wait will find out by themselves."""
        for head in self._waiting.pop(key, ()):
            heappush(self._ready, head)

    def _release_one(self) -> bool:
        """All wait for each other, which no true record does: the earliest comes out, for the checkers to judge."""
        if not self._waiting:
            return False
        earliest, key = min((head, key) for key, heads in self._waiting.items() for head in heads)
        earliest.forced = True
        self._wake(key)
        return True


def _needed(entry: Entry) -> tuple[_Key, int] | None:
    """What must have been sent before this."""
    match entry:
        case Delivered():
            return _client_key(entry.sender), entry.first_sequence + len(entry.lengths) - 1
        case DaemonDelivered():
            return _daemon_key(entry.sender), entry.first_sequence + len(entry.lengths) - 1
        case NetworkReceived():
            return (*_daemon_key(entry.sender), entry.network), entry.sequence
        case _:
            return None


def _sent(entry: Entry) -> tuple[_Key, int] | None:
    """What is sent here."""
    match entry:
        case Sent():
            return _client_key(entry.client), entry.first_sequence + len(entry.lengths) - 1
        case DaemonSent():
            return _daemon_key(entry.daemon), entry.first_sequence + len(entry.lengths) - 1
        case NetworkSent():
            return (*_daemon_key(entry.daemon), entry.network), entry.sequence
        case _:
            return None


def _client_key(client: str) -> _Key:
    parts = client.split("#")
    return "client", parts[2] if len(parts) == 5 else "", client


def _daemon_key(daemon: str) -> _Key:
    return "daemon", daemon.rpartition("#")[0], daemon
