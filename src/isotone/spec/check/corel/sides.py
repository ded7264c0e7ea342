"""Runs in which an operator forced a primary: the servers before and behind each fence are judged as two groups.

Whoever comes behind a fence brings along what it had; whoever does not may go on with others like it, and order
otherwise what the survivors never saw. So each side has one green order, and its servers are held to all that they ever
told; but what only those could witness who stayed behind is judged on the earlier side alone.

Implements: docs/protocols/corel-growth.md, recovery by force. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isotone.spec.check.corel.trail import Trail, event_of
from isotone.trace import corel as trace
from isotone.trace.events import Row


@dataclass(frozen=True)
class Side:
    """Of one fence."""

    whole: list[Trail]  # of its servers, also what they did on earlier sides
    own: list[Trail]  # what they did on this one
    is_last: bool


def sides_of(trails: list[Trail]) -> list[Side]:
    """By fence, the lowest first; most runs have one."""
    fenced = [(trail.server, list(_fenced(trail.rows))) for trail in trails]
    fences = sorted({fence for _, rows in fenced for fence, _ in rows})
    found = []
    for fence in fences:
        here = [(server, rows) for server, rows in fenced if any(each == fence for each, _ in rows)]
        whole = [Trail(server, [row for each, row in rows if each <= fence]) for server, rows in here]
        own = [Trail(server, [row for each, row in rows if each == fence]) for server, rows in here]
        found.append(Side(whole, own, fence == fences[-1]))
    return found


def _fenced(rows: list[Row]) -> Iterator[tuple[int, Row]]:
    """Each row with the fence that its server knew then."""
    fence = 0
    for row in rows:
        if isinstance(row.entry, trace.ReplicaStarted | trace.Fenced):
            fence = row.entry.fence
        yield fence, row


def kept_by(side: Side) -> list[Row]:
    """Its rows about states: one that a server installed on an earlier side is one that it keeps on this one."""
    own = {event_of(row) for trail in side.own for row in trail.rows}
    return [row if event_of(row) in own else _kept(row) for trail in side.whole for row in trail.rows]


def _kept(row: Row) -> Row:
    entry = row.entry
    if not isinstance(entry, trace.StateInstalled):
        return row
    kept = trace.SnapshotKept(entry.server, entry.place, entry.position, entry.digest)
    return Row(row.node, row.incarnation, row.index, row.at, kept)
