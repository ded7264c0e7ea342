from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView
from isotone.trace import boundary, events

D1 = DaemonId("d1", 3)
ALICE = ClientId(D1, "alice", 7)
BOB = ClientId(D1, "bob", 8)
ALICE_TEXT, BOB_TEXT = "#alice#d1#3#7", "#bob#d1#3#8"
VIEW = GroupViewId(DaemonViewId(5, D1))


def reference_digest(type: int, body: bytes) -> int:
    return xxh3_64(body, seed=type).intdigest()


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 65535)), min_size=1, max_size=6))
def test_digests_are_per_message_over_type_and_bytes(messages: list[tuple[bytes, int]]) -> None:
    bodies, types = [body for body, _ in messages], [type for _, type in messages]
    bundle = bundle_of(ALICE, 1, Service.FIFO, ["g"], bodies, types=types)
    expected = tuple(reference_digest(type, body) for body, type in messages)
    assert boundary.bundle_digests(bundle) == expected
    viewed = b4.Bundle(ALICE, 1, Service.FIFO, ("g",), bundle.lengths, bundle.types, memoryview(b"".join(bodies)))
    assert boundary.bundle_digests(viewed) == expected


def test_a_buffer_that_changed_has_another_digest() -> None:
    buffer = bytearray(b"one")
    bundle = b4.Bundle(ALICE, 1, Service.FIFO, ("g",), (3,), (0,), memoryview(buffer))
    first = boundary.bundle_digests(bundle)
    buffer[:] = b"two"
    assert boundary.bundle_digests(bundle) != first


def test_requests() -> None:
    bundle = bundle_of(ALICE, 4, Service.SAFE, ["h", "g"], [b"x", b"yz"], types=[1, 2])
    digests = (reference_digest(1, b"x"), reference_digest(2, b"yz"))
    assert boundary.entry_of_request(ALICE, b4.Send(bundle)) == events.Sent(
        ALICE_TEXT, 4, Service.SAFE, ("g", "h"), (1, 2), digests
    )
    assert boundary.entry_of_request(ALICE, b4.Join("g")) == events.JoinRequested(ALICE_TEXT, "g")
    assert boundary.entry_of_request(ALICE, b4.Leave("g")) == events.LeaveRequested(ALICE_TEXT, "g")
    assert boundary.entry_of_request(ALICE, b4.Disconnect()) == events.Disconnected(ALICE_TEXT)
    assert boundary.entry_of_request(ALICE, b4.Connect()) is None


def test_the_record_of_a_send_names_who_asked_not_whom_the_bundle_claims() -> None:
    entry = boundary.entry_of_request(ALICE, b4.Send(bundle_of(BOB, 1, Service.FIFO, ["g"], [b"x"])))
    assert isinstance(entry, events.Sent)
    assert entry.client == ALICE_TEXT


def test_indications_to_many() -> None:
    bundle = bundle_of(BOB, 4, Service.AGREED, ["g"], [b"x"])
    told = boundary.entry_of_indication((ALICE, BOB), b4.Message(bundle, Stamp(9, DaemonId("d2", 1))))
    assert told == events.Delivered(
        (ALICE_TEXT, BOB_TEXT), BOB_TEXT, 4, Service.AGREED, ("g",), (1,), (reference_digest(0, b"x"),), 9, "d2#1"
    )
    view = GroupView("g", VIEW, (ALICE, BOB), (ALICE,), Cause.JOIN, BOB)
    assert boundary.entry_of_indication((ALICE,), b4.View(view)) == events.ViewDelivered(
        (ALICE_TEXT,), "g", VIEW, (ALICE_TEXT, BOB_TEXT), (ALICE_TEXT,), "join", BOB_TEXT
    )
    network = GroupView("g", VIEW, (ALICE,), (ALICE,), Cause.NETWORK)
    entry = boundary.entry_of_indication((ALICE,), b4.View(network))
    assert isinstance(entry, events.ViewDelivered) and (entry.cause, entry.subject) == ("network", "")
    assert boundary.entry_of_indication((ALICE,), b4.Transitional("g", VIEW)) == events.SignalDelivered(
        (ALICE_TEXT,), "g", VIEW
    )


def test_indications_to_one() -> None:
    assert boundary.entry_of_indication((ALICE,), b4.SelfLeave("g")) == events.SelfLeft(ALICE_TEXT, "g")
    assert boundary.entry_of_indication((ALICE,), b4.Connected()) == events.Connected(ALICE_TEXT)
    assert boundary.entry_of_indication((ALICE,), b4.Disconnected("slow")) == events.Disconnected(ALICE_TEXT, "slow")
    assert boundary.entry_of_indication((ALICE,), b4.Refused("join", "bad name")) is None
    with pytest.raises(ValueError):
        boundary.entry_of_indication((ALICE, BOB), b4.Connected())


def test_what_concerns_one_session_becomes_one_entry_each() -> None:
    assert boundary.entries_of_indication((ALICE, BOB), b4.Disconnected("stop")) == [
        events.Disconnected(ALICE_TEXT, "stop"),
        events.Disconnected(BOB_TEXT, "stop"),
    ]
    assert boundary.entries_of_indication((ALICE, BOB), b4.Refused("join", "")) == []
    assert len(boundary.entries_of_indication((ALICE, BOB), b4.Transitional("g", VIEW))) == 1
