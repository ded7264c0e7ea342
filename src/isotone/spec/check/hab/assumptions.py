"""What the paper takes for granted, judged on the record: a violated assumption is no broken promise.

Implements: [HAB 2.1], [HAB 2.2]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.spec.check.account import Account
from isotone.spec.check.hab.lives import Life, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import hab as trace
from isotone.trace.events import Row


def judge_assumptions(
    rows: Sequence[Row], lives: Sequence[Life], alive: set[str], account: Account, *, owes: bool
) -> None:
    """Accuracy and completeness of declarations; the local detectors at the end."""
    struck: dict[str, tuple[int, EventId]] = {}
    for row in rows:
        if isinstance(row.entry, trace.HaDisaster):
            struck.setdefault(row.entry.centre, (row.at, event_of(row)))
    for row in rows:
        entry = row.entry
        if isinstance(entry, trace.HaDeclared) and entry.effective:
            account.exercised.add("ASSUME-ACCURACY")
            known = struck.get(entry.lost)
            if known is None or known[0] > row.at:
                text = f"{entry.lost} is declared lost at {entry.centre} while it has a majority."
                account.accuse("ASSUME-ACCURACY", (event_of(row),), text)
    if owes:
        _judge_complete(rows, lives, alive, struck, account)
        _judge_detectors(rows, alive, account)


def _judge_complete(
    rows: Sequence[Row],
    lives: Sequence[Life],
    alive: set[str],
    struck: dict[str, tuple[int, EventId]],
    account: Account,
) -> None:
    returned = {life.centre for life in lives if life.process in alive}
    declared = {(row.node, row.entry.lost) for row in rows if isinstance(row.entry, trace.HaDeclared)}
    for centre, (_, event) in struck.items():
        if centre in returned:
            continue
        account.exercised.add("ASSUME-COMPLETE")
        if not any(lost == centre for _, lost in declared):
            account.accuse("ASSUME-COMPLETE", (event,), f"the disaster of {centre} was declared nowhere.")


def _judge_detectors(rows: Sequence[Row], alive: set[str], account: Account) -> None:
    last: dict[str, tuple[Row, tuple[str, ...]]] = {}
    for row in rows:
        if isinstance(row.entry, trace.HaSuspected):
            last[row.entry.process] = (row, row.entry.suspects)
    centres: dict[str, set[str]] = {}
    for row in rows:
        if isinstance(row.entry, trace.HaRole) and row.entry.process in alive:
            centres.setdefault(row.entry.centre, set()).add(row.entry.process)
    for centre, processes in centres.items():
        account.exercised.add("ASSUME-DETECTOR")
        suspected = {each for process in processes if process in last for each in last[process][1]}
        if processes <= suspected:
            events = [event_of(last[process][0]) for process in sorted(processes) if process in last]
            account.accuse("ASSUME-DETECTOR", events, f"in {centre} every process is suspected by another.")
