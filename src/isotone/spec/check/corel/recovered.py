"""What the recovery comes to: those who attempt a primary component together begin it with one queue.

Implements: [COReL Claim 10]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace

Queue = tuple[int, int, tuple[str, ...]]
"""The green line, the yellow line, and what is not green."""


def judge_recovered(side: Side, account: Account) -> None:
    """Only what was attempted on this side, though the queue of a server may go back to before."""
    own = {event_of(row) for trail in side.own for row in trail.rows}
    known: dict[tuple[int, tuple[str, ...]], tuple[EventId, str, Queue]] = {}
    for trail in side.whole:
        for row in trail.walk():
            if not isinstance(row.entry, trace.PrimaryAttempted) or event_of(row) not in own:
                continue
            number, servers, event = row.entry.primary, row.entry.servers, event_of(row)
            queue = (trail.green, trail.yellow, tuple(trail.queue))
            first, server, other = known.setdefault((number, servers), (event, trail.server, queue))
            if first == event:
                continue
            account.exercised.add("SAME")
            if queue != other:
                difference = _difference(other, queue)
                text = f"{server} and {trail.server} attempted primary {number} with different {difference}."
                account.accuse("SAME", (first, event), text, proven=True)


def _difference(one: Queue, two: Queue) -> str:
    if one[:2] != two[:2]:
        return f"lines: green {one[0]}, yellow {one[1]}, and green {two[0]}, yellow {two[1]}"
    return "queues"
