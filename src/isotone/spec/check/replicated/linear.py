"""Whether a history of one key is linearizable, and the shortest part of it that no order explains.

The search takes operations in every order that real time allows, and remembers where it was. An operation without an
answer may have happened at any time after its call, or never.

Implements: [COReL 2.4], one-copy equivalence. Deviations: none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import msgspec

from isotone.spec.verdicts import EventId

NEVER = 2**62
NOTHING = "-"
READS = ("get", "count", "has", "balances")
BANK_OPENING = "alice=20 bob=20 carol=20"
STEPS_MAX = 2_000_000
"""Of one search; more is not judged."""


class Operation(msgspec.Struct, frozen=True):
    """One of a history; ``answer`` is None while nobody knows whether it was done."""

    method: str
    argument: str
    answer: str | None
    called: int
    answered: int
    events: tuple[EventId, ...] = ()


Model = Callable[[str, Operation], str | None]
"""From a state and an operation to the next state, or None if its answer does not fit."""


class TooLarge(Exception):  # no error: a history that nobody can judge in time
    """The search took too many steps."""


def register(state: str, operation: Operation) -> str | None:
    """One key of a dict."""
    match operation.method:
        case "set":
            after, answer = operation.argument, ""
        case "get":
            after, answer = state, state
        case "delete":
            after, answer = NOTHING, "0" if state == NOTHING else "1"
        case "compare_and_set":
            expected, _, new = operation.argument.partition(">")
            fits = state == expected
            after, answer = new if fits else state, "1" if fits else "0"
        case _:
            raise AssertionError(operation.method)
    return after if operation.answer in (None, answer) else None


def counter(state: str, operation: Operation) -> str | None:
    """A number."""
    known = 0 if state == NOTHING else int(state)
    match operation.method:
        case "add":
            after = str(known + int(operation.argument))
        case "set":
            after = operation.argument
        case _:
            after = str(known)
    return after if operation.answer in (None, after) else None


def member(state: str, operation: Operation) -> str | None:
    """One member of a set."""
    is_there = state == "1"
    match operation.method:
        case "join":
            after, answer = "1", "0" if is_there else "1"
        case "part":
            after, answer = NOTHING, "1" if is_there else "0"
        case _:
            after, answer = state, "1" if is_there else "0"
    return after if operation.answer in (None, answer) else None


def bank(state: str, operation: Operation) -> str | None:
    """Three accounts, all of them at once: nothing comes into being, and nothing is lost."""
    told = BANK_OPENING if state == NOTHING else state
    if operation.method == "balances":
        return state if operation.answer in (None, told) else None
    balances = {owner: int(balance) for owner, balance in (each.split("=") for each in told.split())}
    parties, _, amount = operation.argument.partition(":")
    giver, _, taker = parties.partition(">")
    balances[giver] -= int(amount)
    balances[taker] += int(amount)
    if balances[giver] < 0:
        return state if operation.answer is None else None
    after = " ".join(f"{owner}={balance}" for owner, balance in balances.items())
    return after if operation.answer in (None, str(balances[giver])) else None


MODELS: dict[str, Model] = {"dict": register, "counter": counter, "set": member, "bank": bank}


def is_linearizable(history: Sequence[Operation], model: Model) -> bool:
    """Whether some order explains it. `TooLarge` when that cannot be found out in time."""
    operations = sorted(history, key=lambda each: (each.called, each.answered))
    owed = sum(1 << place for place, each in enumerate(operations) if each.answer is not None)
    seen: set[tuple[int, str]] = set()
    stack: list[tuple[int, str]] = [(0, NOTHING)]
    steps = 0
    while stack:
        taken, state = stack.pop()
        if taken & owed == owed:
            return True
        if (taken, state) in seen:
            continue
        seen.add((taken, state))
        first_answer = NEVER
        begin = (~taken & taken + 1).bit_length() - 1  # all before it are taken
        for place in range(begin, len(operations)):
            each = operations[place]
            if each.called > first_answer:
                break
            if taken >> place & 1:
                continue
            steps += 1
            after = model(state, each)
            if after is not None:
                stack.append((taken | 1 << place, after))
            if each.answer is not None:
                first_answer = min(first_answer, each.answered)
        if steps > STEPS_MAX:
            raise TooLarge
    return False


def witness_of(history: Sequence[Operation], model: Model) -> list[Operation]:
    """A part that no order explains, and without any one operation of which some order does."""
    kept = _shortest_prefix(sorted(history, key=lambda each: each.answered), model)
    place = 0
    while place < len(kept):
        rest = kept[:place] + kept[place + 1 :]
        if kept[place].method in READS and not is_linearizable(rest, model):
            kept = rest
        else:
            place += 1
    return kept


def _shortest_prefix(answered: list[Operation], model: Model) -> list[Operation]:
    """Up to the first answer with which nothing explains it; what is answered later is open until then."""
    moments = [each.answered for each in answered if each.answer is not None]
    first = bisect_left(moments, True, key=lambda until: not is_linearizable(_until(answered, until), model))
    prefix = _until(answered, moments[first]) if first < len(moments) else answered
    return [each for each in prefix if each.answer is not None or each.method not in READS]


def _until(answered: list[Operation], until: int) -> list[Operation]:
    return [
        each if each.answered <= until else msgspec.structs.replace(each, answer=None, answered=NEVER)
        for each in answered
        if each.called <= until
    ]
