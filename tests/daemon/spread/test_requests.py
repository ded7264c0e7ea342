"""What clients ask: which frames are understood, and what they lead to."""

from __future__ import annotations

import struct

import pytest

from isotone.core import boundary as b4
from isotone.core.contract import StreamReceived
from isotone.core.services import Service
from isotone.daemon.spread import GatewaySettings
from tests.daemon.spread.house import House
from tests.spread_client.protocol import (
    AGREED,
    FIFO,
    JOIN,
    KILL,
    LEAVE,
    SAFE,
    SELF_DISCARD,
    SpreadClient,
)

ORDERS = pytest.mark.parametrize("order", ["little", "big"])


def patched(frame: bytes, place: int, data: bytes) -> bytes:
    return frame[:place] + data + frame[place + len(data) :]


def number(value: int, order: str) -> bytes:
    return struct.pack("<i" if order == "little" else ">i", value)


WRONG = {
    "no request": lambda client: client.frame(0, ("g",)),
    "two services": lambda client: client.frame(AGREED | SAFE, ("g",)),
    "service and join": lambda client: client.frame(AGREED | JOIN, ("g",)),
    "join and leave": lambda client: client.frame(JOIN | LEAVE, ("g",)),
    "a view": lambda client: client.frame(AGREED | 0x1100, ("g",)),
    "what only daemons say": lambda client: client.frame(AGREED | 0x80000, ("g",)),
    "a rejection": lambda client: client.frame(AGREED | 0x400000, ("g",)),
    "another client": lambda client: client.frame(AGREED, ("g",), private_group="#bob#d1"),
    "another daemon": lambda client: client.frame(AGREED, ("g",), private_group="#alice#d2"),
    "no name": lambda client: client.frame(AGREED, ("g",), private_group=""),
    "a name without end": lambda client: client.frame(AGREED, ("g",), private_group="#alice#d1" + "x" * 23),
    "101 groups": lambda client: client.frame(AGREED, ("g",) * 101),
    "-1 groups": lambda client: patched(client.frame(AGREED), 36, number(-1, client.order)),
    "-1 bytes": lambda client: patched(client.frame(AGREED), 44, number(-1, client.order)),
    "144001 bytes": lambda client: patched(client.frame(AGREED), 44, number(144_001, client.order)),
    "too large": lambda client: client.frame(AGREED, ("g",), bytes(143_952 - 31)),
    "hint": lambda client: patched(client.frame(AGREED, ("g",)), 40, b"\x01\0\0\0"),
    "half a mark": lambda client: patched(client.frame(AGREED, ("g",)), 0, b"\x90\0\0\0"),
    "half a mark of the hint": lambda client: patched(client.frame(AGREED, ("g",)), 40, b"\x80\0\0\0"),
}


@ORDERS
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_frame_ends_its_session_and_counts_what_came_before(wrong: str, order: str) -> None:
    house = House()
    (bob,) = house.joined("bob")
    alice = house.connect("alice", order=order)
    alice.write(alice.client.join("g1"))
    assert bob.expect_view().type == 0x1100
    good, bad = alice.client.multicast(FIFO, "g1", b"before"), WRONG[wrong](alice.client)
    alice.write(good + bad + good)
    assert alice.is_ended
    assert bob.expect().data == b"before"
    assert bob.expect_view().type == 0x1400
    assert sum(house.gateway().counters.malformed.values()) == 1
    bob.expect_nothing()


@ORDERS
def test_frames_come_in_any_pieces(order: str) -> None:
    house = House()
    (alice,) = house.joined("alice", order=order)
    data = b"".join(alice.client.multicast(FIFO, "g1", bytes((n,)) * 300, n) for n in range(6))
    for place in range(0, len(data), 77):
        alice.write(data[place : place + 77])
    assert [alice.expect().message_type for _ in range(6)] == list(range(6))


def test_the_largest_message_and_a_hundred_groups_arrive() -> None:
    house = House()
    (alice,) = house.joined("alice", group="n050")
    groups = tuple(f"n{n:03}" for n in range(100))
    alice.write(alice.client.multicast(SAFE, groups, bytes(143_952 - 3_200)))
    received = alice.expect()
    assert (len(received.data), received.groups) == (140_752, groups)


