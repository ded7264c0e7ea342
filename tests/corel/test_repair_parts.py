"""What the search for a damaged record tries: nothing that may have stood there is passed over."""

from __future__ import annotations

import pytest

from isotone.corel import records as r
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Proposal
from isotone.corel.quorum import History, Majority, Primary
from isotone.corel.repair import _top
from isotone.corel.repair_history import VOTERS_MAX, histories, voted
from isotone.corel.repair_messages import FIXED_ARRAY_MAX, runs, size_of


def message(counter: int, size: int = 1) -> Message:
    return Message(Origin("a", 1), counter, counter, (bytes(size),))


def founded() -> Ledger:
    return Ledger.founded(("a", "b"), Majority(("a", "b")))


@pytest.mark.parametrize("count", [1, 2, FIXED_ARRAY_MAX, FIXED_ARRAY_MAX + 1])
def test_messages_that_fill_the_room_are_found_also_where_an_array_begins_with_more_bytes(count: int) -> None:
    messages = tuple(message(counter, counter) for counter in range(1, 40))
    for start in (0, 1, len(messages) - count):
        wanted = messages[start : start + count]
        assert wanted in set(runs(messages, size_of(wanted)))


def test_messages_that_are_too_large_are_passed_over_one_by_one() -> None:
    large, small = (message(1, 500), message(2, 500)), (message(3), message(4))
    assert list(runs((*large, *small), size_of(small))) == [small]


def test_of_many_servers_the_votes_of_the_first_are_tried() -> None:
    servers = tuple("abcdefghi")
    found = set(voted([Proposal(1, 1, 1, 0, 0, 0, (), ("a",))], servers))
    assert len(found) == 3**VOTERS_MAX
    assert {server for each in found for server in (*each.accepted, *each.rejected)} == {*servers[:VOTERS_MAX]}


def test_two_primaries_may_have_been_pending() -> None:
    primaries = [Primary(number, servers) for number, servers in ((1, ("a", "b")), (2, ("a",)), (3, ("b",)))]
    assert History(primaries[0], (primaries[1], primaries[2])) in set(histories(founded(), primaries, 3))


def test_no_number_is_above_the_next_attempt_or_what_others_know() -> None:
    ledger = founded()
    ledger.attempted = 4
    assert _top(ledger, (), ()) == 5
    assert _top(ledger, (), (Primary(9, ("a",)),)) == 9
    assert _top(ledger, (r.Attempted(7), r.Attempted(8)), (Primary(9, ("a",)),)) == 7
