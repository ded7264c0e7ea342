"""The rows of a run by server and log, and what lost rows leave of them.

Of a log that was lost with its disk nothing more is owed; nor of one that an operator gave up for a copy: then the
server comes back with another log and a higher fence. Behind a loss it is not known what a server has until its next
start, which tells all of it. Until then only rows count that mean something by themselves.

Implements: [DESIGN 4], *not judged*. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isotone.spec.check.corel.trail import Trail, event_of
from isotone.trace import corel as trace
from isotone.trace.events import Entry, Row

Losses = Mapping[str, list[tuple[int, int]]]
"""By node, where rows are missing: incarnation and index."""
ALONE = (trace.Greened, trace.PrimaryCommitted, trace.Reconfigured, trace.SnapshotKept)
"""Entries that prove something whatever stood before them."""


@dataclass
class Records:
    """Of one run."""

    trails: list[Trail] = field(default_factory=list)
    torn: list[tuple[int, Row]] = field(default_factory=list)  # behind a loss, each with the fence of its server


@dataclass
class _Server:
    """One node, as far as its rows were read."""

    losses: list[tuple[int, int]]
    trails: list[Trail] = field(default_factory=list)
    log: str = ""
    fence: int = 0
    is_torn: bool = False

    def take(self, row: Row, records: Records) -> None:
        entry = row.entry
        while self.losses and self.losses[0] < (row.incarnation, row.index):
            self.losses.pop(0)
            self.is_torn = True
        if self.is_torn and not isinstance(entry, trace.ReplicaStarted):
            if isinstance(entry, ALONE):
                records.torn.append((self.fence, row))
            return
        server = entry.server  # type: ignore[attr-defined]
        if self.is_torn:
            self.is_torn = False
            self.trails.append(Trail(server))
            self.log, self.fence = "", 0
        match entry:
            case trace.ReplicaStarted(log=other, fence=higher) if (
                self.log and other != self.log and higher > self.fence
            ):
                self.trails.append(Trail(server, is_restored=True))
                self.log, self.fence = "", 0
            case trace.DiskLost():
                self.log, self.fence = "", 0
        if not self.trails or (self.trails[-1].rows and self.trails[-1].is_lost):
            self.trails.append(Trail(server, began_empty=bool(self.trails)))
        if isinstance(entry, trace.ReplicaStarted | trace.Fenced):
            if isinstance(entry, trace.ReplicaStarted):
                self.log = entry.log or self.log
            self.fence = max(self.fence, entry.fence)
        self.trails[-1].rows.append(row)


def records_of(rows: Iterable[Row], losses: Losses) -> Records:
    """Each record in its order."""
    found = Records()
    servers: dict[str, _Server] = {}
    for row in sorted(rows, key=event_of):
        if row.node not in servers:
            servers[row.node] = _Server(sorted(losses.get(row.node, ())))
        servers[row.node].take(row, found)
    found.trails = [trail for server in servers.values() for trail in server.trails]
    return found


def servers_missing(rows: Iterable[Row]) -> set[str]:
    """Servers that took part by what others tell, or that others' promises are about, and that have no row."""
    there, named, listed = set[str](), set[str](), set[str]()
    is_asked_of_all = False
    for row in rows:
        entry = row.entry
        there.add(entry.server)  # type: ignore[attr-defined]
        named |= _senders(entry)
        match entry:
            case trace.PrimaryAttempted() | trace.PrimaryCommitted() | trace.PrimaryEstablished() | trace.OrderDue():
                named.update(entry.servers)
            case trace.ReplicaStarted() | trace.Reconfigured() | trace.StateInstalled() | trace.Fenced():
                listed.update(entry.servers)
            case trace.Whitened():
                is_asked_of_all = True
            case trace.Greened() if entry.proposal:
                is_asked_of_all = True
    return (named | listed if is_asked_of_all else named) - there


def _senders(entry: Entry) -> set[str]:
    names: tuple[str, ...] = ()
    match entry:
        case trace.Reddened() | trace.Yellowed() | trace.Greened():
            names = entry.messages
        case trace.QueueArranged() | trace.ReplicaStarted():
            names = entry.queue
    return {name.rpartition(":")[0].rpartition(".")[0] for name in names} - {""}
