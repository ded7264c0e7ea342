"""The shell's half of the contract: order, what a `Persist` holds back, and what ends everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from isotone.core.contract import (
    Action,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Put,
    Record,
    Stop,
    TimerFired,
    Write,
)
from isotone.core.errors import RemoteProtocolError
from isotone.daemon.engine import OTHER_REASONS, REASONS_MAX, Engine, Lane


class Said(msgspec.Struct, frozen=True):
    """An entry to be recognised."""

    text: str


class Script:
    """An automaton that answers the timer ``key`` with what the test wrote for it."""

    def __init__(self, answers: dict[str, list[Action]]) -> None:
        self.heard: list[Event] = []
        self._answers = answers

    def handle(self, event: Event) -> list[Action]:
        self.heard.append(event)
        if isinstance(event, TimerFired):
            if str(event.key).startswith("wrong"):
                raise RemoteProtocolError(str(event.key))
            if event.key == "broken":
                raise AssertionError("a bug")
            return self._answers.get(str(event.key), [])
        return self._answers.get(type(event).__name__, [])


class Bench:
    """One lane, and the disk in the hands of the test."""

    def __init__(self, **answers: list[Action]) -> None:
        self.script = Script(answers)
        self.lane = Lane("lane", self.script)
        self.done: list[str] = []
        self.submitted: list[tuple[int, int, Sequence[Write]]] = []
        self.failures: list[BaseException] = []
        self.time = 0
        self.engine = Engine(self._now, submit=self._submit, failed=self._fail)
        self.lane.performers[Record] = self._record
        self.lane.performers[Stop] = self._stop

    def _now(self) -> int:
        self.time += 1
        return self.time

    def _submit(self, lane: Lane, ticket: int, writes: Sequence[Write]) -> None:
        self.submitted.append((ticket, lane.failures, writes))

    def _fail(self, lane: Lane, event: object, error: BaseException) -> None:
        del lane, event
        self.failures.append(error)

    def _record(self, lane: Lane, action: Record) -> None:
        assert isinstance(action.entry, Said)
        self.done.append(action.entry.text)
        if action.entry.text.startswith("post "):
            self.engine.post(lane, TimerFired(self._now(), action.entry.text.removeprefix("post ")))
            self.engine.drain()  # within the carrying out of an action: waits its turn

    def _stop(self, lane: Lane, action: Stop) -> None:
        self.done.append(f"stop {action.reason}")
        lane.stopped = True

    def fire(self, *keys: str) -> None:
        for key in keys:
            self.engine.take(self.lane, TimerFired(self._now(), key))

    def answer(self, ticket: int, reason: str = "") -> None:
        ((failures, _),) = [(failures, writes) for each, failures, writes in self.submitted if each == ticket]
        self.engine.persisted(self.lane, failures, ticket, reason)


def say(text: str) -> Action:
    return Record(Said(text))


def persist(ticket: int) -> Action:
    return Persist(ticket, [Put("cell", b"%d" % ticket)])


def test_what_an_action_causes_waits_until_the_others_are_done() -> None:
    bench = Bench(first=[say("post second"), say("b")], second=[say("c")])
    bench.fire("first")
    assert bench.done == ["post second", "b", "c"]


def test_a_persist_holds_back_what_stands_behind_it_also_of_later_calls() -> None:
    bench = Bench(first=[say("a"), persist(1), say("b")], second=[say("c"), persist(2), say("d")])
    bench.fire("first", "second")
    assert bench.done == ["a"]
    assert [ticket for ticket, _, _ in bench.submitted] == [1, 2]  # many are under way
    bench.answer(1)
    assert bench.done == ["a", "b", "c"]
    bench.answer(2)
    assert bench.done == ["a", "b", "c", "d"]
    assert [event.ticket for event in bench.script.heard if isinstance(event, Persisted)] == [1, 2]


def test_what_is_returned_on_persisted_stands_behind_what_was_held() -> None:
    bench = Bench(first=[persist(1), say("held")], Persisted=[say("then")])
    bench.fire("first")
    bench.answer(1)
    assert bench.done == ["held", "then"]


def test_a_disk_that_fails_answers_all_under_way_and_opens_the_stream() -> None:
    bench = Bench(first=[persist(1), say("lost"), persist(2), say("lost too")], next=[persist(3), say("kept")])
    bench.fire("first")
    bench.answer(1, "full")
    failed = [(event.ticket, event.reason) for event in bench.script.heard if isinstance(event, PersistFailed)]
    assert failed == [(1, "full"), (2, "full")]
    bench.fire("next")
    bench.answer(2)  # was answered already
    assert bench.done == []
    bench.answer(3)
    assert bench.done == ["kept"]


def test_what_a_peer_did_wrongly_is_dropped_and_counted() -> None:
    bench = Bench(right=[say("on")])
    bench.fire("wrong 1", "wrong 1", "wrong 2", "right")
    assert bench.engine.refused == {"wrong 1": 2, "wrong 2": 1}
    assert bench.done == ["on"]
    assert not bench.failures


def test_reasons_are_bounded() -> None:
    bench = Bench()
    for number in range(REASONS_MAX + 10):
        bench.fire(f"wrong {number}")
    assert len(bench.engine.refused) == REASONS_MAX + 1
    assert bench.engine.refused[OTHER_REASONS] == 10


@pytest.mark.parametrize("answers", [{}, {"broken": [Persist]}])
def test_any_other_error_ends_everything(answers: dict[str, list[Action]]) -> None:
    bench = Bench(**answers)
    bench.fire("broken")
    assert [str(error) for error in bench.failures] == ["a bug"]


def test_an_action_that_nobody_knows_is_found_at_its_first_use() -> None:
    class Strange(Action, frozen=True):
        pass

    bench = Bench(first=[Strange()])
    bench.fire("first")
    assert isinstance(bench.failures[0], KeyError)


def test_nothing_comes_after_stop() -> None:
    bench = Bench(first=[say("a"), Stop("done"), say("b")], second=[say("c")])
    bench.fire("first", "second")
    assert bench.done == ["a", "stop done"]


def test_settlers_may_post_more_and_observers_come_last() -> None:
    bench = Bench(first=[say("a")], room=[say("b")])
    told: list[int] = []

    def settle(at: int) -> None:
        if not told:
            told.append(at)
            bench.engine.post(bench.lane, TimerFired(at, "room"))

    looks: list[Callable[[int], None]] = [lambda at: bench.done.append("look")]
    bench.engine.settlers.append(settle)
    bench.engine.when_drained += looks
    bench.fire("first")
    assert bench.done == ["a", "b", "look"]
