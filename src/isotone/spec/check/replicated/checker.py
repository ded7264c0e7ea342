"""Every checker of replicated objects over one run; rows are collected and judged at the end.

Implements: [DESIGN 4], [COReL 8]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account, CollectedRows
from isotone.spec.check.replicated.histories import event_of, histories_of
from isotone.spec.check.replicated.holding import Holding, judge_holdings
from isotone.spec.check.replicated.linear import MODELS, NEVER, TooLarge, is_linearizable, witness_of
from isotone.spec.check.replicated.provisional import judge_provisional
from isotone.spec.check.replicated.watching import judge_owned, judge_watches
from isotone.spec.replicated_properties import REPLICATED_PROPERTIES
from isotone.spec.verdicts import EventId, State, Verdict
from isotone.trace import replicated as trace
from isotone.trace.events import Row

ENTRIES = (
    trace.ObjectCalled,
    trace.ObjectAnswered,
    trace.ObjectHeld,
    trace.ObjectLost,
    trace.StateReached,
    trace.CommandOrdered,
    trace.ItemsLeft,
)


class ReplicatedChecker(CollectedRows):
    """Takes rows of `ENTRIES`, and judges them at the end."""

    def missing(self) -> set[str]:
        """Objects begin with nothing: of a node that tells of them, all earlier incarnations are asked for."""
        homes = {(row.node, row.incarnation) for row in self._rows}
        asked = {(node, each) for node, incarnation in homes for each in range(1, incarnation)}
        return {f"{node}#{incarnation}" for node, incarnation in asked - homes}

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """The verdicts."""
        account = Account(REPLICATED_PROPERTIES)
        rows = sorted(self._rows, key=event_of)
        calls = {row.entry.operation: row for row in rows if isinstance(row.entry, trace.ObjectCalled)}
        answers = {row.entry.operation: row for row in rows if isinstance(row.entry, trace.ObjectAnswered)}
        unjudged = _judge_linear(calls, answers, account)
        holdings = _holdings(rows)
        judge_holdings(holdings, account)
        judge_owned(holdings, calls, answers, account)
        judge_watches(calls, answers, account)
        _judge_items(rows, calls, answers, account)
        _judge_commitments(calls, answers, account)
        _judge_states(rows, account)
        judge_provisional(rows, calls, answers, account)
        verdicts = account.verdicts(lossy=lossy or self._is_torn, liveness=liveness)
        if unjudged and verdicts["REP-LINEAR"].state is not State.VIOLATED:
            verdicts["REP-LINEAR"] = Verdict(State.NOT_JUDGED)
        return verdicts


def _judge_linear(calls: dict[str, Row], answers: dict[str, Row], account: Account) -> bool:
    """Whether some history was too large to judge."""
    unjudged = False
    for (kind, name, key), history in sorted(histories_of(calls, answers).items()):
        model = MODELS[kind]
        if sum(each.answer is not None for each in history) > 1:
            account.exercised.add("LINEAR")
        try:
            if is_linearizable(history, model):
                continue
            witness = witness_of(history, model)
        except TooLarge:
            unjudged = True
            continue
        told = "; ".join(
            f"{each.method}({each.argument}) = {'?' if each.answer is None else each.answer}" for each in witness
        )
        events = [event for each in witness for event in each.events]
        account.accuse("LINEAR", events, f"No order explains {name} {key}".rstrip() + f": {told}.")
    return unjudged


def _holdings(rows: list[Row]) -> list[Holding]:
    lost = {(row.entry.operation, row.entry.fence): row for row in rows if isinstance(row.entry, trace.ObjectLost)}
    found = []
    for row in rows:
        held = row.entry
        if not isinstance(held, trace.ObjectHeld):
            continue
        end, how = NEVER, ""
        events: tuple[EventId, ...] = (event_of(row),)
        over = lost.get((held.operation, held.fence))
        if over is not None:
            assert isinstance(over.entry, trace.ObjectLost)
            end, how, events = over.entry.wall, over.entry.how, (event_of(row), event_of(over))
        found.append(
            Holding(
                operation=held.operation,
                kind_of=held.kind_of,
                name=held.name,
                fence=held.fence,
                shared=held.shared,
                permits=held.permits,
                begin=held.wall,
                end=end,
                how=how,
                events=events,
            )
        )
    return found


def _judge_items(rows: list[Row], calls: dict[str, Row], answers: dict[str, Row], account: Account) -> None:
    """An item whose put was answered is left, or was finished, or may have been."""
    left: dict[str, set[str]] = {}
    for row in rows:
        if isinstance(row.entry, trace.ItemsLeft):
            left.setdefault(row.entry.name, set()).update(row.entry.items)
    finished = _finished(calls, answers)
    for operation, row in calls.items():
        called, answered = row.entry, answers.get(operation)
        assert isinstance(called, trace.ObjectCalled)
        if called.method != "put" or answered is None or called.name not in left:
            continue
        entry = answered.entry
        assert isinstance(entry, trace.ObjectAnswered)
        if entry.answer != "done":
            continue
        account.exercised.add("QUEUE")
        if entry.result not in left[called.name] and (called.name, entry.result) not in finished:
            account.accuse(
                "QUEUE",
                (event_of(row), event_of(answered)),
                f"Item {entry.result} of {called.name} is not left, and nobody finished it.",
            )


def _finished(calls: dict[str, Row], answers: dict[str, Row]) -> set[tuple[str, str]]:
    """Items of which a taker said that it is done, and was not told that it was no longer its own."""
    found = set()
    for operation, row in calls.items():
        called, answered = row.entry, answers.get(operation)
        assert isinstance(called, trace.ObjectCalled)
        if called.method == "done":
            entry = None if answered is None else answered.entry
            assert entry is None or isinstance(entry, trace.ObjectAnswered)
            if entry is None or (entry.answer, entry.result) == ("done", "1"):
                found.add((called.name, called.key))
    return found


def _judge_commitments(calls: dict[str, Row], answers: dict[str, Row], account: Account) -> None:
    votes: dict[str, list[Row]] = {}
    for row in calls.values():
        assert isinstance(row.entry, trace.ObjectCalled)
        if row.entry.method == "vote":
            votes.setdefault(row.entry.name, []).append(row)
    for name, voted in sorted(votes.items()):
        entries = [(row, row.entry) for row in voted if isinstance(row.entry, trace.ObjectCalled)]
        heard = [(answers[entry.operation], entry) for _, entry in entries if entry.operation in answers]
        decisions: dict[str, Row] = {}
        for row, _ in heard:
            assert isinstance(row.entry, trace.ObjectAnswered)
            if row.entry.answer == "done":
                decisions.setdefault(row.entry.result, row)
        if len(heard) > 1:
            account.exercised.add("COMMIT")
        if len(decisions) > 1:
            account.accuse("COMMIT", map(event_of, decisions.values()), f"{name} was decided in two ways.")
        if "commit" in decisions:
            _judge_commit(name, entries, decisions["commit"], account)


def _judge_commit(name: str, entries: list[tuple[Row, trace.ObjectCalled]], decided: Row, account: Account) -> None:
    """Every participant voted, and none of them no."""
    account.exercised.add("COMMIT")
    participants = {each for _, entry in entries for each in entry.argument.split()[1:]}
    yes = {entry.server for _, entry in entries if entry.argument.startswith("yes ")}
    for row, entry in entries:
        if entry.argument.startswith("no "):
            account.accuse("COMMIT", (event_of(row), event_of(decided)), f"{name}: {entry.server} voted no.")
    if lacking := sorted(participants - yes):
        account.accuse("COMMIT", (event_of(decided),), f"{name} was committed without the vote of {lacking[0]}.")


def _judge_states(rows: list[Row], account: Account) -> None:
    first: dict[int, Row] = {}
    for row in rows:
        reached = row.entry
        if not isinstance(reached, trace.StateReached):
            continue
        known = first.setdefault(reached.place, row)
        assert isinstance(known.entry, trace.StateReached)
        if known is row:
            continue
        if known.node != row.node:
            account.exercised.add("STATE")
        if known.entry.digest != reached.digest:
            account.accuse(
                "STATE",
                (event_of(known), event_of(row)),
                f"At place {reached.place} {known.entry.server} and {reached.server} have different states.",
            )
