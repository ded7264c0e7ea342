"""What the recovery comes to: those who attempt a primary component together begin it with one queue, and know of the
same primary as the last one; and they are one configuration, for they have the same green messages.

Implements: [COReL Claim 10], [COReL 5.6.2 Step 6]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace

Queue = tuple[int, int, tuple[str, ...], int]
"""The green line, the yellow line, what is not green, and the last committed primary."""
Members = tuple[int, tuple[str, ...]]
"""The number of a primary and its servers."""


def judge_recovered(side: Side, account: Account) -> None:
    """Only what was attempted on this side, though the queue of a server may go back to before."""
    own = {event_of(row) for trail in side.own for row in trail.rows}
    known: dict[Members, tuple[EventId, str, Queue]] = {}
    servers_of: dict[Members, tuple[EventId, str, tuple[str, ...]]] = {}
    rules: dict[Members, tuple[EventId, str, str]] = {}
    for trail in side.whole:
        for row in trail.walk():
            if not isinstance(row.entry, trace.PrimaryAttempted) or event_of(row) not in own:
                continue
            primary, event = (row.entry.primary, row.entry.servers), event_of(row)
            queue = (trail.green, trail.yellow, tuple(trail.queue), trail.committed)
            first, server, other = known.setdefault(primary, (event, trail.server, queue))
            if first != event:
                account.exercised.add("SAME")
            if queue != other:
                difference = _difference(other, queue)
                text = f"{server} and {trail.server} attempted primary {primary[0]} with different {difference}."
                account.accuse("SAME", (first, event), text, proven=True)
            if trail.servers:
                first, server, servers = servers_of.setdefault(primary, (event, trail.server, trail.servers))
                if servers != trail.servers:
                    text = f"{server} and {trail.server} attempted primary {primary[0]} with different servers."
                    account.accuse("CONFIGURATION", (first, event), text, proven=True)
            if trail.rule:
                first, server, rule = rules.setdefault(primary, (event, trail.server, trail.rule))
                if rule != trail.rule:
                    text = f"{server} and {trail.server} attempted primary {primary[0]} with different rules."
                    account.accuse("CONFIGURATION", (first, event), text, proven=True)


def _difference(one: Queue, two: Queue) -> str:
    if one[:2] != two[:2]:
        return f"lines: green {one[0]}, yellow {one[1]}, and green {two[0]}, yellow {two[1]}"
    if one[3] != two[3]:
        return f"last primaries: {one[3]} and {two[3]}"
    return "queues"
