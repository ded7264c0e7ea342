"""Gathering. Reference: [Spread Figures 6.22 to 6.24] with the deviations of docs/protocols/groups.md."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.ids import GroupViewId, Stamp
from isotone.core.services import Service
from isotone.evs.groups import GroupsSettings, Reason, State, Submit
from isotone.evs.ordering.units import UnitKind
from tests.evs.groups.bench import A1, A2, A3, A4, B1, B2, D1, D2, D3, D4, Bench, started, view_id

ELSEWHERE = GroupViewId(view_id(7, D3), stamp=Stamp(70, D3))


def merging() -> tuple[Bench, list[str]]:
    """a1 and a2 in g, a1 in h; d1 and d2 come to view 9, where d3 is."""
    bench = started(A1, B1, members=(D1, D2))
    bench.units(bench.joining(A1), bench.joining(A2), bench.joining(A1, "h"))
    assert bench.signal(9, D1, D2) == []
    return bench, bench.view(9, D1, D2, D3)


def test_what_comes_together_gets_one_view_and_others_see_nothing() -> None:
    bench, said = merging()
    assert said == ["Submit"]
    own = bench.own_groups()
    two = bench.bringing(D2, ("g", GroupViewId(view_id(1), stamp=Stamp(4, D2)), False, A2), first=D1)
    three = bench.bringing(D3, ("g", ELSEWHERE, False, A3), ("i", ELSEWHERE, False, A3))
    assert bench.units(own, two) == []
    assert bench.units(three) == ["a1: view g 9 [a1 a2 a3 | a1 a2] network = a1 a2 + a3"]
    assert bench.groups.state is State.GOP and bench.groups.reason is Reason.GATHERED
    assert bench.groups.lineage == (D1, D2, D3)
    known = {name: str(group.id) for name, group in bench.groups.roster.by_name.items()}
    assert known == {"g": "9!d1#1", "h": "1!d1#1!0!#0!5!d1#1", "i": str(ELSEWHERE)}


def test_a_group_of_others_that_comes_from_several_views_or_was_signalled_gets_a_new_id() -> None:
    bench = started(members=(D1,))
    bench.signal(9, D1)
    bench.view(9, D1, D2, D3)
    other = GroupViewId(view_id(8, D2))
    own, two = (
        bench.own_groups(),
        bench.bringing(D2, ("g", other, False, A2), ("h", other, True, A2), ("i", other, False, A2)),
    )
    assert bench.units(own, two, bench.bringing(D3, ("g", ELSEWHERE, False, A3))) == []
    ids = {name: str(group.id) for name, group in bench.groups.roster.by_name.items()}
    assert ids == {"g": "9!d1#1", "h": "9!d1#1", "i": "8!d2#1"}
    assert bench.groups.roster.marked == {}


def test_both_sides_of_a_merge_have_lost_a_member() -> None:
    bench = started(A1, members=(D1, D2, D4))
    bench.units(bench.joining(A1), bench.joining(A4))
    assert bench.signal(9, D1, D2) == ["a1: signal g 1@5d4"]
    assert bench.view(9, D1, D2, D3) == ["Submit"]
    own = bench.own_groups()
    assert bench.units(own, bench.bringing(D2, first=D1), bench.bringing(D3, ("g", ELSEWHERE, True, A3))) == [
        "a1: view g 9 [a1 a3 | a1] network = a1 + a3"
    ]


def test_data_and_changes_before_the_views_wait_in_their_order() -> None:
    bench, _ = merging()
    own = bench.own_groups()
    held = [
        bench.sending(A3, "x", Service.RELIABLE),
        bench.sending(A2, "y"),
        bench.joining(B1),
        bench.leaving(A2),
        bench.sending(A3, "z", Service.FIFO),
    ]
    two = bench.bringing(D2, ("g", GroupViewId(view_id(1), stamp=Stamp(4, D2)), False, A2), first=D1)
    assert bench.units(own, *held, two) == []
    assert bench.units(bench.bringing(D3, ("g", ELSEWHERE, False, A3))) == [
        "a1: view g 9 [a1 a2 a3 | a1 a2] network = a1 a2 + a3",
        "a1: x from a3 at 7",
        "a1: y from a2 at 8",
        "a1: view g 9@9d1 [a1 b1 a2 a3 | a1 a2 a3] join b1",
        "b1: view g 9@9d1 [a1 b1 a2 a3 | b1] join b1",
        "a1 b1: view g 9@10d2 [a1 b1 a3 | a1 b1 a3] leave a2",
        "a1 b1: z from a3 at 11",
    ]


def test_data_that_overtook_the_last_groups_is_delivered_in_the_new_view() -> None:
    """d3 had all GROUPS and sends at once; its RELIABLE bundle is here first. [Spread Figure 6.23]: impossible."""
    bench, _ = merging()
    own, two, three = bench.own_groups(), bench.bringing(D2, first=D1), bench.bringing(D3, ("g", ELSEWHERE, False, A3))
    early = bench.sending(A3, "early", Service.RELIABLE)
    assert bench.units(own, early) == []
    assert bench.units(two, three)[-1] == "a1: early from a3 at 9"


def test_groups_of_an_attempt_that_is_over_are_ignored() -> None:
    bench, _ = merging()
    stale = bench.own_groups()
    bench.signal(10, D1, D2)
    bench.view(10, D1, D2, D3)
    own = bench.own_groups()
    assert bench.units(stale, own, bench.bringing(D2, first=D1)) == []
    assert bench.groups.missing() == (D3,) and bench.groups.refused == {}
    bench.units(bench.bringing(D3))
    assert bench.groups.state is State.GOP
    assert bench.units(stale) == [] and bench.groups.refused == {}


def test_requests_wait_until_the_groups_are_gathered() -> None:
    bench, _ = merging()
    own = bench.own_groups()
    assert bench.ask(B1, b4.Join("g")) == []
    assert bench.ask(B1, b4.Send(bundle_of(B1, 1, Service.AGREED, ["g"], [b"x"]))) == []
    bench.units(own, bench.bringing(D2, first=D1))
    assert bench.units(bench.bringing(D3)) == ["Submit"]
    (submit,) = bench.actions
    assert isinstance(submit, Submit)
    assert [draft.kind for draft in submit.drafts] == [UnitKind.GROUPS, UnitKind.BUNDLE]


def test_what_waits_is_bounded() -> None:
    bench = Bench(GroupsSettings(waiting_bytes_max=1_000)).connect(A1)
    bundle = bundle_of(A1, 1, Service.AGREED, ["g"], [b"." * 2_000])
    assert bench.ask(A1, b4.Send(bundle)) == []
    later = bundle_of(A1, 2, Service.AGREED, ["g"], [b"."])
    assert bench.ask(A1, b4.Send(later)) == ["a1: refused send: the daemon is busy"]
    assert bench.ask(A1, b4.Join("g")) == ["a1: refused join: the daemon is busy"]
    assert bench.view(1, D1) == ["Submit"]
    assert bench.ask(A1, b4.Send(later)) == ["Submit"]
    assert bench.ask(A1, b4.Leave("g")) == ["a1: refused leave: not a member"]


def test_a_signal_while_gathering_is_kept_for_later() -> None:
    bench, _ = merging()
    assert bench.signal(10, D1) == []
    assert bench.groups.state is State.GGT and bench.groups.reason is Reason.SIGNALLED_IN_GATHER


def test_pieces_of_groups_are_joined() -> None:
    """Many groups come in several units; the views come with the last."""
    bench = started(A1)
    for number in range(3_000):
        bench.units(bench.joining(A1, f"group-{number:025}"))
    bench.signal(2, D1)
    bench.view(2, D1, D2)
    (submit,) = bench.actions
    assert isinstance(submit, Submit) and len(submit.drafts) > 2
    assert all(len(draft.body) < 60_000 for draft in submit.drafts)
    units = [bench.unit(D1, draft.kind, draft.service, bytes(draft.body)) for draft in submit.drafts]
    bench.units(bench.bringing(D2, ("group-" + "0" * 25, ELSEWHERE, False, A2)), *units[:-1])
    assert bench.groups.missing() == (D1,)
    assert len(bench.units(units[-1])) == 1
    assert bench.groups.state is State.GOP


def test_a_piece_that_comes_twice_is_refused() -> None:
    bench, _ = merging()
    own = bench.own_groups()
    bench.units(own, own)
    assert bench.groups.refused == {"piece 0 of GROUPS twice": 1}


def test_what_only_daemons_with_members_saw_is_learnt_from_them() -> None:
    """d2's units to h were pruned here, so here h was not signalled; d2 says that it was."""
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(B2, "h"), bench.joining(B2, "i"))
    bench.signal(9, D1, D2)
    bench.view(9, D1, D2, D3)
    own = bench.own_groups()
    raised = GroupViewId(view_id(1), view_id(9), Stamp(0, D1))
    two = bench.bringing(D2, ("h", raised, True, B2), ("i", raised, False, B2), first=D1)
    bench.units(own, two, bench.bringing(D3))
    ids = {name: group.id for name, group in bench.groups.roster.by_name.items()}
    assert ids == {"h": GroupViewId(view_id(9)), "i": raised}


def test_a_group_that_a_daemon_cannot_have_is_no_crash() -> None:
    bench, _ = merging()
    own, two = bench.own_groups(), bench.bringing(D2, ("never", ELSEWHERE, False, A2), first=D1)
    bench.units(own, two, bench.bringing(D3))
    assert bench.groups.state is State.GOP


def test_members_that_parted_without_a_view_between_get_one_first() -> None:
    """d3 brings the view that a1 has, but did not come along: it went another way from there."""
    bench = started(A1, members=(D1, D3))
    bench.units(bench.joining(A1), bench.joining(A3))
    shared = bench.groups.roster.by_name["g"].id
    assert bench.signal(9, D1) == ["a1: signal g 1@4d3"]
    bench.view(9, D1, D3)
    own = bench.own_groups()
    assert bench.units(own, bench.bringing(D3, ("g", shared, True, A3), first=D3)) == [
        "a1: view g 1>9@0d1 [a1 | a1] network = a1",
        "a1: view g 9 [a1 a3 | a1] network = a1 + a3",
    ]
