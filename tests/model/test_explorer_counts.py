"""Exact numbers of states of tiny systems, each derived by hand, and a planted bug with its shortest counterexample."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from math import comb

import pytest

from isotone.core.contract import (
    Action,
    Address,
    Append,
    DatagramsReceived,
    Event,
    Persist,
    Persisted,
    SendDatagrams,
    SetTimer,
    Started,
    TimerFired,
)
from isotone.sim.automata_model import AutomataModel, Budgets, SystemState
from isotone.sim.explorer import explore


def send(to: str, data: bytes) -> SendDatagrams:
    return SendDatagrams(Address(to), [[data]])


@dataclass
class Talker:
    """Sends its words to one other at the start, and counts what it hears."""

    to: str
    words: tuple[bytes, ...]
    heard: list[bytes] = field(default_factory=list)

    def handle(self, event: Event) -> list[Action]:
        match event:
            case Started():
                return [send(self.to, word) for word in self.words]
            case DatagramsReceived(data=data):
                self.heard.append(bytes(data))
        return []


@dataclass
class Counter:
    """Counts what it hears and forgets the order."""

    heard: int = 0

    def handle(self, event: Event) -> list[Action]:
        self.heard += isinstance(event, DatagramsReceived)
        return []


@dataclass
class Alarm:
    """Arms so many timers at the start; each fires once."""

    timers: int
    fired: int = 0
    last_at: int = 0
    measurements = frozenset({"last_at"})

    def handle(self, event: Event) -> list[Action]:
        self.last_at = event.at
        match event:
            case Started():
                return [SetTimer(("alarm", number), 1_000) for number in range(self.timers)]
            case TimerFired():
                self.fired += 1
        return []


def test_messages_in_flight_are_a_multiset() -> None:
    # n different messages to a receiver that only counts: a state is the set of those that arrived, 2^n states; each
    # step adds one, so there are n·2^(n-1) steps, and one end.
    words = (b"1", b"2", b"3", b"4")
    found = explore(AutomataModel({"a": lambda: Talker("b", words), "b": Counter}))
    assert (found.states, found.transitions, found.ends, found.depth) == (16, 32, 1, 4)
    assert found.complete and found.violation is None and found.deadlocks == 0


def test_equal_messages_are_not_distinguished() -> None:
    # n equal messages: only how many arrived matters, n + 1 states in a row.
    found = explore(AutomataModel({"a": lambda: Talker("b", (b"x",) * 5), "b": Counter}))
    assert (found.states, found.transitions) == (6, 5)


def test_a_receiver_that_remembers_the_order_has_more_states() -> None:
    # Arrival sequences of distinct messages without repetition: sum over k of 3!/(3-k)! = 1 + 3 + 6 + 6.
    found = explore(AutomataModel({"a": lambda: Talker("b", (b"1", b"2", b"3")), "b": lambda: Talker("", ())}))
    assert (found.states, found.ends) == (16, 6)


def test_fifo_links_keep_order_and_interleave_between_links() -> None:
    # Two senders of three messages each on their own FIFO links: how far each has come, 4 × 4 states.
    programs = {
        "a": lambda: Talker("c", (b"1", b"2", b"3")),
        "b": lambda: Talker("c", (b"4", b"5", b"6")),
        "c": Counter,
    }
    found = explore(AutomataModel(programs, fifo=True))
    assert (found.states, found.transitions, found.ends) == (16, 24, 1)
    ordered = {**programs, "c": lambda: Talker("", ())}
    # When the receiver remembers the order: all interleavings of prefixes, sum over i, j of C(i+j, i).
    expected = sum(comb(i + j, i) for i in range(4) for j in range(4))
    assert explore(AutomataModel(ordered, fifo=True)).states == expected == 69


def test_any_armed_timer_may_fire_and_time_is_left_out() -> None:
    # Which of 3 timers have fired: 2^3 states, although `last_at` differs along the ways.
    found = explore(AutomataModel({"a": lambda: Alarm(3)}))
    assert (found.states, found.transitions) == (8, 12)


def test_drops_and_duplicates_have_budgets() -> None:
    # One message, one drop allowed: in flight, arrived, dropped.
    base = {"a": lambda: Talker("b", (b"x",)), "b": Counter}
    assert explore(AutomataModel(base, budgets=Budgets(drops=1))).states == 3
    # One message, one doubling: (heard, in flight, left) = (0,1,1) (1,1,0) (1,0,1) (2,0,0).
    assert explore(AutomataModel(base, budgets=Budgets(duplicates=1))).states == 4


@dataclass
class Writer:
    """Writes a record, and tells of it behind the write."""

    told: bool = False

    def handle(self, event: Event) -> list[Action]:
        match event:
            case Started(storage=storage):
                log = storage.logs.get("log")
                if log is not None and log.records:
                    return []
                return [Persist(1, [Append("log", b"r")]), send("b", b"written")]
            case Persisted():
                self.told = True
        return []


def durable_before_told(state: SystemState) -> str | None:
    heard = state.automaton("b")
    assert isinstance(heard, Counter)
    return "told of a write that is not durable" if heard.heard and not state.processes["a"].durable else None


def test_crash_loses_what_stands_behind_an_unfinished_persist() -> None:
    programs = {"a": Writer, "b": Counter}
    # Without crashes: before the sync, after it with the message in flight, after its arrival.
    assert explore(AutomataModel(programs)).states == 3
    model = AutomataModel(programs, invariants=[durable_before_told], budgets=Budgets(crashes=1), mortal=["a"])
    found = explore(model)
    assert found.violation is None and found.complete
    # First run: before the sync; after it with the message in flight or arrived. Down: with nothing durable; with the
    # record and the message never sent, in flight, arrived. Second run: before its sync and after it (2), when nothing
    # was found; and when the record was found, the same three. 1 + 2 + 1 + 3 + 1 + 2 + 3.
    assert found.states == 13


@dataclass
class HastyWriter(Writer):
    """Tells first and writes then."""

    def handle(self, event: Event) -> list[Action]:
        return super().handle(event)[::-1]


def test_a_message_before_its_write_is_caught() -> None:
    model = AutomataModel({"a": HastyWriter, "b": Counter}, invariants=[durable_before_told])
    violation = explore(model).violation
    assert violation is not None and violation.steps == ("b: b'written' from a",)


# --- the alternating bit protocol -------------------------------------------------------------------------------------


@dataclass
class BitSender:
    """Sends 0, 1, 2 … with one alternating bit, each until it is acknowledged."""

    items: int
    next: int = 0

    def handle(self, event: Event) -> list[Action]:
        match event:
            case Started() | TimerFired():
                return self._current()
            case DatagramsReceived(data=data) if bytes(data)[0] == self.next % 2:
                self.next += 1
                return self._current()
        return []

    def _current(self) -> list[Action]:
        if self.next == self.items:
            return []
        return [send("r", bytes([self.next % 2, self.next])), SetTimer("again", 1_000)]


@dataclass
class BitReceiver:
    """Takes an item when its bit is the expected one; the planted bug forgets to look."""

    careless: bool = False
    taken: list[int] = field(default_factory=list)

    def handle(self, event: Event) -> list[Action]:
        match event:
            case DatagramsReceived(data=data):
                bit, item = bytes(data)
                if bit == len(self.taken) % 2 or self.careless:
                    self.taken.append(item)
                return [send("s", bytes([bit]))]
        return []


def in_order(state: SystemState) -> str | None:
    receiver = state.automaton("r")
    assert isinstance(receiver, BitReceiver)
    return None if receiver.taken == list(range(len(receiver.taken))) else f"taken {receiver.taken}"


@dataclass
class PatientSender(BitSender):
    """Repeats an item only a bounded number of times, so that the state space is finite."""

    repeats: int = 2

    def handle(self, event: Event) -> list[Action]:
        if isinstance(event, TimerFired):
            if not self.repeats:
                return []
            self.repeats -= 1
        return super().handle(event)


def bit_model(*, careless: bool, fifo: bool = True) -> AutomataModel:
    return AutomataModel(
        {"s": lambda: PatientSender(3), "r": lambda: BitReceiver(careless)},
        invariants=[in_order],
        fifo=fifo,
        budgets=Budgets(drops=1),
    )


def test_alternating_bit_is_right_on_fifo_links() -> None:
    found = explore(bit_model(careless=False))
    assert found.violation is None and found.complete
    states, transitions = plain_bit_counts()
    assert (found.states, found.transitions) == (states, transitions) == (222, 553)


PlainState = tuple[int, int, bool, int, tuple[tuple[int, int], ...], tuple[int, ...], int]
"""Item to send, repeats left, timer armed, items taken, items and acknowledgements in flight, drops left."""


def plain_bit_counts() -> tuple[int, int]:
    """The same protocol written down a second time, as tuples and nothing else."""
    begin: PlainState = (0, 2, True, 0, ((0, 0),), (), 1)
    seen, frontier, transitions = {begin}, [begin], 0
    while frontier:
        for after in plain_bit_steps(frontier.pop()):
            transitions += 1
            if after not in seen:
                seen.add(after)
                frontier.append(after)
    return len(seen), transitions


def plain_bit_steps(state: PlainState) -> list[PlainState]:
    """All successors."""
    next_, repeats, armed, taken, out, back, drops = state
    after: list[PlainState] = []
    if out:
        bit = out[0][0]
        after.append((next_, repeats, armed, taken + (bit == taken % 2), out[1:], (*back, bit), drops))
        if drops:
            after.append((next_, repeats, armed, taken, out[1:], back, 0))
    if back:
        moved = next_ + (back[0] == next_ % 2)
        again = moved > next_ and moved < 3
        more = ((moved % 2, moved),) if again else ()
        after.append((moved, repeats, armed or again, taken, out + more, back[1:], drops))
        if drops:
            after.append((next_, repeats, armed, taken, out, back[1:], 0))
    if armed and repeats and next_ < 3:
        after.append((next_, repeats - 1, True, taken, (*out, (next_ % 2, next_)), back, drops))
    elif armed:
        after.append((next_, max(repeats - 1, 0), False, taken, out, back, drops))
    return after


def test_planted_bug_has_its_shortest_counterexample() -> None:
    found = explore(bit_model(careless=True))
    assert found.violation is not None and not found.complete
    # Shortest: the sender repeats item 0, and both copies are taken.
    assert found.violation.problem == "taken [0, 0]"
    assert found.violation.steps == (
        "r: b'\\x00\\x00' from s",
        "s: timer 'again'",
        "r: b'\\x00\\x00' from s",
    )
    assert str(found.violation).splitlines()[-1] == "  => taken [0, 0]"


def test_alternating_bit_needs_fifo() -> None:
    # The textbook weakness: an old copy of item 0 arrives when item 2, with the same bit, is expected.
    found = explore(bit_model(careless=False, fifo=False))
    assert found.violation is not None
    assert found.violation.problem == "taken [0, 1, 0]"


# --- bounds and faults of the search ----------------------------------------------------------------------------------


def test_bounds_make_a_search_incomplete() -> None:
    model = AutomataModel({"a": lambda: Talker("b", (b"1", b"2", b"3", b"4")), "b": Counter})
    shallow = explore(model, depth=2)
    assert (shallow.states, shallow.depth, shallow.complete) == (1 + 4 + 6, 2, False)
    few = explore(model, limit=7)
    assert not few.complete and 7 <= few.states < 16


def test_deadlocks_are_ends_that_nobody_accepts() -> None:
    def both_heard(state: SystemState) -> bool:
        counter = state.automaton("b")
        return isinstance(counter, Counter) and counter.heard == 2

    programs = {"a": lambda: Talker("b", (b"1", b"2")), "b": Counter}
    assert explore(AutomataModel(programs, accept=both_heard)).deadlocks == 0
    lossy = explore(AutomataModel(programs, accept=both_heard, budgets=Budgets(drops=1)))
    assert (lossy.ends, lossy.deadlocks) == (2, 1)


@dataclass
class Fragile:
    """Fails on the second message."""

    heard: int = 0

    def handle(self, event: Event) -> list[Action]:
        self.heard += isinstance(event, DatagramsReceived)
        assert self.heard < 2, "one message too many"
        return []


def test_an_exception_is_a_violation_with_its_way() -> None:
    found = explore(AutomataModel({"a": lambda: Talker("b", (b"1", b"2")), "b": Fragile}))
    assert found.violation is not None and len(found.violation.steps) == 2
    assert "AssertionError: one message too many" in found.violation.problem


def test_partition_loses_what_crosses_it() -> None:
    programs = {"a": lambda: Talker("b", (b"x",)), "b": Counter}
    found = explore(
        AutomataModel(programs, partitions=[(("a",), ("b",))], budgets=Budgets(partitions=1)),
    )
    # Whole with one left: flight, heard. Parted: flight, lost, heard. Healed: flight, lost, heard.
    assert (found.states, found.ends) == (8, 2)


@dataclass
class Bag:
    """Keeps what it heard in sets and dictionaries, whose own order depends on hashes."""

    words: set[str] = field(default_factory=set)
    by_length: dict[int, set[str]] = field(default_factory=dict)

    def handle(self, event: Event) -> list[Action]:
        if isinstance(event, DatagramsReceived):
            word = bytes(event.data).decode()
            self.words.add(word)
            self.by_length.setdefault(len(word), set()).add(word)
        return []


def bag_identities() -> str:
    words = (b"one", b"two", b"three", b"four")
    model = AutomataModel({"a": lambda: Talker("b", words), "b": Bag})
    (state,) = model.initial()
    lines = []
    for _ in range(4):
        lines.append(model.identity(state).hex())
        state = list(model.steps(state))[-1][1]
    return "\n".join([*lines, repr(explore(model))])


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_fingerprints_do_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    script = "from tests.model.test_explorer_counts import bag_identities; print(bag_identities())"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == bag_identities()
