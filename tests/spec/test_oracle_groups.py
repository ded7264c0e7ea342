"""The group state at one daemon: every rule of [Spread 6.4.4] to [Spread 6.4.7], one by one."""

from __future__ import annotations

import pytest

from isotone.core.boundary import Indicate, SelfLeave, Transitional, View
from isotone.core.contract import Action
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.views import Cause, GroupView
from isotone.spec.oracle.groups import Groups, merge_of

HERE, NEAR, FAR = DaemonId("d1", 1), DaemonId("d2", 1), DaemonId("d3", 1)
V, W = DaemonViewId(3, HERE), DaemonViewId(5, NEAR)
TOGETHER = frozenset({HERE, NEAR})
a, b = ClientId(HERE, "a", 1), ClientId(HERE, "b", 1)
near, far = ClientId(NEAR, "n", 1), ClientId(FAR, "f", 1)


def regular(lamport: int) -> GroupViewId:
    return GroupViewId(V, stamp=Stamp(lamport, HERE))


def in_transition(lamport: int) -> GroupViewId:
    return GroupViewId(V, W, Stamp(lamport, HERE))


def groups_with(*members: ClientId) -> Groups:
    groups = Groups(HERE)
    for client in (a, b):
        groups.connect(client)
    for lamport, client in enumerate(members, 1):
        groups.join(client, "g", regular(lamport), None, [])
    return groups


def view(id: GroupViewId, members: tuple[ClientId, ...], stayed: tuple[ClientId, ...], *why: object) -> View:
    return View(GroupView("g", id, members, stayed, *why))  # type: ignore[arg-type]


def test_a_join_tells_the_others_and_the_joiner() -> None:
    groups, out = groups_with(a, near), []
    groups.join(b, "g", regular(9), None, out)
    members = (a, b, near)
    assert out == [
        Indicate((a,), view(regular(9), members, (a, near), Cause.JOIN, b)),
        Indicate((b,), view(regular(9), members, (b,), Cause.JOIN, b)),
    ]


def test_a_signal_goes_once_to_groups_that_lose_members() -> None:
    groups, out = groups_with(a, near, far), []
    groups.join(b, "whole", regular(9), None, [])
    groups.signal(TOGETHER, out)
    groups.signal(TOGETHER, out)
    assert out == [Indicate((a,), Transitional("g", regular(3)))]


def test_a_join_of_one_who_moves_along_in_a_group_that_lost_members_is_signalled_at_once() -> None:
    groups, out = groups_with(a, near, far), []
    groups.signal(TOGETHER, [])
    groups.join(b, "g", in_transition(9), TOGETHER, out)
    members = (a, b, near, far)
    assert out == [
        Indicate((a,), view(in_transition(9), members, (a, near), Cause.JOIN, b)),
        Indicate((b,), view(in_transition(9), members, (b,), Cause.JOIN, b)),
        Indicate((a, b), Transitional("g", in_transition(9))),
    ]


def test_a_join_of_one_who_moves_along_in_a_whole_group_is_not_signalled() -> None:
    groups, out = groups_with(a, near), []
    groups.signal(TOGETHER, [])
    groups.join(b, "g", in_transition(9), TOGETHER, out)
    assert [type(each.indication) for each in out if isinstance(each, Indicate)] == [View, View]


def test_a_join_of_a_stranger_in_transition_is_signalled_and_undone_in_the_end() -> None:
    groups, out = groups_with(a, near), []
    groups.signal(TOGETHER, [])
    groups.join(far, "g", in_transition(9), TOGETHER, out)
    assert out == [
        Indicate((a,), view(in_transition(9), (a, near, far), (a, near), Cause.JOIN, far)),
        Indicate((a,), Transitional("g", in_transition(9))),
    ]
    (end,) = groups.close()
    assert (end.members, end.signalled, end.id) == ((a, near), True, in_transition(9))


@pytest.mark.parametrize("signalled", [False, True])
def test_a_leave_gives_a_view_unless_the_group_was_signalled(signalled: bool) -> None:
    groups, out = groups_with(a, b, far if signalled else near), []
    groups.signal(TOGETHER, [])
    groups.leave(b, "g", in_transition(9), Cause.LEAVE, out)
    told: list[Action] = [Indicate((b,), SelfLeave("g"))]
    if not signalled:
        told.append(Indicate((a,), view(in_transition(9), (a, near), (a, near), Cause.LEAVE, b)))
    assert out == told


def test_a_kill_leaves_every_group_and_tells_the_others_only() -> None:
    groups, out = groups_with(a, b), []
    groups.join(b, "h", regular(8), None, [])
    groups.disconnect(b)
    groups.kill(b, regular(9), out)
    assert out == [Indicate((a,), view(regular(9), (a,), (a,), Cause.DISCONNECT, b))]
    assert list(groups.by_name) == ["g"], "a group without members is gone"


def test_a_closed_session_hears_nothing_and_stays_a_member_until_its_kill() -> None:
    groups, out = groups_with(a, b), []
    groups.disconnect(b)
    assert groups.receivers(("g",)) == (a,)
    groups.join(near, "g", regular(9), None, out)
    assert out == [Indicate((a,), view(regular(9), (a, b, near), (a, b), Cause.JOIN, near))]


def test_receivers_are_found_once_whatever_groups_they_are_in() -> None:
    groups = groups_with(a, b, near)
    groups.join(a, "h", regular(9), None, [])
    assert groups.receivers(("#b#d1", "g", "h")) == (a, b)
    assert groups.receivers(("#b#d2", "h")) == (a,)
    assert groups.receivers(("nobody",)) == ()


def test_a_merge_of_two_origins_gives_one_view_with_its_parts() -> None:
    mine, theirs = groups_with(a, near), groups_with()
    theirs.join(far, "g", GroupViewId(W, stamp=Stamp(4, FAR)), None, [])
    id = GroupViewId(DaemonViewId(9, FAR))
    merged = merge_of([mine.snapshot(), theirs.snapshot()], [{}, {}], id)
    out: list[Action] = []
    mine.merge(merged, 0, out)
    together = ((a, near), (far,))
    assert out == [Indicate((a,), view(id, (a, near, far), (a, near), Cause.NETWORK, None, together))]


def test_a_merge_that_changes_nothing_is_not_told() -> None:
    groups, out = groups_with(a, near), []
    merged = merge_of([groups.snapshot(), []], [{}, {}], GroupViewId(W))
    groups.merge(merged, 0, out)
    assert out == [] and groups.by_name["g"].id == regular(2)


def test_a_signalled_group_gets_its_view_even_if_nobody_else_came() -> None:
    groups, out = groups_with(a, far), []
    groups.signal(TOGETHER, [])
    merged = merge_of([groups.close()], [{}], GroupViewId(W))
    groups.merge(merged, 0, out)
    assert out == [Indicate((a,), view(GroupViewId(W), (a,), (a,), Cause.NETWORK, None, ((a,),)))]


def test_a_group_that_strangers_just_left_gets_a_new_view() -> None:
    """What they sent while they were in it arrives now, and not in an earlier view: Reference: [Spread 2.9.1]."""
    groups = groups_with(a)
    merged = merge_of([groups.snapshot(), []], [{}, {"g": None}], GroupViewId(W))
    assert merged["g"].changed and merged["g"].id == GroupViewId(W)


def test_one_view_with_two_histories_cannot_be_merged() -> None:
    one, two = groups_with(a), groups_with(a)
    with pytest.raises(AssertionError, match="two histories"):
        merge_of([one.snapshot(), two.snapshot()], [{}, {}], GroupViewId(W))
