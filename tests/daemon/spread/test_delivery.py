"""What clients hear of messages, of each other and of native clients."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.services import Service
from isotone.daemon.spread import GatewaySettings, Oversize
from tests.daemon.spread.house import House
from tests.spread_client.protocol import AGREED, FIFO, RELIABLE, SAFE, SELF_DISCARD


def test_one_copy_whatever_the_number_of_groups() -> None:
    house = House()
    alice, bob = house.joined("alice", "bob", group="a")
    house.gather(alice, bob, group="b")
    alice.write(alice.client.multicast(AGREED, ("a", "b", "nobody"), b"x"))
    assert alice.expect().groups == ("a", "b", "nobody")
    assert bob.expect().groups == ("a", "b", "nobody")
    for each in (alice, bob):
        each.expect_nothing()


def test_who_sends_need_not_be_a_member_and_a_member_hears_itself() -> None:
    house = House()
    (alice,) = house.joined("alice")
    stranger = house.connect("stranger")
    stranger.write(stranger.client.multicast(FIFO, "g1", b"from outside"))
    alice.write(alice.client.multicast(FIFO, "g1", b"from inside"))
    heard = [alice.expect() for _ in range(2)]
    assert {(each.name, each.data) for each in heard} == {
        ("#stranger#d1", b"from outside"),
        ("#alice#d1", b"from inside"),
    }
    stranger.expect_nothing()


@pytest.mark.parametrize("daemon", ["d1", "d2"])
def test_private_groups_reach_one_client_and_mix_with_others(daemon: str) -> None:
    house = House("d1", "d2")
    alice, bob = house.connect("alice", "d1"), house.connect("bob", daemon)
    (carol,) = house.joined("carol")
    alice.write(alice.client.multicast(AGREED, ("g1", f"#bob#{daemon}"), b"both"))
    for each in (bob, carol):
        received = each.expect()
        assert (received.data, received.groups) == (b"both", ("g1", f"#bob#{daemon}"))
    alice.expect_nothing()


def test_self_discard_is_for_the_sender_alone_and_others_see_the_bit() -> None:
    house = House()
    alice, bob = house.joined("alice", "bob")
    alice.write(alice.client.multicast(SAFE | SELF_DISCARD, ("g1", "#alice#d1"), b"x"))
    assert bob.expect().type == SAFE | SELF_DISCARD
    alice.expect_nothing()


@pytest.mark.parametrize("bits", [0x01000000, 0x10000000, 0x20000000, 0x40000000, 0x7F000000])
@pytest.mark.parametrize("order", ["little", "big"])
def test_bits_of_the_application_pass_to_another_daemon(bits: int, order: str) -> None:
    house = House("d1", "d2")
    alice, bob = house.connect("alice", "d1", order=order), house.connect("bob", "d2")
    house.gather(alice, bob)
    alice.write(alice.client.multicast(RELIABLE | bits, "g1", b"x", -7))
    received = bob.expect()
    assert (received.type, received.message_type) == (RELIABLE | bits, -7)
    assert received.is_mismatched is (order == "big")


def test_all_see_one_order() -> None:
    house = House("d1", "d2")
    guests = [house.connect(f"u{n}", f"d{1 + n % 2}") for n in range(4)]
    house.gather(*guests)
    for n in range(20):
        for place, guest in enumerate(guests):
            guest.write(guest.client.multicast(AGREED, "g1", f"{place}.{n}".encode()))
    heard = [[guest.expect().data for _ in range(80)] for guest in guests]
    assert heard[0] == heard[1] == heard[2] == heard[3]
    assert len(set(heard[0])) == 80


def test_a_client_without_membership_hears_messages_only_and_is_seen_by_others() -> None:
    house = House()
    quiet = house.connect("quiet", membership=False)
    quiet.write(quiet.client.join("g1"))
    (alice,) = house.joined("alice")
    assert alice.client.received[-1].groups == ("#alice#d1", "#quiet#d1")
    alice.write(alice.client.multicast(AGREED, "g1", b"x"))
    assert alice.expect().data == b"x"
    quiet.write(quiet.client.leave("g1"))
    assert alice.expect_view().type == 0x1200
    quiet.write(quiet.client.join("g1"))
    assert alice.expect_view().type == 0x1100
    quiet.close()
    assert alice.expect_view().type == 0x1400
    assert [each.data for each in quiet.pull().received] == [b"x"]


def test_what_is_ordered_before_a_join_is_not_heard() -> None:
    house = House()
    (alice,) = house.joined("alice")
    bob = house.connect("bob")
    alice.write(alice.client.multicast(AGREED, "g1", b"before"))
    assert alice.expect().data == b"before"
    bob.write(bob.client.join("g1"))
    assert alice.expect_view().groups == ("#alice#d1", "#bob#d1")
    alice.write(alice.client.multicast(AGREED, "g1", b"behind"))
    assert bob.expect_view().groups == ("#alice#d1", "#bob#d1")
    assert bob.expect().data == b"behind"


# --- native clients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", ["d1", "d2"])
def test_a_bundle_of_a_native_client_is_many_messages(daemon: str) -> None:
    house = House("d1", "d2")
    (alice,) = house.joined("alice")
    native = house.native(daemon)
    bodies = [bytes((n,)) * n for n in range(50)]
    native.send(Service.AGREED, ("g1", "g0"), *bodies, types=tuple(range(50)), flags=0x4000)
    heard = [alice.expect() for _ in range(50)]
    assert [each.data for each in heard] == bodies
    assert [each.message_type for each in heard] == list(range(50))
    assert {(each.name, each.groups, each.type) for each in heard} == {
        (f"#native#{daemon}", ("g0", "g1"), AGREED | 0x40000000)
    }
    assert not any(each.is_mismatched for each in heard)


def test_native_clients_hear_spread_clients_and_both_are_members() -> None:
    house = House()
    (alice,) = house.joined("alice")
    native = house.native()
    native.ask(b4.Join("g1"))
    assert alice.expect_view().groups == ("#alice#d1", "#native#d1")
    alice.write(alice.client.multicast(FIFO, "#native#d1", b"private", 5))
    house.until(lambda: len(native.messages()) == 1)
    bundle = native.messages()[0].bundle
    assert (bytes(bundle.payload), bundle.types, str(bundle.sender.private_group)) == (b"private", (5,), "#alice#d1")
    native.ask(b4.Disconnect())
    assert alice.expect_view().type == 0x1400


def test_what_is_too_large_is_skipped_and_counted() -> None:
    house = House()
    alice, bob = house.joined("alice", "bob")
    native = house.native()
    for size in (143_920, 143_921, 5):
        native.send(Service.AGREED, ("g1",), bytes(size))
    assert [len(alice.expect().data) for _ in range(2)] == [143_920, 5]
    assert [len(bob.expect().data) for _ in range(2)] == [143_920, 5]
    assert house.gateway().counters.oversize_skipped == 2


def test_of_a_bundle_only_what_is_too_large_is_skipped() -> None:
    house = House(settings=GatewaySettings(message_bytes_max=1000))
    (alice,) = house.joined("alice")
    house.native().send(Service.AGREED, ("g1",), b"a" * 968, b"b" * 969, b"c")
    assert [alice.expect().data[:1] for _ in range(2)] == [b"a", b"c"]


def test_what_is_too_large_ends_sessions_where_the_settings_say_so() -> None:
    house = House(settings=GatewaySettings(oversize=Oversize.DISCONNECT, message_bytes_max=1000))
    (alice,) = house.joined("alice")
    (bob,) = house.joined("bob", group="g2")
    house.native().send(Service.AGREED, ("g1",), bytes(1000))
    house.until(lambda: alice.is_ended)
    assert not bob.is_ended
    (remark,) = house.booth().remarks
    assert remark.code == "oversize"
    assert "1000 bytes" in remark.reason
    assert house.gateway().counters.ended == {"oversize": 1}
