from __future__ import annotations

from isotone.core.services import Service
from isotone.trace.events import Connected, DaemonDelivered, DaemonSent, Delivered, Row, Sent
from isotone.trace.expand import MessageEvent, expand


def test_a_send_is_one_event_per_message() -> None:
    row = Row("d1", 2, 5, 99, Sent("a", 7, Service.FIFO, ("g", "h"), (3, 4), (30, 40)))
    assert list(expand(row)) == [
        MessageEvent("d1", 2, 5, 99, "send", "a", "a", 7, Service.FIFO, ("g", "h"), 3, 30),
        MessageEvent("d1", 2, 5, 99, "send", "a", "a", 8, Service.FIFO, ("g", "h"), 4, 40),
    ]


def test_a_delivery_is_one_event_per_receiver_and_message() -> None:
    row = Row("d1", 2, 5, 99, Delivered(("x", "y"), "a", 7, Service.SAFE, ("g",), (3, 4), (30, 40), 12, "d2#1"))
    assert [(event.process, event.sequence, event.digest) for event in expand(row)] == [
        ("x", 7, 30),
        ("x", 8, 40),
        ("y", 7, 30),
        ("y", 8, 40),
    ]
    assert {(event.kind, event.sender, event.lamport, event.stamper) for event in expand(row)} == {
        ("deliver", "a", 12, "d2#1")
    }


def test_daemons() -> None:
    sent = Row("d1", 1, 0, 0, DaemonSent("d1#1", 1, Service.AGREED, (3,), (30,)))
    got = Row("d2", 1, 0, 0, DaemonDelivered("d2#1", "d1#1", 1, Service.AGREED, (3,), (30,), 4, "d1#1"))
    assert list(expand(sent)) == [MessageEvent("d1", 1, 0, 0, "ssend", "d1#1", "d1#1", 1, Service.AGREED, (), 3, 30)]
    assert list(expand(got)) == [
        MessageEvent("d2", 1, 0, 0, "sdeliver", "d2#1", "d1#1", 1, Service.AGREED, (), 3, 30, 4, "d1#1")
    ]


def test_other_rows_have_none() -> None:
    assert list(expand(Row("d1", 1, 0, 0, Connected("a")))) == []
