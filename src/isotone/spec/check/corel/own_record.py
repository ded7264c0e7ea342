"""A server's record is about that server: what a row says of itself can be, whatever others tell.

Implements: [COReL 3.1], [COReL 5.6.1], who takes part. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.spec.check.account import Account
from isotone.spec.check.corel.trail import event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Entry, Row

TOGETHER = (trace.PrimaryAttempted, trace.PrimaryCommitted, trace.PrimaryEstablished, trace.OrderDue)
"""Entries that name servers of which the one that tells is one."""


def judge_names(rows: Iterable[Row], account: Account) -> None:
    """Every row by itself, and with the first one of its node."""
    first: dict[str, tuple[str, EventId]] = {}
    for row in sorted(rows, key=event_of):
        entry, event = row.entry, event_of(row)
        server: str = entry.server  # type: ignore[attr-defined]
        known, since = first.setdefault(row.node, (server, event))
        if since != event:
            account.exercised.add("RECORD")
        if known != server:
            text = f"The record of {known} has a row of {server}."
            account.accuse("RECORD", (since, event), text, proven=True)
        if fault := _fault(entry, server):
            account.accuse("RECORD", (event,), f"{server} {fault}.", proven=True)


def _fault(entry: Entry, server: str) -> str:
    servers: tuple[str, ...] = getattr(entry, "servers", ())
    if len(set(servers)) < len(servers):
        return f"names a server twice: {' '.join(servers)}"
    if isinstance(entry, TOGETHER) and server not in servers:
        return f"is not among {' '.join(servers) or 'nobody'}, with whom it does this"
    if isinstance(entry, trace.Greened) and len(entry.messages) != len(entry.digests):
        return f"has {len(entry.messages)} messages green, with {len(entry.digests)} contents"
    return ""
