"""Cascaded changes while gathering. Reference: [Spread Figures 6.25 to 6.27], docs/protocols/groups.md."""

from __future__ import annotations

from isotone.core.ids import GroupViewId, Stamp
from isotone.core.services import Service
from isotone.evs.groups import Reason, State
from tests.evs.groups.bench import A1, A2, A3, B1, B2, D1, D2, D3, Bench, started, view_id
from tests.evs.groups.test_groups_ggather import ELSEWHERE, merging


def signalled_in_gather() -> tuple[Bench, list]:  # type: ignore[type-arg]
    """a1 and a2 in g, a1 in h; view 9 with d3 is being gathered and ends: d1 goes on alone. Returns the GROUPS."""
    bench, _ = merging()
    own = bench.own_groups()
    two = bench.bringing(D2, ("g", GroupViewId(view_id(1), stamp=Stamp(4, D2)), False, A2), first=D1)
    three = bench.bringing(D3, ("g", ELSEWHERE, False, A3))
    return bench, [own, two, three]


def test_groups_that_come_behind_the_signal_make_the_views_and_then_the_signal() -> None:
    bench, (own, two, three) = signalled_in_gather()
    bench.units(own, two)
    assert bench.signal(10, D1) == []
    assert bench.units(three) == [
        "a1: view g 9 [a1 a2 a3 | a1 a2] network = a1 a2 + a3",
        "a1: signal g 9",
    ]
    assert bench.groups.state is State.GTRANS
    assert bench.groups.entries[State.GOP, Reason.GATHERED_LATE] == 1
    assert bench.view(10, D1) == ["a1: view g 10 [a1 | a1] network = a1"]


def test_what_came_before_the_signal_is_delivered_before_it() -> None:
    bench, (own, two, three) = signalled_in_gather()
    before, join = bench.sending(A2, "before"), bench.joining(B1)
    bench.units(own, two, before, join)
    bench.signal(10, D1)
    after, leave = bench.sending(A3, "after", Service.SAFE), bench.leaving(A2)
    bench.units(after, leave)
    assert bench.units(three) == [
        "a1: view g 9 [a1 a2 a3 | a1 a2] network = a1 a2 + a3",
        "a1: before from a2 at 9",
        "a1: view g 9@10d1 [a1 b1 a2 a3 | a1 a2 a3] join b1",
        "b1: view g 9@10d1 [a1 b1 a2 a3 | b1] join b1",
        "a1 b1: signal g 9@10d1",
        "a1 b1: view g 9>10@0d1 [a1 b1 a2 a3 | a1 b1] network = a1 b1",
        "a1 b1: signal g 9>10@0d1",
        "a1 b1: after from a3 at 11",
        "a1 b1: view g 9>10@12d2 [a1 b1 a3 | a1 b1] leave a2",
        "a1 b1: signal g 9>10@12d2",
    ]


def test_when_the_groups_never_come_the_gathering_is_given_up() -> None:
    bench, (own, two, _) = signalled_in_gather()
    bench.units(own, two)
    bench.signal(10, D1)
    assert bench.view(10, D1) == [
        "a1: signal g 1@4d2",
        "a1: view g 10 [a1 | a1] network = a1",
    ]
    assert bench.groups.entries[State.GTRANS, Reason.GIVEN_UP] == 1
    assert bench.groups.state is State.GOP and bench.groups.lineage == (D1,)


def test_giving_up_leads_to_the_next_gathering_with_the_same_previous_views() -> None:
    bench, (own, _, _) = signalled_in_gather()
    bench.units(own)
    bench.signal(10, D1, D2)
    assert bench.view(10, D1, D2, D3) == ["Submit"]
    own = bench.own_groups()
    two = bench.bringing(D2, ("g", GroupViewId(view_id(1), stamp=Stamp(4, D2)), False, A2), first=D1)
    assert bench.units(own, two, bench.bringing(D3, ("g", ELSEWHERE, False, A3))) == [
        "a1: view g 10 [a1 a2 a3 | a1 a2] network = a1 a2 + a3"
    ]