def test_one_read_is_one_bundle_and_keeps_each_type() -> None:
    house = House()
    native = house.native()
    native.ask(b4.Join("g1"))
    (alice,) = house.joined("alice")
    frames = [alice.client.multicast(AGREED, "g1", b"x" * n, n * 1000) for n in range(40)]
    alice.write(b"".join([*frames, alice.client.multicast(SAFE, "g1", b"safe"), frames[0]]))
    assert [alice.expect().message_type for _ in range(40)] == [
        n * 1000 - (0x10000 if n > 32 else 0) for n in range(40)
    ]
    assert alice.expect().type == SAFE
    house.until(lambda: len(native.messages()) == 3)
    assert [each.bundle.count for each in native.messages()] == [40, 1, 1]
    assert native.messages()[0].bundle.types[7] == 7000
    assert [each.bundle.first_sequence for each in native.messages()] == [1, 41, 42]


# --- join and leave ------------------------------------------------------------------------------------------------


def test_to_join_twice_and_to_leave_as_a_stranger_is_nothing() -> None:
    house = House()
    (alice,) = house.joined("alice")
    client = alice.client
    alice.write(client.join("g1") + client.leave("g2") + client.leave("") + client.leave("a b"))
    alice.expect_nothing()
    assert not alice.is_ended


def test_only_the_first_group_of_a_join_counts_and_its_data_does_not() -> None:
    house = House()
    alice = house.connect("alice")
    alice.write(alice.client.frame(JOIN, ("g1", "g2"), b"data"))
    assert alice.expect_view().name == "g1"
    alice.expect_nothing()


def test_a_join_without_a_group_is_nothing() -> None:
    house = House()
    alice = house.connect("alice")
    alice.write(alice.client.frame(JOIN) + alice.client.frame(LEAVE) + alice.client.join("g1"))
    assert alice.expect_view().name == "g1"


@pytest.mark.parametrize("name", ["", "a b", "#x", "#a#b#c", "#bob#d1", "x" * 32, "\xe9"])
def test_a_name_that_no_group_can_have_is_rejected(name: str) -> None:
    house = House()
    alice = house.connect("alice")
    alice.write(alice.client.frame(JOIN, (name.encode("latin-1").ljust(32, b"\0"),)) + alice.client.join("g1"))
    house.until(lambda: len(house.booth().written[alice.stream]) == 2)
    raw, view = alice.raw()
    assert raw[:4] == b"\x80\x00\x40\x80"
    assert raw[48:52] == b"\x80\x01\x00\x80"
    assert raw[84:93] == b"#alice#d1"
    assert not alice.is_ended
    assert view[4:6] == b"g1"


def test_garbage_behind_a_name_is_not_passed_on() -> None:
    house = House()
    (alice,) = house.joined("alice")
    alice.write(alice.client.frame(AGREED, (b"g1\0" + b"\xee" * 29,), b"x"))
    assert alice.expect().raw[48:80] == b"g1".ljust(32, b"\0")


def test_to_leave_and_join_at_once_is_done_in_this_order() -> None:
    house = House()
    alice, bob = house.joined("alice", "bob")
    client = alice.client
    alice.write(client.leave("g1") + client.join("g1") + client.multicast(AGREED, "g1", b"again"))
    assert alice.expect().is_self_leave
    assert alice.expect_view().type == 0x1100
    assert alice.expect().data == b"again"
    assert [bob.expect().type for _ in range(3)] == [0x1200, 0x1100, AGREED]


def test_a_join_is_not_asked_before_one_has_left() -> None:
    house = House()
    (alice,) = house.joined("alice")
    gateway, client = house.gateway(), house.gateway().clients[0]
    frames = alice.client.leave("g1") + alice.client.join("g1") + alice.client.multicast(AGREED, "g1", b"x")
    out = gateway.handle(StreamReceived(0, alice.stream, frames))
    assert [each.request for each in out if isinstance(each, b4.Ask)] == [b4.Leave("g1")]
    out = gateway.handle(b4.Indicated(0, (client,), b4.SelfLeave("g1")))
    asked = [each.request for each in out if isinstance(each, b4.Ask)]
    assert asked[0] == b4.Join("g1")
    assert isinstance(asked[1], b4.Send)


