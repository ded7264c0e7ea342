"""What became of what was sent, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from isotone.client.errors import NotSent, Unconfirmed, UnknownFate
from isotone.client.events import CALL, Receipt
from isotone.client.ledger import AGAIN, Ledger, Outcome, Parcel, Sent
from isotone.core.ids import ClientId, DaemonId, MessageId, Stamp
from isotone.core.services import Service

STAMP = Stamp(7, DaemonId("d", 1))
CLIENT = ClientId(DaemonId("d", 1), "alice", 1)


def name_of(ticket: int) -> MessageId:
    return MessageId(CLIENT, ticket)


class Book:
    """A ledger and what was entered."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ledger = Ledger()
        self._loop = loop
        self._next = 1

    def send(self, *groups: str, count: int = 1, confirm: bool = False, echoes: bool = True, flags: int = 0) -> Sent:
        bodies = tuple(b"%08d" % (self._next + each) for each in range(count))
        parcel = Parcel(groups, Service.SAFE, bodies, flags=flags, confirm=confirm)
        sent = Sent(self._next, parcel, self._loop.create_future(), name_of, echoes=echoes)
        self._next += count
        self.ledger.add(sent)
        return sent


def outcome(sent: Sent) -> Outcome | Exception | str:
    if not sent.waiter.done():
        return "open"
    if sent.waiter.cancelled():
        return "cancelled"
    return sent.waiter.exception() or sent.waiter.result()  # type: ignore[return-value]


def taken_as(sent: Sent) -> Receipt:
    """The receipt of what the daemon took."""
    return Receipt(name_of(sent.first + sent.count - 1))


def confirmed_as(sent: Sent) -> Receipt:
    return Receipt(name_of(sent.first + sent.count - 1), STAMP)


def played(play: Callable[[Book], None]) -> None:
    loop = asyncio.new_event_loop()
    try:
        play(Book(loop))
    finally:
        loop.close()


def test_taken_heard_and_confirmed() -> None:
    def play(book: Book) -> None:
        plain, many, sure = book.send("g"), book.send("g", count=3), book.send("g", confirm=True)
        book.ledger.settled(3)
        assert [outcome(each) for each in (plain, many, sure)] == [taken_as(plain), "open", "open"]
        book.ledger.settled(5)
        assert [outcome(each) for each in (plain, many, sure)] == [taken_as(plain), taken_as(many), "open"]
        book.ledger.heard(1, 4, STAMP, False)
        assert outcome(sure) == "open" and len(book.ledger) == 1
        book.ledger.heard(5, 1, STAMP, False)
        assert outcome(sure) == confirmed_as(sure) and len(book.ledger) == 0

    played(play)


def test_behind_a_transitional_signal_nothing_is_confirmed() -> None:
    def play(book: Book) -> None:
        sure, plain = book.send("g", confirm=True), book.send("g")
        book.ledger.heard(1, 2, STAMP, True)
        error = outcome(sure)
        assert isinstance(error, Unconfirmed) and error.reason == "transitional"
        assert outcome(plain) == taken_as(plain)

    played(play)


def test_a_signal_between_sending_and_hearing_is_enough() -> None:
    def play(book: Book) -> None:
        before, other = book.send("g", confirm=True), book.send("h", confirm=True)
        book.ledger.signalled("g")
        after = book.send("g", confirm=True)
        book.ledger.heard(1, 3, STAMP, False)
        error = outcome(before)
        assert isinstance(error, Unconfirmed) and error.reason == "transitional"
        assert outcome(other) == confirmed_as(other) and outcome(after) == confirmed_as(after)

    played(play)


def test_what_is_heard_out_of_order_or_partly_unexpected() -> None:
    def play(book: Book) -> None:
        outside, late, early = book.send("h", echoes=False), book.send("g"), book.send("g", count=2)
        book.ledger.settled(4)
        assert len(book.ledger) == 2, "what we do not hear is done with when it was taken"
        book.ledger.heard(3, 2, STAMP, False)
        book.ledger.heard(1, 2, STAMP, False)
        assert len(book.ledger) == 0
        for sent in (outside, late, early):
            assert outcome(sent) == taken_as(sent)

    played(play)


def test_dropped() -> None:
    def play(book: Book) -> None:
        plain, sure, next_one = book.send("g"), book.send("g", confirm=True), book.send("g")
        book.ledger.dropped(1, 2, "deadline")
        book.ledger.settled(3)
        errors = outcome(plain), outcome(sure)
        assert isinstance(errors[0], NotSent) and isinstance(errors[1], Unconfirmed)
        assert errors[1].reason == "deadline" and outcome(next_one) == taken_as(next_one)

    played(play)


def test_leaving() -> None:
    def play(book: Book) -> None:
        sure, both, taken = book.send("g", confirm=True), book.send("g", "h", confirm=True), book.send("g")
        untaken = book.send("g")
        book.ledger.settled(3)
        book.ledger.left("g", frozenset({"h"}))
        for sent in (sure, both):
            error = outcome(sent)
            assert isinstance(error, Unconfirmed) and error.reason == "left"
        assert outcome(taken) == taken_as(taken) and outcome(untaken) == "open" and len(book.ledger) == 2
        book.ledger.settled(4)
        assert outcome(untaken) == taken_as(untaken) and len(book.ledger) == 1

    played(play)


def test_the_end_of_a_session() -> None:
    def play(book: Book) -> None:
        heard, taken, written = book.send("g"), book.send("g"), book.send("g", flags=CALL)
        sure, waits, dropped = book.send("g", confirm=True), book.send("g"), book.send("g")
        book.ledger.settled(2)
        book.ledger.heard(1, 1, STAMP, False)
        dropped.waiter.cancel()
        unknown = book.ledger.end(unwritten=5, reason="gone")
        assert unknown == [taken, written, sure, dropped] and heard not in unknown
        assert outcome(taken) == taken_as(taken) and isinstance(outcome(written), UnknownFate)
        error = outcome(sure)
        assert isinstance(error, Unconfirmed) and error.reason == "disconnected"
        assert outcome(waits) is AGAIN and len(book.ledger) == 0
        told = [message for sent in unknown for message in sent.messages()]
        assert [(each.body, each.taken) for each in told[:2]] == [(b"00000002", True), (b"", False)]

    played(play)


def test_refused_on_the_spot() -> None:
    def play(book: Book) -> None:
        kept, refused = book.send("g"), book.send("g")
        book.ledger.forget(refused)
        book.ledger.settled(9)
        assert outcome(kept) == taken_as(kept) and outcome(refused) == "open"

    played(play)
