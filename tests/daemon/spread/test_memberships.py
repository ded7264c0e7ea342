"""Views as clients are told them: bodies, sets, offsets, ids, transitions; also what one daemon alone cannot show."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.contract import Address, StreamClosed, StreamOpened, StreamReceived
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.views import Cause, GroupView
from isotone.daemon.spread import SpreadGateway
from isotone.daemon.spread.memberships import RegularView, Transitions, group_id
from tests.daemon.spread.house import House
from tests.spread_client.protocol import SpreadClient
from tests.spread_client.protocol import group_id as read_id

D1, D2, D3 = (DaemonId(name, 1) for name in ("d1", "d2", "d3"))
V = DaemonViewId(5, D1)
W = DaemonViewId(6, D2)
A, B, C, D = (ClientId(daemon, name, 1) for daemon, name in ((D1, "a"), (D1, "b"), (D2, "c"), (D3, "d")))


def heard(regular: RegularView, receiver: ClientId, version: tuple[int, int, int] = (5, 0, 1)) -> SpreadClient:
    client = SpreadClient(receiver.name, version=version, state="open")
    client.feed(regular.frame(regular.place_of(receiver, with_sets=version >= (4, 0, 0))))
    return client


def sets_of(regular: RegularView, receiver: ClientId) -> tuple[int, tuple[tuple[str, ...], ...], tuple[str, ...]]:
    client = heard(regular, receiver)
    (received,) = client.received
    view = client.view_of(received)
    return received.type, view.sets, view.mine


def names(*clients: ClientId) -> tuple[str, ...]:
    return tuple(each.private_group for each in clients)


# --- ids -----------------------------------------------------------------------------------------------------------


def test_ids_tell_all_views_apart_and_have_the_counter_last() -> None:
    views = [
        GroupViewId(daemon_view, following, stamp)
        for daemon_view in (V, W, DaemonViewId(5, D2), DaemonViewId(5, DaemonId("d1", 2)))
        for following in (GroupViewId(V).next_daemon_view, W)
        for stamp in (
            Stamp(0, D1),
            *(Stamp(time, daemon) for time in (1, 2, 1 << 32, 1 + (1 << 32)) for daemon in (D1, D2)),
        )
    ]
    ids = [group_id(view) for view in views]
    assert len(set(ids)) == len(ids)
    assert {len(id) for id in ids} == {12}
    assert [read_id(id)[2] for id in ids] == [view.stamp.lamport & 0xFFFFFFFF for view in views]


def test_changes_of_one_daemon_in_one_daemon_view_differ_in_the_counter_alone() -> None:
    ids = [read_id(group_id(GroupViewId(V, stamp=Stamp(time, D1)))) for time in range(1, 100)]
    assert len({id[:2] for id in ids}) == 1
    assert [id[2] for id in ids] == list(range(1, 100))


def test_all_daemons_say_the_same_and_the_group_keeps_counting() -> None:
    house = House("d1", "d2")
    alice, bob = house.connect("alice", "d1"), house.connect("bob", "d2")
    house.gather(alice, bob)
    seen = set()
    for _ in range(3):
        carol = house.connect("carol", "d2")
        carol.write(carol.client.join("g1"))
        joined = [each.expect_view() for each in (alice, bob, carol)]
        carol.close()
        left = [each.expect_view() for each in (alice, bob)]
        assert len({each.raw for each in joined}) == len({each.raw for each in left}) == 1
        seen |= {alice.client.view_of(each).id for each in (joined[0], left[0])}
    assert len(seen) == 6


# --- order and sets ------------------------------------------------------------------------------------------------


def test_members_are_ordered_by_daemon_and_then_by_name() -> None:
    house = House("d1", "d2")
    guests = [house.connect(name, daemon) for name, daemon in (("z", "d1"), ("a", "d2"), ("b", "d1"), ("ab", "d2"))]
    house.gather(*guests)
    assert guests[0].client.received[-1].groups == ("#b#d1", "#z#d1", "#a#d2", "#ab#d2")


def test_the_sets_of_a_merge_as_in_the_description() -> None:
    members = [ClientId(D1, "b1", 1), ClientId(D1, "b2", 1), ClientId(D2, "a1", 1), ClientId(D2, "z1", 1)]
    alone = ClientId(D3, "c1", 1)
    view = GroupView("g", GroupViewId(W), (*members, alone), (), Cause.NETWORK, None, (tuple(members), (alone,)))
    regular = Transitions().regular(view)
    for receiver, offset in ((members[0], 0), (members[3], 0), (alone, 132)):
        client = heard(regular, receiver)
        (received,) = client.received
        assert len(received.data) == 188
        assert client.view_of(received).offset == offset
        assert receiver.private_group in client.view_of(received).mine


@pytest.mark.parametrize("version", [(3, 1, 0), (3, 15, 0), (3, 17, 4)])
def test_clients_of_3_x_get_the_body_that_they_can_read(version: tuple[int, int, int]) -> None:
    view = GroupView("g", GroupViewId(W), (A, B, C), (), Cause.NETWORK, None, ((A, B), (C,)))
    regular = Transitions().regular(view)
    for receiver, mine in ((A, names(A, B)), (C, names(C))):
        client = heard(regular, receiver, version)
        (received,) = client.received
        assert received.groups == names(A, B, C)
        assert len(received.data) == 16 + 32 * len(mine)
        assert client.view_of(received).mine == mine


@pytest.mark.parametrize("version", [(3, 17, 4), (4, 4, 0)])
def test_old_and_new_clients_see_the_same_joiner(version: tuple[int, int, int]) -> None:
    house = House()
    alice = house.connect("alice", version=version)
    bob = house.connect("bob")
    house.gather(alice, bob)
    assert alice.client.view_of(alice.client.received[-1]).mine == ("#bob#d1",)
    assert alice.client.view_of(alice.client.received[-1]).id == bob.client.view_of(bob.client.received[-1]).id


def test_members_that_the_stack_puts_in_no_set_stand_with_their_daemon() -> None:
    view = GroupView("g", GroupViewId(V, W, Stamp(0, D1)), (A, B, C, D), (A, B), Cause.NETWORK, None, ((A, B),))
    type, sets, mine = sets_of(Transitions().regular(view), B)
    assert (type, sets, mine) == (0x1800, (names(A, B), names(C), names(D)), names(A, B))


# --- in transition -------------------------------------------------------------------------------------------------

SIGNALLED = GroupViewId(V, W, Stamp(9, D1))


def in_transition() -> Transitions:
    transitions = Transitions()
    transitions.on_signal("g")
    return transitions


def test_a_join_behind_the_signal_is_of_the_network_with_the_joiner_last() -> None:
    transitions = in_transition()
    joiner = ClientId(D1, "j", 1)
    members = (A, B, joiner, C, D)
    for_others = transitions.regular(GroupView("g", SIGNALLED, members, (A, B, C), Cause.JOIN, joiner))
    for_joiner = transitions.regular(GroupView("g", SIGNALLED, members, (joiner,), Cause.JOIN, joiner))
    expected = (names(A, B, C), names(D), names(joiner))
    assert sets_of(for_others, A) == (0x1800, expected, expected[0])
    assert sets_of(for_joiner, joiner) == (0x1800, expected, expected[2])


@pytest.mark.parametrize("cause", [Cause.LEAVE, Cause.DISCONNECT])
def test_a_leave_behind_the_signal_is_of_the_network_too(cause: Cause) -> None:
    regular = in_transition().regular(GroupView("g", SIGNALLED, (A, C, D), (A,), cause, B))
    assert sets_of(regular, A) == (0x1800, (names(A), names(C), names(D)), names(A))


def test_the_next_daemon_view_ends_the_transition() -> None:
    transitions = in_transition()
    transitions.regular(GroupView("g", GroupViewId(W), (A,), (A,), Cause.NETWORK, None, ((A,),)))
    regular = transitions.regular(GroupView("g", GroupViewId(W, stamp=Stamp(10, D1)), (A, B), (A,), Cause.JOIN, B))
    assert sets_of(regular, A) == (0x1100, (names(B),), names(B))


def test_what_is_known_of_a_transition_goes_with_the_last_member_here() -> None:
    gateway = SpreadGateway(D1, next_id=lambda name: A)
    client = SpreadClient("a", private_group=A.private_group)
    gateway.handle(StreamOpened(0, -1, Address("127.0.0.1:1"), True))
    gateway.handle(StreamReceived(0, -1, client.hello() + client.choice()))
    gateway.handle(b4.Indicated(0, (A,), b4.Connected()))
    gateway.handle(b4.Indicated(0, (A,), b4.View(GroupView("g", GroupViewId(V), (A, C), (A,), Cause.JOIN, A))))
    gateway.handle(b4.Indicated(0, (A,), b4.Transitional("g", GroupViewId(V))))
    assert gateway._table.transitions._lost == {"g": frozenset()}
    gateway.handle(StreamClosed(0, -1, "reset"))
    assert gateway._table.transitions._lost == {}


def test_a_change_on_the_way_of_a_group_that_was_not_signalled_is_what_it_is() -> None:
    regular = Transitions().regular(GroupView("g", SIGNALLED, (A, B), (A,), Cause.JOIN, B))
    assert sets_of(regular, A)[0] == 0x1100


# --- with real daemons ---------------------------------------------------------------------------------------------


def test_only_groups_with_members_at_a_lost_daemon_hear_of_it() -> None:
    house = House("d1", "d2")
    alice, bob = house.connect("alice", "d1"), house.connect("bob", "d2")
    house.gather(alice, bob, group="both")
    house.gather(alice, group="mine")
    before = alice.client.view_of(alice.client.received[-1]).id
    house.world.crash("d2")
    signal = alice.expect()
    assert (signal.name, signal.is_transitional) == ("both", True)
    view = alice.expect_view()
    assert (view.name, view.groups) == ("both", ("#alice#d1",))
    alice.expect_nothing(2_000)
    assert alice.client.view_of(next(e for e in alice.client.received if e.name == "mine")).id == before


def test_a_merge_of_groups_that_did_not_meet_before_has_no_transitional_message() -> None:
    house = House("d1", "d2")
    house.world.partition(["d1"], ["d2"])
    house.until(lambda: house.is_together("d1") and house.is_together("d2"))
    alice, bob = house.connect("alice", "d1"), house.connect("bob", "d2")
    house.gather(alice)
    house.gather(bob)
    house.world.heal()
    for each, mine in ((alice, "#alice#d1"), (bob, "#bob#d2")):
        received = each.expect()
        assert received.type == 0x1800
        view = each.client.view_of(received)
        assert view.sets == (("#alice#d1",), ("#bob#d2",))
        assert view.mine == (mine,)
    assert alice.client.view_of(alice.client.received[-1]).id == bob.client.view_of(bob.client.received[-1]).id
