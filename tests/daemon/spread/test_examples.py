"""The example sequences of the protocol's description, byte for byte; only group ids are this daemon's own."""

from __future__ import annotations

import pytest

from isotone.core.ids import GroupViewId
from isotone.daemon.spread.memberships import group_id
from tests.daemon.spread.house import Guest, House
from tests.spread_client.protocol import AGREED, SpreadClient


def dump(text: str) -> bytes:
    """Lines of "offset  bytes" as bytes."""
    return b"".join(bytes.fromhex(line.split("  ", 1)[1]) for line in text.strip().splitlines())


CONNECT = bytes.fromhex("05 00 01 01 05 75 73 65 72 31")
METHODS = bytes.fromhex("05 4E 55 4C 4C 20")
CHOICE = bytes.fromhex("4E 55 4C 4C") + bytes(86)
ACCEPT = bytes.fromhex("01 05 00 01 09 23 75 73 65 72 31 23 64 31")

ZERO_LINE = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
JOIN_LITTLE = dump(f"""
0000  80 00 01 80 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 01 00 00 00 80 00 00 80 00 00 00 00
0030  67 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040  {ZERO_LINE}""")
JOIN_BIG = dump(f"""
0000  00 01 00 00 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00
0030  67 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040  {ZERO_LINE}""")
HELLO_LITTLE = dump(f"""
0000  90 00 00 80 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 01 00 00 00 80 07 00 80 05 00 00 00
0030  67 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040  {ZERO_LINE}
0050  68 65 6C 6C 6F""")
HELLO_BIG = dump(f"""
0000  00 00 00 10 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 00 00 00 01 00 00 07 00 00 00 00 05
0030  67 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040  {ZERO_LINE}
0050  68 65 6C 6C 6F""")
HELLO_BIG_TOLD = dump(f"""
0000  90 00 00 80 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 01 00 00 00 00 00 07 00 05 00 00 00
0030  67 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040  {ZERO_LINE}
0050  68 65 6C 6C 6F""")
JOINED = """
0000  80 11 00 80 67 31 00 00 00 00 00 00 00 00 00 00
0010  {zero}
0020  00 00 00 00 02 00 00 00 80 00 00 80 38 00 00 00
0030  23 75 73 65 72 31 23 64 31 00 00 00 00 00 00 00
0040  {zero}
0050  23 75 73 65 72 32 23 64 31 00 00 00 00 00 00 00
0060  {zero}
0070  {id} 01 00 00 00
0080  00 00 00 00 01 00 00 00 23 75 73 65 72 32 23 64
0090  31 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00a0  00 00 00 00 00 00 00 00"""
LEAVE = dump(f"""
0000  80 00 02 80 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 01 00 00 00 80 00 00 80 00 00 00 00
0030  67 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0040  {ZERO_LINE}""")
SELF_LEAVE = dump(f"""
0000  80 02 00 80 67 31 00 00 00 00 00 00 00 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 00 00 00 00 80 00 00 80 00 00 00 00""")
LEFT = """
0000  80 12 00 80 67 31 00 00 00 00 00 00 00 00 00 00
0010  {zero}
0020  00 00 00 00 01 00 00 00 80 00 00 80 38 00 00 00
0030  23 75 73 65 72 32 23 64 31 00 00 00 00 00 00 00
0040  {zero}
0050  {id} 01 00 00 00
0060  00 00 00 00 01 00 00 00 23 75 73 65 72 31 23 64
0070  31 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0080  00 00 00 00 00 00 00 00"""
KILL = dump(f"""
0000  80 00 04 80 23 75 73 65 72 31 23 64 31 00 00 00
0010  {ZERO_LINE}
0020  00 00 00 00 01 00 00 00 80 00 00 80 00 00 00 00
0030  23 75 73 65 72 31 23 64 31 00 00 00 00 00 00 00
0040  {ZERO_LINE}""")
TRANSITIONAL = """
0000  80 20 00 80 67 31 00 00 00 00 00 00 00 00 00 00
0010  {zero}
0020  00 00 00 00 00 00 00 00 80 00 00 80 0C 00 00 00
0030  {id}"""
MERGED = """
0000  80 18 00 80 67 31 00 00 00 00 00 00 00 00 00 00
0010  {zero}
0020  00 00 00 00 03 00 00 00 80 00 00 80 7C 00 00 00
0030  23 75 73 65 72 31 23 64 31 00 00 00 00 00 00 00
0040  {zero}
0050  23 75 73 65 72 32 23 64 31 00 00 00 00 00 00 00
0060  {zero}
0070  23 62 6F 62 23 64 32 00 00 00 00 00 00 00 00 00
0080  {zero}
0090  {id} 02 00 00 00
00a0  {offset} 02 00 00 00 23 75 73 65 72 31 23 64
00b0  31 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00c0  00 00 00 00 00 00 00 00 23 75 73 65 72 32 23 64
00d0  31 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00e0  00 00 00 00 00 00 00 00 01 00 00 00 23 62 6F 62
00f0  23 64 32 00 00 00 00 00 00 00 00 00 00 00 00 00
0100  00 00 00 00 00 00 00 00 00 00 00 00"""


