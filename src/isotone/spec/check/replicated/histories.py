"""The operations of clients by object and key, as the check of linearizability takes them.

What concerns several keys at once becomes an operation on each of them: a transaction, or a read of many keys. Each key
is then judged alone. What an owned key had is not judged: it goes when its owner's session ends, by nobody's call.
Nor is an object that was removed.

Implements: [COReL 2.4], one-copy equivalence. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from isotone.core.errors import InputError
from isotone.spec.check.replicated.linear import MODELS, NEVER, NOTHING, READS, WHOLE, Operation
from isotone.spec.verdicts import EventId
from isotone.trace.events import Row
from isotone.trace.replicated import ObjectAnswered, ObjectCalled

Key = tuple[str, str, str]
"""Kind, name and key of what is judged alone."""
MANY = {"items": "get", "members": "has"}
"""Reads of many keys, and what they are on each."""
OWNED = "set_owned"
REMOVED = "remove"


class _Told(msgspec.Struct, frozen=True):
    """One operation as it was recorded; ``answer`` is None while nobody knows whether it was done."""

    called: ObjectCalled
    answer: str | None
    answered: int
    events: tuple[EventId, ...]

    def operation(self, method: str, argument: str, answer: str | None) -> Operation:
        return Operation(method, argument, answer, self.called.wall, self.answered, self.events)


def event_of(row: Row) -> EventId:
    """By which a row is named."""
    return (row.node, row.incarnation, row.index)


def histories_of(calls: dict[str, Row], answers: dict[str, Row]) -> dict[Key, list[Operation]]:
    """By kind, object and key: the operations that were done, or may have been."""
    histories: dict[Key, list[Operation]] = {}
    owned: dict[Key, None] = {}
    removed = set(_removals(calls))
    many = []
    for told in _told(calls, answers):
        called = told.called
        if (called.kind_of, called.name) in removed:
            continue
        if called.method in MANY:
            many.append(told)
            continue
        if called.method == OWNED:
            owned[called.kind_of, called.name, called.key] = None
        for key, operation in _on_each_key(told):
            histories.setdefault((called.kind_of, called.name, key), []).append(operation)
    for told in many:
        _read_many(told, histories)
    return {key: each for key, each in histories.items() if key not in owned}


def _removals(calls: dict[str, Row]) -> Iterator[tuple[str, str]]:
    for row in calls.values():
        if isinstance(row.entry, ObjectCalled) and row.entry.method == REMOVED:
            yield row.entry.kind_of, row.entry.name


def _told(calls: dict[str, Row], answers: dict[str, Row]) -> Iterator[_Told]:
    for name, row in calls.items():
        called = row.entry
        assert isinstance(called, ObjectCalled)
        if called.kind_of not in MODELS:
            continue
        answered = answers.get(name)
        if answered is None:
            if called.method not in READS and called.method not in MANY:  # nobody knows what a read saw
                yield _Told(called, None, NEVER, (event_of(row),))
            continue
        entry = answered.entry
        assert isinstance(entry, ObjectAnswered)
        if entry.answer == "done":
            yield _Told(called, entry.result, entry.wall, (event_of(row), event_of(answered)))


def _on_each_key(told: _Told) -> Iterator[tuple[str, Operation]]:
    called = told.called
    if called.method == "transact":
        yield from _transaction(told)
    else:
        key = "" if called.kind_of in WHOLE else called.key
        yield key, told.operation(called.method, called.argument, told.answer)


def _transaction(told: _Told) -> Iterator[tuple[str, Operation]]:
    """Of a key that is compared and set, a compare-and-set; of any other that is compared or set, a read or a write.

    Where the conditions did not hold, nobody knows which one; where there is no answer, either side may have happened.
    """
    argument = plain_json(told.called.argument, dict)
    when, then, otherwise = dict(argument["when"]), dict(argument["then"]), dict(argument["otherwise"])
    if told.answer is None:
        for writes in (then, otherwise):
            yield from ((key, told.operation("set", value, None)) for key, value in writes.items())
        return
    if told.answer == "1":
        for key, expected in when.items():
            new = then.get(key, expected)
            yield key, told.operation("compare_and_set", f"{expected}>{new}", "1")
        yield from ((key, told.operation("set", value, "")) for key, value in then.items() if key not in when)
        return
    if len(when) == 1 and not argument["revisions"] and not otherwise:
        for key, expected in when.items():
            yield key, told.operation("compare_and_set", f"{expected}>{expected}", "0")
    yield from ((key, told.operation("set", value, "")) for key, value in otherwise.items())


def _read_many(told: _Told, histories: dict[Key, list[Operation]]) -> None:
    """On every key that is known or was seen."""
    called = told.called
    assert told.answer is not None
    if called.method == "members":
        seen = dict.fromkeys(plain_json(told.answer, list), "1")
        nothing = "0"
    else:
        seen, nothing = plain_json(told.answer, dict), NOTHING
    known = [key for kind, name, key in histories if (kind, name) == (called.kind_of, called.name)]
    for key in dict.fromkeys([*known, *seen]):
        if key.startswith(called.key):
            read = told.operation(MANY[called.method], "", seen.get(key, nothing))
            histories.setdefault((called.kind_of, called.name, key), []).append(read)


def plain_json(text: str, kind: type[Any]) -> Any:
    """What was recorded as JSON."""
    try:
        plain = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InputError(f"the history has an operation that cannot be read: {error}") from error
    if not isinstance(plain, kind):
        raise InputError("the history has an operation that cannot be read")
    return plain