def test_those_who_came_along_from_the_beginning_need_no_gathering_after_all() -> None:
    bench, (own, _, _) = signalled_in_gather()
    bench.units(own)
    bench.signal(10, D1, D2)
    assert bench.view(10, D1, D2) == []
    assert bench.groups.state is State.GOP and bench.groups.lineage == (D1, D2)


def test_what_waited_is_delivered_behind_the_signal_when_the_gathering_is_given_up() -> None:
    bench, (own, two, _) = signalled_in_gather()
    mine, theirs, weak = (
        bench.sending(A1, "mine"),
        bench.sending(A3, "theirs"),
        bench.sending(A3, "weak", Service.FIFO, ("h",)),
    )
    bench.units(own, two, weak, theirs, mine)
    bench.signal(10, D1, D2)
    assert bench.view(10, D1, D2, D3) == [
        "a1: signal g 1@4d2",
        "a1: mine from a1 at 9",
        "a1: view g 9>10@0d1 [a1 a2 | a1 a2] network = a1 a2",
        "a1: signal g 9>10@0d1",
        "a1: theirs from a3 at 10",
        "a1: view h 9>10@0d1 [a1 | a1] network = a1",
        "a1: signal h 9>10@0d1",
        "a1: weak from a3 at 11",
        "Submit",
    ], "in total order, whatever the order in which this daemon heard it"


def test_changes_that_waited_count_where_their_daemon_came_along() -> None:
    bench, (own, two, _) = signalled_in_gather()
    changes = [bench.joining(B1), bench.joining(B2), bench.leaving(A2), bench.joining(A3, "j"), bench.killing(A3)]
    bench.units(own, two, *changes)
    bench.signal(10, D1)
    assert bench.view(10, D1, D3) == [
        "a1: signal g 1@4d2",
        "a1: view g 9>10@9d1 [a1 b1 a2 | a1] join b1",
        "b1: view g 9>10@9d1 [a1 b1 a2 | b1] join b1",
        "a1 b1: signal g 9>10@9d1",
        "a1 b1: view g 9>10@10d2 [a1 b1 a2 b2 | a1 b1] join b2",
        "a1 b1: signal g 9>10@10d2",
        "a1 b1: view g 9>10@11d2 [a1 b1 b2 | a1 b1] leave a2",
        "a1 b1: signal g 9>10@11d2",
        "Submit",
    ]
    assert bench.groups.refused == {}
    assert sorted(bench.groups.roster.by_name) == ["g", "h"]


def test_a_group_that_was_signalled_stays_so_through_given_up_gatherings() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A1), bench.joining(A2))
    assert bench.signal(2, D1) == ["a1: signal g 1@4d2"]
    bench.view(2, D1, D3)
    bench.signal(3, D1)
    assert bench.view(3, D1, D3) == ["Submit"]
    own = bench.own_groups()
    assert bench.units(own, bench.bringing(D3)) == ["a1: view g 3 [a1 | a1] network = a1"]


def test_a_cascade_of_three_changes_while_gathering() -> None:
    bench, (own, two, _) = signalled_in_gather()
    bench.units(own, two)
    bench.signal(10, D1, D2)
    bench.view(10, D1, D2, D3)
    bench.signal(11, D1, D2, D3)
    bench.view(11, D1, D2, D3)
    own = bench.own_groups()
    assert bench.signal(12, D1) == []
    assert bench.units(own, bench.bringing(D2, first=D1)) == []
    assert bench.units(bench.bringing(D3, ("g", ELSEWHERE, False, A3))) == [
        "a1: view g 11 [a1 a2 a3 | a1 a2] network = a1 a2 + a3",
        "a1: signal g 11",
    ]
    assert bench.view(12, D1) == ["a1: view g 12 [a1 | a1] network = a1"]
