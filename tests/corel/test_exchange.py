"""The plan that follows from the states of a view's members."""

from __future__ import annotations

import msgspec

from isotone.corel.exchange import plan_of, priority_of, retransmitters
from isotone.corel.message import Message, Origin, Range
from isotone.corel.quorum import History, Primary
from isotone.corel.wire import State

A, B = Origin("a", 1), Origin("b", 1)
HISTORY = History(Primary(0, ("a", "b", "c")))


def state(
    server: str, *, committed: int = 1, attempted: int = 1, lines: tuple[int, int] = (0, 0), **ranges: int
) -> State:
    """``ranges``: of the origin of this server in life 1, counters up to this one, behind what is green."""
    open_ones = tuple(Range(Origin(origin, 1), 1, last) for origin, last in sorted(ranges.items()))
    return State("v", server, committed, attempted, *lines, open_ones, HISTORY, ())


def test_lines_numbers_and_representatives() -> None:
    plan = plan_of(
        {
            "c": state("c", committed=2, attempted=5, lines=(4, 7)),
            "a": state("a", committed=1, attempted=9, lines=(5, 5)),
            "b": state("b", committed=2, attempted=2, lines=(3, 6)),
        }
    )
    assert list(plan.states) == ["a", "b", "c"]
    assert (plan.vouched, plan.representatives, plan.chosen) == ((2, 0), ("b", "c"), "b")
    assert (plan.green, plan.yellow, plan.ordered, plan.attempt) == (5, 6, 3, 10)
    assert plan.needs_priority and not plan_of({"a": state("a")}).needs_priority


def test_headers_where_everybody_has_the_message() -> None:
    plan = plan_of({"a": state("a", lines=(2, 2)), "b": state("b", lines=(1, 3), a=2, b=1)})
    stretch = [Message(A, 2, 5, (b"x",)), Message(B, 1, 6, (b"y",))]  # places 2 and 3
    assert [each.records for each in priority_of(plan, stretch)] == [(), (b"y",)]


def test_red_messages_are_owed_by_the_first_that_has_them() -> None:
    plan = plan_of({"a": state("a", a=1), "b": state("b", a=2, b=1), "c": state("c", a=2)})
    assert retransmitters(plan, set()) == {(A, 2): "b", (B, 1): "b"}  # all have the first
    assert retransmitters(plan, {(A, 2)}) == {(B, 1): "b"}


def test_who_caught_up_to_a_later_level_has_the_order_and_vouches_if_only_a_proposal_came_later() -> None:
    known = state("a", committed=3, lines=(2, 6))
    learned = msgspec.structs.replace(state("x", committed=0, lines=(5, 5)), context=3, context_applied=1)
    plan = plan_of({"a": known, "x": learned})
    assert (plan.representatives, plan.green, plan.yellow) == (("x",), 5, 5)
    assert plan.vouched == plan.context == (3, 1) and plan.by_proposal == 1
    later = msgspec.structs.replace(learned, context=4, context_applied=0)
    assert plan_of({"a": known, "x": later}).vouched == (0, 0)  # of what was yellow in primary 4 nobody knows
    same = msgspec.structs.replace(learned, context_applied=0)
    assert plan_of({"a": known, "x": same}).representatives == ("a",)
