"""Records into messages: as many as fit, in order, with a timestamp above all that was seen."""

from __future__ import annotations

from isotone.corel.message import RECORD_OVERHEAD, Origin
from isotone.corel.outbox import Outbox

MAX = 100


def outbox(*records: bytes) -> Outbox:
    made = Outbox(Origin("a", 1), MAX)
    for request, record in enumerate(records, start=1):
        made.want(request, record)
    return made


def test_a_message_may_be_full_and_no_byte_more() -> None:
    first, rest = bytes(40), MAX - 40 - RECORD_OVERHEAD
    for last, requests in ((rest, (1, 2)), (rest + 1, (1,))):
        made = outbox(first, bytes(last))
        message, told = made.initiate(0)
        assert told == requests and len(message.records) == len(requests)
        assert made.waiting_bytes == sum(len(record) for _, record in made.waiting)


def test_a_record_over_the_size_goes_alone() -> None:
    made = outbox(bytes(MAX + 50), b"x")
    assert [made.initiate(0)[1], made.initiate(0)[1]] == [(1,), (2,)]


def test_timestamps_are_above_all_that_was_seen_and_grow() -> None:
    made = outbox(*[bytes(90)] * 3)
    assert [made.initiate(seen)[0].lamport for seen in (7, 3, 20)] == [8, 9, 21]


def test_what_came_back_is_not_sent_again() -> None:
    made = outbox(*[bytes(90)] * 3)
    for _ in range(3):
        made.initiate(0)
    made.received(2)
    assert [message.counter for message in made.pending] == [3]
    made.received(3)
    made.received(3)
    assert not made.pending
