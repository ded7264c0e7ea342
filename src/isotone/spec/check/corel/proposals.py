"""Order proposals: who was asked, and what they said.

Implements: [COReL 7.1.3]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import event_of
from isotone.trace import corel as trace


def judge_proposals(side: Side, account: Account) -> None:
    """Every server of the green prefix accepted what is green by a proposal; judged where it was applied or adopted.

    A server that catches up is told what others applied, perhaps long ago, among other servers than it knows yet; and
    what was applied before a fence was judged there, with the votes of those who stayed behind.
    """
    brought = {
        (row.entry.primary, row.entry.proposal)
        for whole, own in zip(side.whole, side.own, strict=True)
        for row in whole.rows[: len(whole.rows) - len(own.rows)]
        if isinstance(row.entry, trace.Greened)
    }
    votes = {
        (entry.proposal, trail.server)
        for trail in side.whole
        for entry in (row.entry for row in trail.rows)
        if isinstance(entry, trace.Voted) and entry.accepts
    }
    for trail in side.whole:  # a vote that was on disk when a crash took its row
        votes |= {
            (row.entry.accepted, trail.server) for row in trail.rows if isinstance(row.entry, trace.ReplicaStarted)
        }
    for trail in side.own:
        for row in trail.walk():
            if not isinstance(row.entry, trace.Greened) or not trail.vouches:
                continue
            number = row.entry.proposal
            for server in trail.servers if number and (row.entry.primary, number) not in brought else ():
                account.exercised.add("PROPOSAL")
                if (number, server) not in votes:
                    text = f"{trail.server} applied proposal {number}, which {server} never accepted."
                    account.accuse("PROPOSAL", (event_of(row),), text)