def test_a_group_dies_with_its_last_member_and_its_ids_do_not_return() -> None:
    house = House()
    alice = house.connect("alice")
    ids = set()
    for _ in range(3):
        alice.write(alice.client.join("g1"))
        ids.add(alice.client.view_of(alice.expect_view()).id)
        alice.write(alice.client.leave("g1"))
        assert alice.expect().is_self_leave
    assert len(ids) == 3


def test_sessions_are_in_a_bounded_number_of_groups() -> None:
    house = House(settings=GatewaySettings(groups_max=2))
    alice = house.connect("alice")
    alice.write(b"".join(alice.client.join(name) for name in ("a", "b", "c")))
    assert sorted(alice.expect().type for _ in range(3)) == [0x1100, 0x1100, 0x400000 | 0x100 * 0]
    alice.write(alice.client.leave("a") + alice.client.join("c"))
    assert alice.expect().is_self_leave
    assert alice.expect_view().name == "c"


# --- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", "close"])
def test_the_end_follows_all_that_was_sent_and_concerns_all_groups(how: str) -> None:
    house = House()
    alice, bob = house.connect("alice"), house.connect("bob")
    for group in ("b", "c", "a"):
        house.gather(alice, bob, group=group)
    alice.write(alice.client.multicast(AGREED | SELF_DISCARD, "a", b"last"))
    if how == "kill":
        alice.write(alice.client.disconnect() + alice.client.multicast(AGREED, "a", b"never"))
        assert alice.is_ended
    else:
        alice.close()
    assert bob.expect().data == b"last"
    told = [bob.expect_view() for _ in range(3)]
    assert sorted((each.name, each.type) for each in told) == [("a", 0x1400), ("b", 0x1400), ("c", 0x1400)]
    bob.expect_nothing()
    assert alice.raw() == []
    assert house.gateway().sessions == 1


def test_a_kill_may_carry_garbage_in_its_slot() -> None:
    house = House()
    alice = house.connect("alice")
    alice.write(alice.client.frame(KILL, (b"#alice#d1\0" + b"\xcc" * 22,)))
    assert alice.is_ended


def test_the_name_is_free_at_once() -> None:
    house = House()
    alice = house.connect("alice")
    alice.write(alice.client.disconnect())
    assert house.connect("alice").client.private_group == "#alice#d1"


def test_a_session_that_is_not_open_yet_may_go() -> None:
    house = House()
    house.stack("d1").groups.desk._connect = lambda client: None  # type: ignore[method-assign]
    guest = house.guest(client := SpreadClient("user1"))
    guest.write(client.hello() + client.choice())
    guest.close()
    assert house.gateway().sessions == 0


# --- what reaches the group service --------------------------------------------------------------------------------


@pytest.mark.parametrize("service", list(Service))
def test_services_have_the_same_order_here_and_there(service: Service) -> None:
    house = House()
    (alice,) = house.joined("alice")
    alice.write(alice.client.multicast(1 << service, "g1", b"x"))
    assert alice.expect().type == 1 << service
    (asked,) = [each.request for each in house.booth().asked if isinstance(each.request, b4.Send)]
    assert asked.bundle.service is service


@ORDERS
def test_what_travels_in_the_flags_of_a_bundle(order: str) -> None:
    house = House()
    alice = house.connect("alice", order=order)
    alice.write(alice.client.multicast(AGREED | SELF_DISCARD | 0x51000000, "g1", b"x", -2))
    (asked,) = [each.request for each in house.booth().asked if isinstance(each.request, b4.Send)]
    assert asked.bundle.flags == 0x5140 | (0x80 if order == "big" else 0)
    assert asked.bundle.types == (0xFFFE,)


def test_messages_to_nobody_are_legal() -> None:
    house = House()
    alice = house.connect("alice")
    frames = [alice.client.multicast(AGREED, groups, b"x") for groups in ((), ("a b",), ("",), ("#nobody",))]
    alice.write(b"".join(frames) + alice.client.multicast(AGREED, ("unknown", "#bob#d9"), b"x"))
    alice.expect_nothing()
    assert not alice.is_ended
    assert house.gateway().counters.unaddressed == 4
