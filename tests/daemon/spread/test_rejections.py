"""What is not permitted goes back to who asked, in the layout that libraries read."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.contract import StreamReceived
from isotone.evs.groups import GroupsSettings
from tests.daemon.spread.house import House
from tests.spread_client.protocol import AGREED, BY_JOIN, BY_LEAVE, FIFO, REJECT, SAFE, SELF_DISCARD


def forbid(principal: str, request: b4.Request) -> str:
    """Nobody but the boss in groups that begin with x; who is in may not leave y."""
    match request:
        case b4.Join(group=group) if group.startswith("x"):
            return "" if principal == "spread/boss" else "not for you"
        case b4.Send(bundle=bundle) if any(group.startswith("x") for group in bundle.groups):
            return "" if principal == "spread/boss" else "not for you"
        case b4.Leave(group="y"):
            return "nobody leaves"
    return ""


def test_a_join_that_is_not_permitted() -> None:
    house = House(permit=forbid)
    alice = house.connect("alice")
    alice.write(alice.client.join("x1") + alice.client.join("g1"))
    rejected = alice.expect()
    assert (rejected.type, rejected.original) == (REJECT, BY_JOIN)
    assert (rejected.name, rejected.groups, rejected.data) == ("#alice#d1", ("x1", "#alice#d1"), b"")
    assert alice.expect_view().name == "g1"
    assert [(each.code, each.reason) for each in house.booth().remarks] == [("rejected", "not for you")]
    assert house.gateway().counters.rejected == 1


def test_the_principal_decides() -> None:
    house = House(permit=forbid)
    (boss,) = house.joined("boss", group="x1")
    boss.write(boss.client.multicast(AGREED, "x1", b"x"))
    assert boss.expect().data == b"x"


def test_a_leave_that_is_not_permitted_leaves_one_a_member() -> None:
    house = House(permit=forbid)
    (alice,) = house.joined("alice", group="y")
    alice.write(alice.client.leave("y") + alice.client.multicast(AGREED, "y", b"still here"))
    assert (alice.expect().original, alice.expect().data) == (BY_LEAVE, b"still here")


@pytest.mark.parametrize("order", ["little", "big"])
def test_messages_come_back_whole_one_by_one_and_use_up_no_sequence(order: str) -> None:
    house = House(permit=forbid)
    (alice,) = house.joined("alice", order=order)
    client = alice.client
    wrong = b"".join(client.multicast(SAFE | 0x40000000, ("g1", "x1"), b"body%d" % n, -n) for n in range(3))
    alice.write(wrong + client.multicast(FIFO, "g1", b"good"))
    for n in range(3):
        rejected = alice.expect()
        assert (rejected.type, rejected.original) == (REJECT, SAFE | 0x40000000)
        assert (rejected.groups, rejected.data) == (("g1", "x1", "#alice#d1"), b"body%d" % n)
        assert (rejected.message_type, rejected.is_mismatched) == (-n, False)
    assert alice.expect().data == b"good"
    (asked,) = [each.request for each in house.booth().asked if isinstance(each.request, b4.Send)]
    assert asked.bundle.first_sequence == 1


def test_of_a_hundred_groups_the_last_makes_place() -> None:
    house = House(permit=forbid)
    alice = house.connect("alice")
    alice.write(alice.client.multicast(AGREED, tuple(f"x{n:02}" for n in range(100)), b"x"))
    rejected = alice.expect()
    assert len(rejected.groups) == 100
    assert rejected.groups[98:] == ("x98", "#alice#d1")


def test_with_self_discard_it_is_not_told() -> None:
    house = House(permit=forbid)
    alice = house.connect("alice")
    alice.write(alice.client.multicast(AGREED | SELF_DISCARD, "x1", b"x"))
    alice.expect_nothing()
    assert house.gateway().counters.rejected == 1


def test_a_refusal_of_the_group_service_ends_the_session() -> None:
    house = House()
    (alice,) = house.joined("alice")
    client = house.gateway().clients[0]
    house.tell("d1", b4.Indicated(0, (client,), b4.Refused("send", "the daemon is busy")))
    assert alice.is_ended
    assert house.gateway().counters.ended == {"refused": 1}
    assert house.booth().asked[-1].request == b4.Disconnect()


def test_a_join_that_the_group_service_refuses_comes_back() -> None:
    house = House(groups=GroupsSettings(groups_max=2))
    (alice,) = house.joined("alice", group="a")
    alice.write(alice.client.join("b"))
    assert alice.expect_view().name == "b"
    alice.write(alice.client.join("c"))
    rejected = alice.expect()
    assert (rejected.type, rejected.original, rejected.groups) == (REJECT, BY_JOIN, ("c", "#alice#d1"))
    alice.write(alice.client.leave("a"))
    assert alice.expect().is_self_leave
    alice.write(alice.client.join("c"))
    assert alice.expect_view().name == "c"


def test_of_several_joins_under_way_the_refused_one_comes_back() -> None:
    house = House()
    alice = house.connect("alice")
    client = house.gateway().clients[0]
    out = house.gateway().handle(StreamReceived(0, alice.stream, alice.client.join("a") + alice.client.join("b")))
    assert [each.request for each in out if isinstance(each, b4.Ask)] == [b4.Join("a"), b4.Join("b")]
    house.tell("d1", b4.Indicated(0, (client,), b4.Refused("join", "the daemon is busy", "b")))
    rejected = alice.expect()
    assert (rejected.type, rejected.original, rejected.groups) == (REJECT, BY_JOIN, ("b", "#alice#d1"))
    assert not alice.is_ended


def test_a_session_that_the_group_service_ends() -> None:
    house = House()
    (alice,) = house.joined("alice")
    client = house.gateway().clients[0]
    house.tell("d1", b4.Indicated(0, (client,), b4.Disconnected("because")))
    assert alice.is_ended
    assert house.gateway().sessions == 0
    assert house.booth().asked[-1].request != b4.Disconnect()
