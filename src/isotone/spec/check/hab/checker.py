"""Every checker of hierarchical atomic broadcast over one run. Rows are collected and judged at the end; no order
across processes is assumed.

Implements: [HAB 2.4], [HAB 3.1]; assumptions of [HAB 2.1] and [HAB 2.2]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account, CollectedRows
from isotone.spec.check.hab.assumptions import judge_assumptions
from isotone.spec.check.hab.lives import Life, event_of, lives_of
from isotone.spec.check.hab.order import DeliveredOrder
from isotone.spec.hab_properties import HAB_PROPERTIES
from isotone.spec.verdicts import EventId, State, Verdict
from isotone.trace import hab as trace
from isotone.trace.events import Row

ENTRIES = (
    trace.HaBroadcast,
    trace.HaDelivered,
    trace.HaRole,
    trace.HaInstalled,
    trace.HaDeclared,
    trace.HaDisaster,
    trace.HaSuspected,
    trace.HaCrossed,
)


class HabChecker(CollectedRows):
    """Takes rows of `ENTRIES`, and judges them at the end."""

    def missing(self) -> set[str]:
        """Processes of which others deliver messages and that have no row, or none in that incarnation."""
        there = {getattr(row.entry, "process", "") for row in self._rows}
        told = {_origin(row.entry.message) for row in self._rows if isinstance(row.entry, trace.HaBroadcast)}
        named = {
            _origin(message)
            for row in self._rows
            if isinstance(row.entry, trace.HaDelivered)
            for message in row.entry.messages
        }
        return {origin if (process := origin.rpartition(".")[0]) in there else process for origin in named - told}

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """The verdicts; ``components`` are who reached whom when the run was stable."""
        account = Account(HAB_PROPERTIES)
        lives = lives_of(self._rows)
        alive = {name for component in components for name in component}
        owes = liveness is None and bool(alive)
        order = DeliveredOrder(lives, self._rows, account, alive if owes else set())
        order.judge(owes=owes)
        _judge_epochs(lives, account)
        _judge_fences(lives, account)
        _judge_ahead(self._rows, account)
        _judge_numbers(lives, account)
        if owes:
            _judge_liveness(lives, self._rows, alive, order, account)
        judge_assumptions(self._rows, lives, alive, account, owes=owes)
        return account.verdicts(lossy=lossy or self._is_torn, liveness=liveness)


def _origin(message: str) -> str:
    return message.rpartition(":")[0]


def _judge_epochs(lives: list[Life], account: Account) -> None:
    owners: dict[int, tuple[str, EventId]] = {}
    for life in lives:
        last: tuple[int, EventId] | None = None
        for row in life.rows:
            entry = row.entry
            if not isinstance(entry, trace.HaRole | trace.HaDelivered):
                continue
            event = event_of(row)
            account.exercised.add("EPOCHS")
            if last is not None and entry.epoch < last[0]:
                account.accuse(
                    "EPOCHS", (last[1], event), f"{life.process} went from epoch {last[0]} to {entry.epoch}."
                )
            last = (entry.epoch, event)
            if entry.role in LEADS:
                account.exercised.add("PRIMARY")
                centre, first = owners.setdefault(entry.epoch, (life.centre, event))
                if centre != life.centre:
                    text = f"{centre} and {life.centre} are both primary in epoch {entry.epoch}."
                    account.accuse("PRIMARY", (first, event), text)


def _judge_fences(lives: list[Life], account: Account) -> None:
    """Behind the fence, which is the declaration that it recorded itself, whatever it then took its role for."""
    for life in lives:
        if life.out is None:
            continue
        account.exercised.add("FENCED")
        for row in life.rows:
            if isinstance(row.entry, trace.HaDelivered) and event_of(row) > life.out:
                text = f"{life.process} delivers after it learned that its centre takes no part."
                account.accuse("FENCED", (life.out, event_of(row)), text)


def _judge_ahead(rows: list[Row], account: Account) -> None:
    for row in rows:
        entry = row.entry
        if isinstance(entry, trace.HaDelivered) and entry.role == "ahead" and entry.ahead_max:
            account.exercised.add("AHEAD")
            ahead = entry.position + len(entry.messages) - 1 - entry.confirmed
            if ahead > entry.ahead_max:
                text = f"{entry.process} is {ahead} records ahead of what is confirmed, and may be {entry.ahead_max}."
                account.accuse("AHEAD", (event_of(row),), text)


def _judge_numbers(lives: list[Life], account: Account) -> None:
    highest: dict[str, tuple[int, EventId]] = {}
    for life in lives:
        for row in life.rows:
            entry = row.entry
            if isinstance(entry, trace.HaInstalled):
                account.exercised.add("NUMBERS")
                before = highest.get(life.process)
                if before is not None and entry.number <= before[0] and not entry.replayed:
                    text = f"{life.centre} returns as number {entry.number}, and had number {before[0]}."
                    account.accuse("NUMBERS", (before[1], event_of(row)), text)
            if isinstance(entry, trace.HaRole) and entry.number > highest.get(life.process, (0, None))[0]:
                if entry.why != RETURNED:
                    highest[life.process] = (entry.number, event_of(row))


LEADS = ("primary", "ahead")
RETURNED = "it came back as a backup"


def _judge_liveness(
    lives: list[Life], rows: list[Row], alive: set[str], order: DeliveredOrder, account: Account
) -> None:
    """Owed by those who live at the end in a centre that takes part."""
    there = [life for life in lives if life.is_last and life.process in alive and _takes_part(life)]
    most = max(there, key=lambda life: life.end, default=None)
    for life in there:
        account.exercised.add("AGREEMENT")
        assert most is not None
        if life.end < most.end:
            text = f"{life.process} has delivered up to {life.end}, {most.process} up to {most.end}."
            account.accuse("AGREEMENT", (event_of(life.rows[-1]), event_of(most.rows[-1])), text)
    had = {message: position for position, message in order.agreed.items()}
    last = {life.process: life for life in there}
    for row in rows:
        entry = row.entry
        if isinstance(entry, trace.HaBroadcast) and entry.process in last:
            life = last[entry.process]
            if row.incarnation != life.incarnation or row.index < life.rows[0].index:
                continue
            account.exercised.add("VALIDITY")
            if had.get(entry.message, life.end + 1) > life.end:
                text = f"{entry.process} broadcast {entry.message} and does not deliver it."
                account.accuse("VALIDITY", (event_of(row),), text)


def _takes_part(life: Life) -> bool:
    roles = [row.entry.role for row in life.rows if isinstance(row.entry, trace.HaRole)]
    return bool(roles) and roles[-1] != "out"
