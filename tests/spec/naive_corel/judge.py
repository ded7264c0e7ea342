"""All formulas by their labels, the verdict over a run, and where the checkers of `isotone.spec` say otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from isotone.spec.check import check
from isotone.trace import corel as trace
from isotone.trace.events import Ended, Gap, Recovered, Row, Stabilised, Truncated
from tests.spec.naive.judge import verdict
from tests.spec.naive_corel import invariants, live, servers
from tests.spec.naive_corel.history import History, sides_of

Formula = Callable[[History], Iterator[bool]]

FORMULAS: dict[str, Formula] = {
    "COR-FIFO": invariants.fifo,
    "COR-CAUSAL": invariants.causal,
    "COR-SENT": servers.sent,
    "COR-RECORD": servers.own_record,
    "COR-GREEN": invariants.no_changes_in_green,
    "COR-AGREED": invariants.agreed_green,
    "COR-YELLOW": invariants.yellow,
    "COR-ONE": invariants.one_primary,
    "COR-SAME": invariants.same_queue,
    "COR-SYNCED": invariants.synced,
    "COR-KEPT": invariants.kept,
    "COR-DURABLE": invariants.durable,
    "COR-ATTEMPTS": servers.attempts,
    "COR-QUORUM": servers.quorums,
    "COR-EPOCHS": servers.epochs,
    "COR-PHASES": servers.phases,
    "COR-WHITE": servers.white,
    "COR-CONFIGURATION": servers.one_configuration,
    "COR-STATE": servers.one_state,
    "COR-PROPOSAL": servers.accepted_by_all,
    "COR-LIVE": live.all_ordered,
}
PROVEN = {"COR-AGREED", "COR-ONE", "COR-SAME", "COR-EPOCHS", "COR-ATTEMPTS", "COR-RECORD"}
"""What single rows, or the record of a server up to them, break for certain."""
VIOLATED = "violated"
NOT_JUDGED = "not_judged"
ORDER = ("COR-GREEN", "COR-AGREED")
ABOUT_THE_ORDER = {"COR-FIFO", "COR-CAUSAL", "COR-YELLOW", "COR-DURABLE", "COR-KEPT", "COR-LIVE"}


def judge(rows: list[Row]) -> dict[str, str]:
    """Each label with *holds*, *violated*, *not_exercised* or *not_judged*."""
    sides = sides_of(rows)
    found = {label: _over_all(formula, sides) for label, formula in FORMULAS.items()}
    if is_lossy(rows):
        return {label: state if state == VIOLATED else NOT_JUDGED for label, state in found.items()}
    if live.is_left_open(sides[0]) and found["COR-LIVE"] != VIOLATED:
        found["COR-LIVE"] = NOT_JUDGED
    return found


def is_lossy(rows: list[Row]) -> bool:
    """Whether rows are missing: then a violation is one of the rows that are left, and need not be a true one."""
    return any(isinstance(row.entry, Gap | Truncated) for row in rows) or bool(_without_rows(rows))


def _without_rows(rows: list[Row]) -> set[str]:
    """Servers that took part, or whose word others' promises need, and that tell nothing."""
    told = [row.entry for row in rows if type(row.entry).__module__ == trace.__name__]
    steps = (trace.PrimaryAttempted, trace.PrimaryCommitted, trace.PrimaryEstablished, trace.OrderDue)
    is_asked = any(
        isinstance(it, trace.Whitened) or (getattr(it, "proposal", 0) and isinstance(it, trace.Greened)) for it in told
    )
    named = {name for it in told if isinstance(it, steps) or is_asked for name in getattr(it, "servers", ())}
    for it in told:
        for message in (*getattr(it, "messages", ()), *getattr(it, "queue", ())):
            named.add(message.rpartition(".")[0])
    return named - {it.server for it in told}  # type: ignore[attr-defined]


def _over_all(formula: Formula, sides: list[History]) -> str:
    return verdict(chain.from_iterable(map(formula, sides)))


def disagreements(rows: list[Row], dumb: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Labels with both verdicts, the dumb one first (given, if it is known already); empty if all is well.

    Where two servers do not agree on what is green, or one changes it, what stands before a message depends on whom one
    believes: the five properties that ask for it are not compared then. And the checkers know what a sender had by the
    last message of each other sender, which says all only where FIFO holds: else Causal is not compared.
    """
    dumb = dumb or judge(rows)
    streaming = {label: each.state.value for label, each in check(about_servers(rows)).verdicts.items()}
    left_out = set[str]()
    if any(dumb[label] == streaming[label] == VIOLATED for label in ORDER):
        left_out |= ABOUT_THE_ORDER
    if dumb["COR-FIFO"] == streaming["COR-FIFO"] == VIOLATED:
        left_out.add("COR-CAUSAL")
    if is_lossy(rows):  # all others may need what was lost: then the checkers accuse nobody of it
        left_out |= {label for label in FORMULAS.keys() - PROVEN if streaming[label] != VIOLATED}
    return {
        label: (dumb[label], streaming[label])
        for label in FORMULAS.keys() - left_out
        if dumb[label] != streaming[label]
    }


def about_servers(rows: list[Row]) -> list[Row]:
    """Without what is told of the daemons below them, which takes most of the time."""
    kept = (Stabilised, Ended, Gap, Truncated, Recovered)
    return [row for row in rows if isinstance(row.entry, kept) or type(row.entry).__module__ == trace.__name__]
