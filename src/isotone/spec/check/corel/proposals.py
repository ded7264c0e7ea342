"""Order proposals: who was asked, what they said, and that they stand by it.

Implements: [COReL 7.1.3]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
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


def judge_votes(trails: list[Trail], account: Account) -> None:
    """A server votes on a proposal once, and accepts later ones only; a start finds the last that it accepted, or none.

    An earlier one may come from a server that knows less, and is rejected. None is found where a later proposal was
    known and not voted on yet.
    """
    for trail in trails:
        last: tuple[int, bool, EventId] | None = None  # the number, whether it accepted, and where
        for row in trail.rows:
            event, text = event_of(row), ""
            match row.entry:
                case trace.Voted(proposal=number, accepts=accepts):
                    if last is not None and (number == last[0] or (accepts and number < last[0])):
                        text = f"votes on proposal {number} behind {last[0]}"
                case trace.ReplicaStarted(accepted=number) if number:
                    accepts = True
                    if last is not None and number < last[0]:
                        text = f"voted on proposal {last[0]}, and came back with {number} accepted"
                    elif last is not None and (number, accepts) != last[:2] and number == last[0]:
                        text = f"rejected proposal {number}, and came back with it accepted"
                case _:
                    continue
            if last is not None:
                account.exercised.add("PROPOSAL")
                if text:
                    account.accuse("PROPOSAL", (last[2], event), f"{trail.server} {text}.", proven=True)
            if last is None or number >= last[0]:
                last = (number, accepts, event)
