"""Interleave the records of several nodes into one stream.

Each node keeps its own order; that is all a reader may rely on, with one thing more where the records allow it: a
send stands before its deliveries. Clocks of different machines cannot give that, so a delivery waits for its send as
long as the record of the sender's node goes on and has no gap. Otherwise the row with the smallest ``at`` comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
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


_Head = tuple[int, bool, int, Row]
"""The next row of a stream, behind its time, whether it is the driver's, and the stream, which differs in all heads.

The driver of the faults (node ``""``) speaks after all others of its time. Rows are never compared.
"""
_TEXTS_MAX = 65536


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
        self._forced: list[_Head] = []  # come out, though what they need has not
        self._sent: dict[_Key, int] = {}  # the highest sequence whose send came out
        self._trusted = {node: place for place, stream in enumerate(streams) for node in stream.nodes}

    def run(self) -> Iterator[Row]:
        ready = self._ready
        for place in range(len(self._streams)):
            self._advance(place)
        while ready or self._release_one():
            head = heappop(ready)
            row = head[3]
            if self._must_wait(head, row.entry):
                continue
            yield row
            self._passed(row)
            self._advance(head[2])

    def _advance(self, place: int) -> None:
        stream = self._streams[place]
        row = next(stream.rows, None)
        if row is None:
            for node in sorted(stream.nodes):
                self._distrust(node)
            return
        heappush(self._ready, (row.at, row.node == "", place, row))

    def _must_wait(self, head: _Head, entry: Entry) -> bool:
        kind = type(entry)
        if kind is DaemonDelivered or kind is Delivered:
            key = (_daemon_key if kind is DaemonDelivered else _client_key)(entry.sender)  # type: ignore[attr-defined]
            sequence = entry.first_sequence + len(entry.lengths) - 1  # type: ignore[attr-defined]
        elif kind is NetworkReceived:
            key = (*_daemon_key(entry.sender), entry.network)  # type: ignore[attr-defined]
            sequence = entry.sequence  # type: ignore[attr-defined]
        else:
            return False
        place = head[2]
        if self._sent.get(key, 0) >= sequence or self._trusted.get(key[1], place) == place:
            return False
        if head in self._forced:
            self._forced.remove(head)
            return False
        self._waiting[key].append(head)
        return True

    def _passed(self, row: Row) -> None:
        entry = row.entry
        kind = type(entry)
        if kind is DaemonSent or kind is Sent:
            key = _daemon_key(entry.daemon) if kind is DaemonSent else _client_key(entry.client)  # type: ignore[attr-defined]
            sequence = entry.first_sequence + len(entry.lengths) - 1  # type: ignore[attr-defined]
        elif kind is NetworkSent:
            key = (*_daemon_key(entry.daemon), entry.network)  # type: ignore[attr-defined]
            sequence = entry.sequence  # type: ignore[attr-defined]
        else:
            if kind is Gap or kind is Truncated:
                self._distrust(row.node)
            return
        if sequence > self._sent.get(key, 0):
            self._sent[key] = sequence
        if self._waiting:
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
        self._forced.append(earliest)
        self._wake(key)
        return True


@lru_cache(_TEXTS_MAX)
def _client_key(client: str) -> _Key:
    parts = client.split("#")
    return "client", parts[2] if len(parts) == 5 else "", client


@lru_cache(_TEXTS_MAX)
def _daemon_key(daemon: str) -> _Key:
    return "daemon", daemon.rpartition("#")[0], daemon
