"""The message queue: lines, order, positions."""

from __future__ import annotations

import pytest

from isotone.corel.message import Message, Origin, Range
from isotone.corel.queue import MessageQueue

A, B = Origin("a", 1), Origin("b", 1)


def message(origin: Origin, counter: int, lamport: int, records: int = 1) -> Message:
    return Message(origin, counter, lamport, tuple(b"r%d" % each for each in range(records)))


def names(queue: MessageQueue) -> list[str]:
    return [str(each) for each in queue.held]


def filled() -> MessageQueue:
    """a:1 green, a:2 yellow, b:1 and a:3 red; their timestamps are not in that order."""
    queue = MessageQueue()
    queue.append([message(A, 1, 1, records=3), message(A, 2, 2)], yellow=True)
    queue.mark_green(1)
    queue.append([message(B, 1, 9), message(A, 3, 4)], yellow=False)
    return queue


def test_the_zones() -> None:
    queue = filled()
    assert (queue.green, queue.yellow, queue.end, queue.green_records) == (1, 2, 4, 3)
    assert [str(each) for each in queue.between(queue.yellow, queue.end)] == ["b.1:1", "a.1:3"]
    assert queue.lamport == 9


def test_open_ranges_leave_out_what_is_green() -> None:
    assert filled().open_ranges() == (Range(A, 2, 3), Range(B, 1, 1))


def test_arranging_puts_the_rest_by_timestamp() -> None:
    queue = filled()
    queue.arrange([queue.at(2)], green=2, yellow=2)
    assert names(queue) == ["a.1:1", "a.1:2", "a.1:3", "b.1:1"]
    assert (queue.green, queue.yellow, queue.green_records) == (2, 2, 4)


def test_arranging_retreats_the_yellow_line() -> None:
    queue = filled()
    queue.arrange([], green=1, yellow=1)
    assert (queue.green, queue.yellow) == (1, 1) and names(queue) == ["a.1:1", "a.1:2", "a.1:3", "b.1:1"]


def test_arranging_puts_a_foreign_order_first() -> None:
    queue = filled()
    foreign = message(Origin("c", 1), 1, 7)
    queue.arrange([foreign, queue.at(3)], green=1, yellow=3)
    assert names(queue) == ["a.1:1", "c.1:1", "b.1:1", "a.1:2", "a.1:3"]
    assert queue.has(foreign.name) and (queue.green, queue.yellow) == (1, 3)


def test_inserting_goes_by_timestamp_behind_the_yellow_line() -> None:
    queue = filled()
    queue.arrange([queue.at(2)], green=1, yellow=2)
    queue.insert([message(Origin("c", 1), 1, 1)])
    assert names(queue) == ["a.1:1", "a.1:2", "c.1:1", "a.1:3", "b.1:1"]


def test_forgetting_keeps_places_and_positions() -> None:
    queue = filled()
    queue.forget(1)
    assert (queue.forgotten, queue.end, queue.forgotten_records) == (1, 4, 3)
    assert str(queue.at(2)) == "a.1:2" and queue.has((A, 1))


@pytest.mark.parametrize("wrong", [message(A, 5, 9), message(A, 3, 9), message(B, 3, 9)])
def test_a_hole_or_a_double_is_our_bug(wrong: Message) -> None:
    with pytest.raises(AssertionError):
        filled().append([wrong], yellow=False)


def test_green_never_goes_back() -> None:
    queue = filled()
    with pytest.raises(AssertionError):
        queue.mark_green(0)
    with pytest.raises(AssertionError):
        queue.mark_green(3)
    with pytest.raises(AssertionError):
        queue.forget(2)


def test_the_bytes_that_are_held_are_counted_through_every_change() -> None:
    def held() -> int:
        assert queue.held_bytes == sum(each.size for each in queue.held)
        return queue.held_bytes

    queue = filled()
    before = held()
    assert MessageQueue(held=list(queue.held)).held_bytes == before
    queue.arrange([queue.at(2), message(Origin("c", 1), 1, 7)], green=2, yellow=3)
    queue.insert([message(Origin("d", 1), 1, 1, records=9)])
    assert held() > before
    queue.forget(2)
    queue.add_green([message(Origin("e", 1), 1, 2)])
    before = held()
    queue.leap(queue.end, 9, {A: 3, B: 1}, queue.configuration, 0)
    assert 0 < held() < before, "of c, d and e"
