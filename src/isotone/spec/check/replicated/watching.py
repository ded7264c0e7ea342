"""Whether watches told all changes, and whether owned entries stayed while their owners lived.

Implements: docs/protocols/replicated.md "How it is judged". Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from isotone.spec.check.account import Account
from isotone.spec.check.replicated.histories import event_of, plain_json
from isotone.spec.check.replicated.holding import Holding
from isotone.spec.verdicts import EventId
from isotone.trace.events import Row
from isotone.trace.replicated import ObjectAnswered, ObjectCalled


class _Watch(msgspec.Struct, frozen=True):
    """What one watch told: changes as revision, key and value."""

    called: ObjectCalled
    changes: tuple[tuple[int, str, str], ...]
    events: tuple[EventId, ...]

    def covers(self, change: tuple[int, str, str]) -> bool:
        """Whether it must have told this: it is behind its beginning, and it told of something later."""
        last = self.changes[-1][0] if self.changes else 0
        return int(self.called.argument) < change[0] < last and change[1].startswith(self.called.key)


def judge_watches(calls: dict[str, Row], answers: dict[str, Row], account: Account) -> None:
    """Each tells the changes in their order and once; what one tells, every other does that covers it."""
    by_name: dict[str, list[_Watch]] = {}
    for called, answered, events in _answered(calls, answers, "watch"):
        changes = tuple((int(revision), key, value) for revision, key, value in plain_json(answered.result, list))
        by_name.setdefault(called.name, []).append(_Watch(called, changes, events))
    for name, watches in sorted(by_name.items()):
        for watch in watches:
            _judge_order(name, watch, account)
            for other in watches:
                if other is not watch:
                    _judge_pair(name, watch, other, account)


def _judge_order(name: str, watch: _Watch, account: Account) -> None:
    told = [change[:2] for change in watch.changes]
    revisions = [revision for revision, _ in told]
    if len(set(told)) < len(told) or sorted(revisions) != revisions:
        account.accuse("WATCH", watch.events, f"A watch of {name} told changes twice, or not in their order.")
    if revisions and revisions[0] <= int(watch.called.argument):
        account.accuse("WATCH", watch.events, f"A watch of {name} told a change that is not behind its revision.")


def _judge_pair(name: str, watch: _Watch, other: _Watch, account: Account) -> None:
    told = set(other.changes)
    for change in filter(other.covers, watch.changes):
        account.exercised.add("WATCH")
        if change not in told:
            revision, key, value = change
            account.accuse(
                "WATCH",
                (*watch.events, *other.events),
                f"One watch of {name} told that {key} became {value} at {revision}; another one passed over it.",
            )


def judge_owned(holdings: Iterable[Holding], calls: dict[str, Row], answers: dict[str, Row], account: Account) -> None:
    """A read of all entries that began and ended while an owner certainly lived has its entry."""
    owned = [each for each in holdings if each.kind_of == "owned"]
    for called, answered, events in _answered(calls, answers, "items"):
        if called.kind_of != "owned":
            continue
        seen = {f"{called.name}/{key}" for key in plain_json(answered.result, list)}
        for each in owned:
            if each.begin <= called.wall and answered.wall <= each.end and each.name.startswith(f"{called.name}/"):
                account.exercised.add("OWNED")
                if each.name not in seen:
                    account.accuse("OWNED", (*each.events, *events), f"{each.name} was gone while its owner lived.")


def _answered(
    calls: dict[str, Row], answers: dict[str, Row], method: str
) -> Iterator[tuple[ObjectCalled, ObjectAnswered, tuple[EventId, ...]]]:
    for operation, row in calls.items():
        called, answered = row.entry, answers.get(operation)
        assert isinstance(called, ObjectCalled)
        if called.method == method and answered is not None:
            assert isinstance(answered.entry, ObjectAnswered)
            if answered.entry.answer == "done":
                yield called, answered.entry, (event_of(row), event_of(answered))