def with_id(text: str, id: bytes, **more: str) -> bytes:
    return dump(text.format(zero=ZERO_LINE, id=id.hex(" "), **more))


def id_here(house: House, daemon: str = "d1", group: str = "g1") -> GroupViewId:
    return house.stack(daemon).groups.roster.by_name[group].id


def only(guest: Guest) -> bytes:
    (data,) = guest.raw()
    return data


def enter(house: House, user: str = "user1", daemon: str = "d1", order: str = "little") -> Guest:
    return house.connect(user, daemon, order=order)


def test_10_1_to_10_4_the_handshake_write_by_write() -> None:
    house = House("d1")
    guest = house.guest(SpreadClient("user1"))
    assert guest.client.hello() == CONNECT
    guest.write(CONNECT)
    assert guest.raw() == [METHODS]
    assert guest.client.choice() == CHOICE
    guest.write(CHOICE)
    assert guest.raw() == [ACCEPT]


@pytest.mark.parametrize(("order", "asked"), [("little", JOIN_LITTLE), ("big", JOIN_BIG)])
def test_10_5_join(order: str, asked: bytes) -> None:
    house = House("d1")
    guest = enter(house, order=order)
    assert guest.client.join("g1") == asked
    guest.write(asked)
    assert guest.expect_view().groups == ("#user1#d1",)


@pytest.mark.parametrize(
    ("order", "asked", "told"), [("little", HELLO_LITTLE, HELLO_LITTLE), ("big", HELLO_BIG, HELLO_BIG_TOLD)]
)
@pytest.mark.parametrize("reader", ["little", "big"])
def test_10_6_multicast(order: str, asked: bytes, told: bytes, reader: str) -> None:
    house = House("d1")
    guest = enter(house, order=order)
    other = enter(house, "user2", order=reader)
    for each in (guest, other):
        each.write(each.client.join("g1"))
    assert other.expect_view().groups == ("#user1#d1", "#user2#d1")
    assert guest.client.multicast(AGREED, "g1", b"hello", 7) == asked
    guest.write(asked)
    house.until(lambda: len(guest.pull().received) == 3)
    received = other.expect()
    assert received.raw == told == guest.client.received[2].raw
    assert (received.message_type, received.is_mismatched) == (7, order != reader)


def test_10_7_two_members() -> None:
    house = House("d1")
    one, two = house.joined("user1", "user2")
    expected = with_id(JOINED, group_id(id_here(house)))
    assert one.client.received[-1].raw == expected == two.client.received[-1].raw


def test_10_8_leave() -> None:
    house = House("d1")
    one, two = house.joined("user1", "user2")
    assert one.client.leave("g1") == LEAVE
    one.write(LEAVE)
    assert two.expect().raw == with_id(LEFT, group_id(id_here(house)))
    assert one.expect().raw == SELF_LEAVE
    assert one.client.received[-1].is_self_leave
    one.expect_nothing()


def test_10_9_disconnect() -> None:
    house = House("d1")
    one, two = house.joined("user1", "user2")
    assert one.client.disconnect() == KILL
    one.write(KILL)
    assert one.is_ended
    received = two.expect_view()
    assert (received.type, received.groups) == (0x1400, ("#user2#d1",))
    assert two.client.view_of(received).sets == (("#user1#d1",),)


def test_10_10_and_10_11_split_and_merge() -> None:
    house = House("d1", "d2")
    one, two, bob = enter(house), enter(house, "user2"), enter(house, "bob", "d2")
    house.gather(one, two, bob)
    before = id_here(house)
    house.world.partition(["d1"], ["d2"])
    for each in (one, two, bob):
        assert each.expect().raw == with_id(TRANSITIONAL, group_id(before))
    alone = one.expect_view()
    assert (alone.type, alone.groups) == (0x1800, ("#user1#d1", "#user2#d1"))
    assert one.client.view_of(alone).sets == (alone.groups,)
    assert (two.expect_view().raw, bob.expect_view().groups) == (alone.raw, ("#bob#d2",))
    house.world.heal()
    house.until(house.is_together)
    after = group_id(id_here(house))
    assert id_here(house) == id_here(house, "d2")
    assert one.expect().raw == two.expect().raw == with_id(MERGED, after, offset="00 00 00 00")
    assert bob.expect().raw == with_id(MERGED, after, offset="44 00 00 00")


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        ("05 00 01 01 0B 61 61 61 61 61 61 61 61 61 61 61", "FB"),
        ("05 00 01 01 05 75 73 65 72 31", "FA"),
        ("03 00 01 05 75 73 65 72 31", "F9"),
    ],
)
def test_10_12_rejections_are_one_byte_each(hello: str, answer: str) -> None:
    house = House("d1")
    enter(house)
    guest = house.guest(SpreadClient("x"))
    guest.write(bytes.fromhex(hello))
    assert only(guest) == bytes.fromhex(answer)
    assert guest.is_ended
