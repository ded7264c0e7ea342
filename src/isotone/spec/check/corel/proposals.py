"""Order proposals: who was asked, and what they said.

Implements: [COReL 7.1.3]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.corel.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import event_of
from isotone.trace import corel as trace


def judge_proposals(side: Side, account: Account) -> None:
    """Every server of the green prefix accepted what is green by a proposal; judged where it was applied or adopted.

    A server that catches up is told what others applied, perhaps long ago, among other servers than it knows yet.
    """
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
            number = row.entry.proposal if isinstance(row.entry, trace.Greened) and trail.vouches else 0
            for server in trail.servers if number else ():
                account.exercised.add("PROPOSAL")
                if (number, server) not in votes:
                    text = f"{trail.server} applied proposal {number}, which {server} never accepted."
                    account.accuse("PROPOSAL", (event_of(row),), text)
