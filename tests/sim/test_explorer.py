"""What the explorer stands on: copies that share nothing changeable, fingerprints of content only, boundary B4."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pytest

from isotone.core.boundary import Ask, Connect, Connected, Indicate, Indicated, Requested
from isotone.core.choice import Choice
from isotone.core.contract import Action, Event, Started, TimerFired
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.sim.automata_model import AutomataModel, SystemState
from isotone.sim.canonical import branch, canonical
from isotone.sim.explorer import Counterexample, explore


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: Any
    right: Any


class Frozen(msgspec.Struct, frozen=True):
    value: int


class Loose(msgspec.Struct):
    value: list[int]


@dataclass
class Everything:
    numbers: list[int] = field(default_factory=lambda: [1, 2])
    table: dict[str, set[int]] = field(default_factory=lambda: {"x": {1, 2}})
    queue: deque[int] = field(default_factory=lambda: deque([1], maxlen=5))
    counts: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    pair: Pair = field(default_factory=lambda: Pair([1], 2))
    colour: Colour = Colour.RED
    frozen: Frozen = field(default_factory=lambda: Frozen(1))
    loose: Loose = field(default_factory=lambda: Loose([1]))
    raw: bytearray = field(default_factory=lambda: bytearray(b"x"))
    took_us: int = 0
    measurements = frozenset({"took_us"})


class Slotted:
    __slots__ = ("never_set", "value")

    def __init__(self, value: list[int]) -> None:
        self.value = value


CHANGES = [
    lambda it: it.numbers.append(3),
    lambda it: it.table["x"].add(3),
    lambda it: it.table.update(y=set()),
    lambda it: it.queue.append(2),
    lambda it: it.counts["new"].append(1),
    lambda it: it.pair.left.append(2),
    lambda it: setattr(it, "colour", Colour.BLUE),
    lambda it: setattr(it, "frozen", Frozen(2)),
    lambda it: it.loose.value.append(2),
    lambda it: it.raw.extend(b"y"),
    lambda it: setattr(it, "extra", 1),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_branch_shares_nothing_that_can_change_and_every_change_is_seen(change: Any) -> None:
    original = Everything()
    copy = branch(original)
    assert copy == original and canonical(copy) == canonical(original)
    change(copy)
    assert original == Everything()
    assert canonical(copy) != canonical(original)


def test_what_was_one_object_stays_one() -> None:
    shared = [1]
    copy = branch({"a": shared, "b": shared})
    assert copy["a"] is copy["b"] is not shared


def test_slots_are_copied() -> None:
    original = Slotted([1])
    copy = branch(original)
    copy.value.append(2)
    assert original.value == [1] and canonical(copy) != canonical(original)


def test_measurements_and_times_are_left_out() -> None:
    early, late = Everything(took_us=1), Everything(took_us=2)
    assert canonical(early) == canonical(late)
    assert canonical(TimerFired(1, "x")) == canonical(TimerFired(2, "x")) != canonical(TimerFired(1, "y"))


def test_the_order_of_filling_does_not_matter_and_the_order_of_lists_does() -> None:
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical({"ab", "c"}) == canonical({"c", "ab"}) != canonical({"a", "bc"})
    assert canonical([1, 2]) != canonical([2, 1])
    assert canonical(("ab", "c")) != canonical(("a", "bc"))


def test_what_cannot_be_branched_or_written_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="cannot branch a Choice"):
        branch([Choice(1)])
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(LocalProtocolError, match="contains itself"):
        canonical(ring)


ALICE = ClientId(DaemonId("a", 1), "alice", 1)


@dataclass
class Client:
    heard: int = 0

    def handle(self, event: Event) -> list[Action]:
        if isinstance(event, Started):
            return [Ask(ALICE, Connect()), Ask(ALICE, Connect())]
        self.heard += isinstance(event, Indicated)
        return []


@dataclass
class Service:
    asked: int = 0

    def handle(self, event: Event) -> list[Action]:
        if not isinstance(event, Requested):
            return []
        self.asked += 1
        return [Indicate((event.client,), Connected())]


def test_boundary_b4_is_in_order_and_never_loses() -> None:
    # Two requests: (asked, heard) with heard <= asked <= 2, six states; the links are FIFO, so one way each.
    found = explore(AutomataModel({"a": Client, "s": Service}, service="s"))
    assert (found.states, found.transitions, found.ends) == (6, 6, 1)


def test_an_automaton_that_makes_no_sense_to_the_explorer_is_refused() -> None:
    class Dance(Action, frozen=True):
        pass

    @dataclass
    class Dancer:
        def handle(self, event: Event) -> list[Action]:
            return [Dance()]

    with pytest.raises(LocalProtocolError, match="does not know the action"):
        explore(AutomataModel({"a": Dancer}))
    found = explore(AutomataModel({"a": Dancer}, translate=lambda name, action: []))
    assert found.states == 1


def test_a_script_is_handed_in_at_any_time() -> None:
    @dataclass
    class Idle:
        told: int = 0

        def handle(self, event: Event) -> list[Action]:
            self.told += isinstance(event, TimerFired)
            return []

    def too_many(state: SystemState) -> str | None:
        return "both told" if all(process.told == 2 for process in state.processes.values()) else None

    script = {"a": [TimerFired(0, "x")] * 2, "b": [TimerFired(0, "x")] * 2}
    assert explore(AutomataModel({"a": Idle, "b": Idle}, script=script)).states == 9
    found = explore(AutomataModel({"a": Idle, "b": Idle}, script=script, invariants=[too_many]))
    assert found.violation is not None and len(found.violation.steps) == 4


def test_a_counterexample_reads_as_a_list_of_steps() -> None:
    text = str(Counterexample("two leaders", ("a: start", "b: start")))
    assert text == "  1. a: start\n  2. b: start\n  => two leaders"
