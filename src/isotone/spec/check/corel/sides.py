"""Runs in which an operator forced a primary: the servers before and behind each fence are judged as two groups.

Whoever comes behind a fence brings along what it had; whoever does not may go on with others like it, and order
otherwise what the survivors never saw. A log that was restored from a copy begins behind a fence too, and is another
one: what its server told before is given up, but for what the copy has. So each side has one green order, and its logs
are held to all that they ever told; but what only those could witness who stayed behind is judged on the earlier side
alone.

Implements: docs/protocols/corel-growth.md, recovery by force. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isotone.spec.check.account import Account
from isotone.spec.check.corel.records import Records
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.trace import corel as trace
from isotone.trace.events import Row


@dataclass(frozen=True)
class Side:
    """Of one fence."""

    whole: list[Trail]  # of its servers, also what they did on earlier sides
    own: list[Trail]  # what they did on this one, one for each of the whole ones
    torn: list[Trail]  # rows that mean something by themselves, behind rows that were lost
    copied: list[Row]  # states that others kept before, and that are in the copies from which logs were restored
    is_last: bool


def sides_of(records: Records, account: Account) -> list[Side]:
    """By fence, the lowest first; most runs have one."""
    fenced = [(trail, list(_fenced(trail, account))) for trail in records.trails]
    fences = sorted({fence for _, rows in fenced for fence, _ in rows} | {fence for fence, _ in records.torn})
    found = []
    for fence in fences:
        here = [(trail, rows) for trail, rows in fenced if any(each == fence for each, _ in rows)]
        whole = [_part(trail, [row for each, row in rows if each <= fence]) for trail, rows in here]
        own = [_part(trail, [row for each, row in rows if each == fence]) for trail, rows in here]
        torn = [Trail("", [row]) for each, row in records.torn if each == fence]
        found.append(Side(whole, own, torn, _copied(whole, fenced, fence), fence == fences[-1]))
    return found


def _part(trail: Trail, rows: list[Row]) -> Trail:
    return Trail(trail.server, rows, trail.began_empty, trail.is_restored)


def _copied(whole: list[Trail], fenced: list[tuple[Trail, list[tuple[int, Row]]]], fence: int) -> list[Row]:
    line = max((trail.copied_green for trail in whole), default=0)
    return [
        row
        for _, rows in fenced
        for each, row in rows
        if each < fence and isinstance(row.entry, trace.SnapshotKept) and row.entry.place <= line
    ]


def _fenced(trail: Trail, account: Account) -> Iterator[tuple[int, Row]]:
    """Each row with the fence that its server knew then; what it knew once it is held to."""
    fence, since = 0, event_of(trail.rows[0])
    for row in trail.rows:
        if isinstance(row.entry, trace.ReplicaStarted | trace.Fenced):
            if row.entry.fence < fence:
                text = f"{trail.server} falls from fence {fence} to {row.entry.fence}."
                account.accuse("EPOCHS", (since, event_of(row)), text, proven=True)
            else:
                fence, since = row.entry.fence, event_of(row)
        yield fence, row


def kept_by(side: Side) -> list[Row]:
    """Its rows about states: one that a server installed on an earlier side is one that it keeps on this one."""
    own = {event_of(row) for trail in side.own for row in trail.rows}
    told = [row if event_of(row) in own else _kept(row) for trail in side.whole for row in trail.rows]
    told += [row for trail in side.torn for row in trail.rows]
    there = {event_of(row) for row in told}
    return [*told, *(row for row in side.copied if event_of(row) not in there)]


def _kept(row: Row) -> Row:
    entry = row.entry
    if not isinstance(entry, trace.StateInstalled):
        return row
    kept = trace.SnapshotKept(entry.server, entry.place, entry.position, entry.digest)
    return Row(row.node, row.incarnation, row.index, row.at, kept)
