"""The checkers of replicated objects accept good histories and catch broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.spec.check.replicated import ReplicatedChecker, linear
from isotone.spec.check.replicated.linear import (
    NEVER,
    Operation,
    TooLarge,
    counter,
    is_linearizable,
    register,
    witness_of,
)
from isotone.spec.replicated_properties import replicated_labels
from isotone.spec.verdicts import State
from isotone.trace import replicated as trace
from isotone.trace.events import Entry, Row


def op(method: str, argument: str, answer: str | None, called: int, answered: int = NEVER) -> Operation:
    return Operation(method, argument, answer, called, answered)


GOOD = {
    "one after another": [op("set", "1", "", 0, 1), op("get", "", "1", 2, 3)],
    "at one time": [op("set", "1", "", 0, 9), op("get", "", "-", 1, 2), op("get", "", "1", 3, 4)],
    "never answered, and seen": [op("set", "1", None, 0), op("get", "", "1", 5, 6)],
    "never answered, and never done": [op("set", "1", None, 0), op("get", "", "-", 5, 6)],
    "compare and set": [op("set", "1", "", 0, 1), op("compare_and_set", "1>2", "1", 2, 3), op("get", "", "2", 4, 5)],
}
BROKEN = {
    "stale read": [op("set", "1", "", 0, 1), op("get", "", "-", 2, 3)],
    "lost update": [op("set", "1", "", 0, 1), op("set", "2", "", 2, 3), op("get", "", "1", 4, 5)],
    "two writers": [
        op("compare_and_set", "->1", "1", 0, 5),
        op("compare_and_set", "->2", "1", 1, 6),
    ],
    "reordered": [op("set", "1", "", 0, 9), op("get", "", "1", 1, 2), op("get", "", "-", 3, 4)],
    "out of nothing": [op("get", "", "7", 0, 1)],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_good_histories_are_accepted(history: list[Operation]) -> None:
    assert is_linearizable(history, register)


NOISE = [
    op("delete", "", "0", -6, -5),
    op("get", "", "-", -4, -3),
    op("compare_and_set", "5>6", "0", -4, 90),
    op("set", "9", None, 0),
    op("set", "8", "", 92, 93),
    op("get", "", "8", 94, 95),
    op("set", "7", "", 100, 101),
]
"""Explained, before, during and behind what is not."""


@pytest.mark.parametrize("history", BROKEN.values(), ids=BROKEN)
def test_broken_histories_are_caught_with_a_witness_and_nothing_else(history: list[Operation]) -> None:
    assert is_linearizable(NOISE, register)
    assert not is_linearizable([*history, *NOISE], register)
    witness = witness_of([*history, *NOISE], register)
    assert not is_linearizable(witness, register)
    assert {(each.method, each.argument, each.called) for each in witness} == {
        (each.method, each.argument, each.called) for each in history
    }


@pytest.mark.parametrize("history", BROKEN.values(), ids=BROKEN)
def test_nothing_can_be_left_out_of_a_witness(history: list[Operation]) -> None:
    witness = witness_of([*history, *NOISE], register)
    for each in witness:
        rest = [other for other in witness if other is not each]
        if each.method != "get":
            rest.append(op(each.method, each.argument, None, each.called))
        assert each.answer is None or is_linearizable(rest, register)


def test_a_witness_leaves_out_reads_that_do_not_matter() -> None:
    history = [op("set", "1", "", 0, 1), op("get", "", "1", 2, 3), op("get", "", "1", 4, 5), op("get", "", "-", 6, 7)]
    assert [each.answer for each in witness_of(history, register)] == ["", "-"]


def test_what_waits_for_the_end_of_a_partition_is_judged() -> None:
    """Forty operations at one time, and a read that was answered after what it missed."""
    writes = [op("set", str(number), "", number, 1000 + number % 7) for number in range(30)]
    deletes = [op("delete", "", str(number % 2), 30 + number, 1000) for number in range(4)]
    reads = [op("get", "", str(number), 40 + number, 1000) for number in range(0, 30, 5)]
    lost = [op("set", f"x{number}", None, number) for number in range(10)]
    held = [*writes, *deletes, *reads, *lost]
    assert is_linearizable([*held, op("set", "new", "", 1010, 1011), op("get", "", "new", 1012, 1013)], register)
    assert not is_linearizable([*held, op("set", "new", "", 1010, 1011), op("get", "", "5", 1012, 1013)], register)


def explained(history: Sequence[Operation]) -> bool:
    """The dumb second version: all orders, one after another."""
    known = [each for each in history if each.answer is not None]
    unknown = [each for each in history if each.answer is None]
    for bits in range(1 << len(unknown)):
        chosen = known + [each for place, each in enumerate(unknown) if bits >> place & 1]
        for order in permutations(chosen):
            if any(b.answered < a.called for place, a in enumerate(order) for b in order[place + 1 :]):
                continue
            state: str | None = "-"
            for each in order:
                state = register(state, each) if state is not None else None
            if state is not None:
                return True
    return False


operations = st.builds(
    lambda method, called, length, answer: Operation(
        method[0], method[1], answer(method), called, NEVER if answer(method) is None else called + length
    ),
    st.sampled_from([("set", "1"), ("set", "2"), ("get", ""), ("delete", ""), ("compare_and_set", "1>2")]),
    st.integers(0, 8),
    st.integers(1, 5),
    st.sampled_from(
        [
            lambda m: None,
            lambda m: {"set": "", "get": "1"}.get(m[0], "1"),
            lambda m: {"set": "", "get": "-"}.get(m[0], "0"),
        ]
    ),
)


@given(st.lists(operations, max_size=5))
def test_the_search_agrees_with_trying_all_orders(history: list[Operation]) -> None:
    assert is_linearizable(history, register) == explained(history)


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "STEPS_MAX", 10)
    with pytest.raises(TooLarge):
        is_linearizable(
            [op("add", str(2**number), None, 0) for number in range(9)] + [op("count", "", "x", 1, 2)], counter
        )


# --- whole traces ----------------------------------------------------------------------------------------------------


def states(entries: Sequence[Entry]) -> dict[str, State]:
    checker, numbers = ReplicatedChecker(), count()
    for entry in entries:
        checker.feed(Row(entry.server, 1, next(numbers), 0, entry))  # type: ignore[attr-defined]
    assert len(checker) == len(entries)
    return {label: each.state for label, each in checker.finish(lossy=False, liveness=None, components=()).items()}


def asked(operation: str, kind: str, name: str, method: str, argument: str, *more: Any) -> list[Entry]:
    result, at, key = (*more, "")[:3]
    server = operation[0]
    return [
        trace.ObjectCalled(server, operation, kind, name, method, key, argument, at),
        trace.ObjectAnswered(server, operation, "done", result, at + 1),
    ]


def ordered(*commands: str) -> list[Entry]:
    """From place 1 on, each of a call of its own; one that is told in capitals counts for nothing."""
    return [
        trace.CommandOrdered("a", place, "t", f"7.{place}", each.lower(), each.islower())
        for place, each in enumerate(commands, 1)
    ]


def owned(begin: int, end: int) -> list[Entry]:
    return [
        trace.ObjectHeld("a", "a1", "owned", "workers/a1", 3, False, 1, begin),
        trace.ObjectLost("a", "a1", 3, "released", end),
    ]


def watched(operation: str, after: int, *changes: tuple[int, str, str]) -> list[Entry]:
    told = msgspec.json.encode(changes).decode()
    return asked(operation, "watch", "stock", "watch", str(after), told, 0)


def held(operation: str, fence: int, begin: int, end: int, *more: str) -> list[Entry]:
    kind, how = (*more, *("lock", "released")[len(more) :])
    server, name = operation[0], "jobs#5" if kind == "item" else kind
    shared, permits = kind == "semaphore", 1
    return [
        trace.ObjectHeld(server, operation, kind, name, fence, shared, permits, begin),
        trace.ObjectLost(server, operation, fence, how, end),
    ]


CASES: dict[str, tuple[list[Entry], str, State]] = {
    "in turn": (held("a1", 1, 0, 5) + held("b1", 2, 5, 9), "REP-HELD", State.HOLDS),
    "two holders": (held("a1", 1, 0, 5) + held("b1", 2, 4, 9), "REP-HELD", State.VIOLATED),
    "one fence": (held("a1", 1, 0, 5) + held("b1", 1, 6, 9), "REP-FENCE", State.VIOLATED),
    "a lower fence": (held("a1", 2, 0, 5) + held("b1", 1, 6, 9), "REP-FENCE", State.VIOLATED),
    "two leaders": (held("a1", 1, 0, 5, "leader") + held("b1", 2, 4, 9, "leader"), "REP-LEADER", State.VIOLATED),
    "one leader": (held("a1", 1, 0, 5, "leader") + held("b1", 2, 6, 9, "leader"), "REP-LEADER", State.HOLDS),
    "permits": (held("a1", 1, 0, 5, "semaphore") + held("b1", 2, 4, 9, "semaphore"), "REP-HELD", State.VIOLATED),
    "done twice": (held("a1", 1, 0, 5, "item", "done") + held("b1", 2, 6, 9, "item"), "REP-QUEUE", State.VIOLATED),
    "item lost": (
        [*asked("a1", "queue", "jobs", "put", "x", "7", 0), trace.ItemsLeft("a", "jobs", ())],
        "REP-QUEUE",
        State.VIOLATED,
    ),
    "item lost by its taker": (
        [
            *asked("a1", "queue", "jobs", "put", "x", "5", 0),
            *held("b1", 1, 2, 3, "item", "crashed"),
            trace.ItemsLeft("a", "jobs", ()),
        ],
        "REP-QUEUE",
        State.VIOLATED,
    ),
    "item finished by another": (
        [
            *asked("a1", "queue", "jobs", "put", "x", "5", 0),
            *held("b1", 1, 2, 3, "item", "lost"),
            *asked("b2", "queue", "jobs", "done", "", "0", 4, "5"),
            trace.ItemsLeft("a", "jobs", ()),
        ],
        "REP-QUEUE",
        State.VIOLATED,
    ),
    "item finished": (
        [
            *asked("a1", "queue", "jobs", "put", "x", "5", 0),
            *held("b1", 1, 2, 3, "item", "done"),
            *asked("b2", "queue", "jobs", "done", "", "1", 4, "5"),
            trace.ItemsLeft("a", "jobs", ()),
        ],
        "REP-QUEUE",
        State.HOLDS,
    ),
    "item perhaps finished": (
        [
            *asked("a1", "queue", "jobs", "put", "x", "5", 0),
            *held("b1", 1, 2, 3, "item", "crashed"),
            *asked("b2", "queue", "jobs", "done", "", "1", 4, "5")[:1],
            trace.ItemsLeft("a", "jobs", ()),
        ],
        "REP-QUEUE",
        State.HOLDS,
    ),
    "item left": (
        [*asked("a1", "queue", "jobs", "put", "x", "7", 0), trace.ItemsLeft("a", "jobs", ("7",))],
        "REP-QUEUE",
        State.HOLDS,
    ),
    "states differ": ([trace.StateReached("a", 8, 1), trace.StateReached("b", 8, 2)], "REP-STATE", State.VIOLATED),
    "states equal": ([trace.StateReached("a", 8, 1), trace.StateReached("b", 8, 1)], "REP-STATE", State.HOLDS),
    "two decisions": (
        asked("a1", "commitment", "deal", "vote", "yes a b", "commit", 0)
        + asked("b1", "commitment", "deal", "vote", "yes a b", "abort", 0),
        "REP-COMMIT",
        State.VIOLATED,
    ),
    "committed against a no": (
        asked("a1", "commitment", "deal", "vote", "yes a b", "commit", 0)
        + asked("b1", "commitment", "deal", "vote", "no a b", "commit", 0),
        "REP-COMMIT",
        State.VIOLATED,
    ),
    "committed without a vote": (
        asked("a1", "commitment", "deal", "vote", "yes a b", "commit", 0),
        "REP-COMMIT",
        State.VIOLATED,
    ),
    "money out of nothing": (
        asked("a1", "bank", "bank", "transfer", "alice>bob:3", "17", 0)
        + asked("b1", "bank", "bank", "balances", "", "alice=17 bob=24 carol=20", 5),
        "REP-LINEAR",
        State.VIOLATED,
    ),
    "money moved": (
        asked("a1", "bank", "bank", "transfer", "alice>bob:3", "17", 0)
        + asked("b1", "bank", "bank", "balances", "", "alice=17 bob=23 carol=20", 5),
        "REP-LINEAR",
        State.HOLDS,
    ),
    "more than there was": (
        asked("a1", "bank", "bank", "transfer", "alice>bob:30", "-10", 0)
        + asked("b1", "bank", "bank", "balances", "", "alice=-10 bob=50 carol=20", 5),
        "REP-LINEAR",
        State.VIOLATED,
    ),
    "red additions": (
        [*ordered("add+5"), *asked("a1", "tally", "t", "tally_read", "", "1 7.9:add+3:1,7.8:double:1 8", 0)],
        "REP-RED",
        State.HOLDS,
    ),
    "red and green by now": (
        [
            *ordered("add+5", "DOUBLE", "double"),
            *asked("a1", "tally", "t", "tally_read", "", "3 7.1:add+5:1,7.4:add+1:1 11", 0),
        ],
        "REP-RED",
        State.HOLDS,
    ),
    "red twice, and of a session that is over": (
        [*ordered("add+5"), *asked("a1", "tally", "t", "tally_read", "", "1 7.9:add+3:1,7.9:add+3:1,6.1:add+9:0 8", 0)],
        "REP-RED",
        State.HOLDS,
    ),
    "refused where it stands first, and its second copy with it": (
        [
            trace.CommandOrdered("a", 1, "t", "7.1", "add+5", False),
            trace.CommandOrdered("a", 2, "t", "7.1", "add+5", True),
            trace.CommandOrdered("a", 3, "t", "7.2", "add+2", True),
            *asked("a1", "tally", "t", "tally_read", "", "3 7.1:add+5:1,7.3:add+1:1 3", 0),
        ],
        "REP-RED",
        State.HOLDS,
    ),
    "nothing is red": (
        [*ordered("add+5"), *asked("a1", "tally", "t", "tally_read", "", "1 - 5", 0)],
        "REP-RED",
        State.NOT_EXERCISED,
    ),
    "applied at red": (
        [*ordered("add+5"), *asked("a1", "tally", "t", "tally_read", "", "1 7.9:add+3:1,7.8:double:1 16", 0)],
        "REP-RED",
        State.VIOLATED,
    ),
    "not seen at red": (
        [*ordered("add+5"), *asked("a1", "tally", "t", "tally_read", "", "1 7.9:add+3:1 5", 0)],
        "REP-RED",
        State.VIOLATED,
    ),
    "another green number": (
        [*ordered("add+5", "double"), *asked("a1", "tally", "t", "tally_read", "", "2 - 5", 0)],
        "REP-RED",
        State.VIOLATED,
    ),
    "owned and there": (
        [*owned(0, 9), *asked("b1", "owned", "workers", "items", "", '["a1"]', 3)],
        "REP-OWNED",
        State.HOLDS,
    ),
    "gone while its owner lives": (
        [*owned(0, 9), *asked("b1", "owned", "workers", "items", "", "[]", 3)],
        "REP-OWNED",
        State.VIOLATED,
    ),
    "gone with its owner": (
        [*owned(0, 9), *asked("b1", "owned", "workers", "items", "", "[]", 9)],
        "REP-OWNED",
        State.NOT_EXERCISED,
    ),
    "two watches": (
        watched("a1", 1, (2, "apples", "1"), (4, "pears", "-")) + watched("b1", 0, (2, "apples", "1"), (3, "x", "1")),
        "REP-WATCH",
        State.VIOLATED,
    ),
    "watches of one story": (
        watched("a1", 1, (2, "apples", "1"), (4, "pears", "-"), (5, "x", "3"))
        + watched("b1", 2, (4, "pears", "-"), (5, "x", "3")),
        "REP-WATCH",
        State.HOLDS,
    ),
    "told twice": (watched("a1", 1, (2, "apples", "1"), (2, "apples", "1")), "REP-WATCH", State.VIOLATED),
    "told in another order": (watched("a1", 1, (4, "apples", "1"), (2, "pears", "1")), "REP-WATCH", State.VIOLATED),
    "told though it was before": (watched("a1", 3, (2, "apples", "1")), "REP-WATCH", State.VIOLATED),
    "a transaction in two parts": (
        asked("a1", "pair", "pair", "set", "1", "", 0) + asked("b1", "pair", "pair", "get", "", "1|-", 5),
        "REP-LINEAR",
        State.VIOLATED,
    ),
    "a transaction as a whole": (
        asked("a1", "pair", "pair", "set", "1", "", 0)
        + asked("b1", "pair", "pair", "compare_and_set", "1>2", "1", 3, "y")
        + asked("b2", "pair", "pair", "get", "", "2", 5, "x"),
        "REP-LINEAR",
        State.HOLDS,
    ),
    "stale count": (
        asked("a1", "counter", "hits", "add", "2", "2", 0) + asked("b1", "counter", "hits", "count", "", "0", 5),
        "REP-LINEAR",
        State.VIOLATED,
    ),
    "a count": (
        asked("a1", "counter", "hits", "add", "2", "2", 0) + asked("b1", "counter", "hits", "count", "", "2", 5),
        "REP-LINEAR",
        State.HOLDS,
    ),
    "a count of an object that was removed": (
        asked("a1", "counter", "hits", "add", "2", "2", 0)
        + asked("b2", "counter", "hits", "remove", "", "1", 3)
        + asked("b1", "counter", "hits", "count", "", "0", 5),
        "REP-LINEAR",
        State.NOT_EXERCISED,
    ),
    "a member twice": (
        asked("a1", "set", "people", "join", "", "1", 0) + asked("b1", "set", "people", "join", "", "1", 5),
        "REP-LINEAR",
        State.VIOLATED,
    ),
    "done though it was said not to be": (
        [
            trace.ObjectCalled("a", "a1", "counter", "hits", "add", "", "2", 0),
            trace.ObjectAnswered("a", "a1", "not", "", 1),
            *asked("b1", "counter", "hits", "count", "", "2", 5),
            *asked("b2", "counter", "hits", "count", "", "2", 7),
        ],
        "REP-LINEAR",
        State.VIOLATED,
    ),
}


@pytest.mark.parametrize(("entries", "label", "state"), CASES.values(), ids=CASES)
def test_traces(entries: list[Entry], label: str, state: State) -> None:
    assert states(entries)[label] is state


def test_every_property_has_a_broken_trace() -> None:
    assert {label for _, label, state in CASES.values() if state is State.VIOLATED} == set(replicated_labels())


def test_lost_rows_leave_nothing_judged() -> None:
    verdicts = ReplicatedChecker().finish(lossy=True, liveness=None, components=())
    assert {each.state for each in verdicts.values()} == {State.NOT_JUDGED}
