"""Whether a history of one key is linearizable, and a smallest part of it that no order explains.

The search takes operations in every order that real time allows, and remembers where it was. An operation without an
answer may have happened at any time after its call, or never.

Implements: [COReL 2.4], one-copy equivalence. Deviations: none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import le

import msgspec

from isotone.spec.verdicts import EventId

NEVER = 2**62
NOTHING = "-"
UNSEEN = "~"
"""In place of each value that nobody saw."""
READS = ("get", "count", "has", "balances")
REFUSABLE = ("delete", "compare_and_set", "join", "part")
"""What is answered with 0 where it changed nothing."""
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


MODELS: dict[str, Model] = {"dict": register, "counter": counter, "set": member, "bank": bank, "pair": register}
"""By kind. A pair is two keys that only transactions change, both to one value: one register, or it is torn."""
WHOLE = frozenset({"bank", "pair"})
"""Judged as one, whatever key an operation names."""


def is_linearizable(history: Sequence[Operation], model: Model) -> bool:
    """Whether some order explains it. `TooLarge` when that cannot be found out in time."""
    return _Search(history, model).succeeds()


_Place = tuple[int, tuple[int, ...], str]
"""Of a search: which answered operations are taken (bits), how many unanswered ones of each sort, and the state."""


class _Search:
    """Depth first, and no place twice. What keeps it small, without leaving out an order that could explain more:

    - An answered operation that may be next, fits, and changes nothing wherever it fits, is taken at once.
    - Of operations that do the same, the one that must be answered first comes first; of unanswered ones, the one that
      was called first.
    - Values of a register that nobody saw or compared are one value.
    - A value that is still to be found and that nobody can write again is not overwritten.
    - Where the same operations are taken and the state is the same, whoever has used up less can do more.
    """

    def __init__(self, history: Sequence[Operation], model: Model) -> None:
        self._model = model
        known = sorted(_without_unseen(history) if model is register else history, key=_by_time)
        self._owed = [each for each in known if each.answer is not None]
        sorts: dict[tuple[str, str], list[Operation]] = {}
        for each in known:
            if each.answer is None:
                sorts.setdefault((each.method, each.argument), []).append(each)
        self._open = list(sorts.values())
        self._readers: dict[str, int] = {}  # who must find this value, as bits
        self._writers: dict[str, int] = {}  # who may write it; all bits where an unanswered one may
        if model is register:
            self._note_values()
        self._seen: dict[tuple[int, str], list[tuple[int, ...]]] = {}
        self._steps = 0

    def _note_values(self) -> None:
        for place, each in enumerate(self._owed):
            found, written = _found(each), _written(each)
            if found is not None:
                self._readers[found] = self._readers.get(found, 0) | 1 << place
            if written is not None:
                self._writers[written] = self._writers.get(written, 0) | 1 << place
        for operations in self._open:
            if (written := _written(operations[0])) is not None:
                self._writers[written] = -1

    def succeeds(self) -> bool:
        """Whether all that was answered can be taken."""
        everything = (1 << len(self._owed)) - 1
        stack: list[_Place] = [(0, (0,) * len(self._open), NOTHING)]
        while stack:
            taken, used, state = stack.pop()
            if taken == everything:
                return True
            if self._is_new(taken, used, state):
                stack += self._next(taken, used, state)
            if self._steps > STEPS_MAX:
                raise TooLarge
        return False

    def _is_new(self, taken: int, used: tuple[int, ...], state: str) -> bool:
        """Whether nobody was here who had used up no more."""
        known = self._seen.setdefault((taken, state), [])
        self._steps += len(known)
        if any(all(map(le, each, used)) for each in known):
            return False
        known.append(used)
        return True

    def _next(self, taken: int, used: tuple[int, ...], state: str) -> list[_Place]:
        """Where it can go from here, the most likely last: answered operations, the earliest answer first."""
        first_answer = NEVER
        found: dict[tuple[str, str], tuple[int, _Place]] = {}
        for place in range((~taken & taken + 1).bit_length() - 1, len(self._owed)):  # all before it are taken
            each = self._owed[place]
            if each.called > first_answer:
                break
            if taken >> place & 1:
                continue
            self._steps += 1
            first_answer = min(first_answer, each.answered)
            after = self._model(state, each)
            if after == state and each.method != "set":  # a set may be needed later
                return [(taken | 1 << place, used, state)]
            sort = (each.method, each.argument)  # whatever fits of it has one answer
            if after is not None and (sort not in found or each.answered < found[sort][0]):
                found[sort] = (each.answered, (taken | 1 << place, used, after))
        places = self._unanswered(taken, used, state, first_answer)
        places += (place for _, place in sorted(found.values(), reverse=True))
        return [place for place in places if place[2] == state or self._may_leave(state, place[0])]

    def _may_leave(self, state: str, taken: int) -> bool:
        """Whether nobody misses this value when these are taken."""
        return not self._readers.get(state, 0) & ~taken or bool(self._writers.get(state, 0) & ~taken)

    def _unanswered(self, taken: int, used: tuple[int, ...], state: str, first_answer: int) -> list[_Place]:
        places: list[_Place] = []
        for sort, operations in enumerate(self._open):
            if used[sort] < len(operations) and operations[used[sort]].called <= first_answer:
                self._steps += 1
                after = self._model(state, operations[used[sort]])
                if after is not None and after != state:
                    places.append((taken, (*used[:sort], used[sort] + 1, *used[sort + 1 :]), after))
        return places


def _by_time(operation: Operation) -> tuple[int, int]:
    return operation.called, operation.answered


def _found(operation: Operation) -> str | None:
    """The value of a register that an answered operation must have found."""
    match operation.method, operation.answer:
        case "get", answer:
            return answer
        case "delete", "0":
            return NOTHING
        case "compare_and_set", "1":
            return operation.argument.partition(">")[0]
    return None


def _written(operation: Operation) -> str | None:
    """The value of a register that the operation leaves or may leave behind."""
    match operation.method, operation.answer:
        case "set", _:
            return operation.argument
        case "delete", "1" | None:
            return NOTHING
        case "compare_and_set", "1" | None:
            return operation.argument.partition(">")[2]
    return None


def _without_unseen(history: Sequence[Operation]) -> list[Operation]:
    """The operations on a register with one name for all values that nobody saw or compared."""
    seen = {NOTHING}
    for each in history:
        if each.method == "compare_and_set":
            seen.add(each.argument.partition(">")[0])
        elif each.method == "get" and each.answer is not None:
            seen.add(each.answer)
    return [_renamed(each, seen) for each in history]


def _renamed(operation: Operation, seen: set[str]) -> Operation:
    written = _written(operation)
    if written is None or written in seen:
        return operation
    expected, separator, _ = operation.argument.rpartition(">")
    return msgspec.structs.replace(operation, argument=f"{expected}{separator}{UNSEEN}")


def witness_of(history: Sequence[Operation], model: Model) -> list[Operation]:
    """A part that no order explains, and of which nothing can be left out: without any one operation that only looked,
    or the answer of any other, some order explains the rest. Answers that do not matter come as None.
    """
    kept = _shortest_prefix(sorted(history, key=lambda each: each.answered), model)
    answered = [each for each in kept if each.answer is not None]
    for each in sorted(answered, key=lambda each: not _only_looked(each)):
        rest = _leave_out(kept, each)
        if not _is_explained(rest, model):
            kept = rest
    for each in [each for each in kept if each.answer is None]:
        rest = [other for other in kept if other is not each]
        if all(_is_explained(_leave_out(rest, other), model) for other in rest if other.answer is not None):
            kept = rest
    return sorted(kept, key=_by_time)


def _leave_out(history: Sequence[Operation], operation: Operation) -> list[Operation]:
    """What changed nothing is gone; of what may have written, nobody knows whether it was done."""
    rest = [each for each in history if each is not operation]
    return rest if _only_looked(operation) else [*rest, _unanswered(operation)]


def _only_looked(operation: Operation) -> bool:
    return operation.method in READS or (operation.method in REFUSABLE and operation.answer == "0")


def _unanswered(operation: Operation) -> Operation:
    return msgspec.structs.replace(operation, answer=None, answered=NEVER)


def _is_explained(history: Sequence[Operation], model: Model) -> bool:
    """Also where that takes too long to find out: then nothing more is left out."""
    try:
        return is_linearizable(history, model)
    except TooLarge:
        return True


def _shortest_prefix(answered: list[Operation], model: Model) -> list[Operation]:
    """Up to the first answer with which nothing explains it; what is answered later is open until then."""
    moments = [each.answered for each in answered if each.answer is not None]
    first = bisect_left(moments, True, key=lambda until: not _is_explained(_until(answered, until), model))
    prefix = _until(answered, moments[first]) if first < len(moments) else answered
    return [each for each in prefix if each.answer is not None or each.method not in READS]


def _until(answered: list[Operation], until: int) -> list[Operation]:
    return [each if each.answered <= until else _unanswered(each) for each in answered if each.called <= until]
