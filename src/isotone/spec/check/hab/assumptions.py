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
        _judge_detectors(rows, alive, struck, account)


def _judge_complete(
    rows: Sequence[Row],
    lives: Sequence[Life],
    alive: set[str],
    struck: dict[str, tuple[int, EventId]],
    account: Account,
) -> None:
    """At every centre that goes on: it recorded the declaration, or its state is younger than the disaster."""
    returned = {life.centre for life in lives if life.process in alive}
    going_on = {life.centre for life in lives if life.is_last and life.process in alive and life.out is None}
    knows = {(row.entry.centre, row.entry.lost) for row in rows if isinstance(row.entry, trace.HaDeclared)}
    for centre, (at, event) in struck.items():
        if centre in returned:
            continue
        young = {
            row.entry.centre
            for row in rows
            if isinstance(row.entry, trace.HaInstalled) and not row.entry.replayed and row.at > at
        }
        for other in sorted(going_on - young):
            account.exercised.add("ASSUME-COMPLETE")
            if (other, centre) not in knows:
                account.accuse("ASSUME-COMPLETE", (event,), f"the disaster of {centre} is not known at {other}.")


def _judge_detectors(
    rows: Sequence[Row], alive: set[str], struck: dict[str, tuple[int, EventId]], account: Account
) -> None:
    """By what each living process suspects at the end."""
    last: dict[str, tuple[Row, tuple[str, ...]]] = {}
    newest: dict[str, int] = {}
    centres: dict[str, dict[str, Row]] = {}  # of each process its last role
    for row in rows:
        entry = row.entry
        if isinstance(entry, trace.HaRole):
            centres.setdefault(entry.centre, {})[entry.process] = row
            newest[entry.process] = max(row.incarnation, newest.get(entry.process, 0))
        if isinstance(entry, trace.HaSuspected):
            last[entry.process] = (row, entry.suspects)
    for centre, known in centres.items():
        processes = known.keys() & alive
        if not processes:
            continue
        account.exercised.add("ASSUME-DETECTOR")
        now = {each: last[each] for each in processes if each in last and last[each][0].incarnation == newest[each]}
        suspected = {each for _, suspects in now.values() for each in suspects}
        if processes <= suspected:
            events = [event_of(now[process][0]) for process in sorted(now)]
            account.accuse("ASSUME-DETECTOR", events, f"in {centre} every process is suspected by another.")
        if centre in struck:
            continue  # with fewer than a majority nothing is asked of it
        for gone in sorted(known.keys() - alive):
            account.exercised.add("ASSUME-SUSPICION")
            for process in sorted(processes):
                if process not in now or gone not in now[process][1]:
                    text = f"{gone} is gone, and {process} does not suspect it."
                    account.accuse("ASSUME-SUSPICION", (event_of(known[gone]), event_of(known[process])), text)
