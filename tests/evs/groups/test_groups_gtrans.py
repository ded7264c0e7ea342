"""Behind the signal. Reference: [Spread Figures 6.20 to 6.22] with the deviations of docs/protocols/groups.md."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.services import Service
from isotone.evs.groups import Reason, State
from tests.evs.groups.bench import A1, A2, A3, B1, B2, D1, D2, D3, Bench, started


def parted(*, group: str = "g") -> Bench:
    """d1 to d3 in view 1; a1, a2, a3 in g; d3 does not come along to view 2."""
    bench = started(A1, B1, members=(D1, D2, D3))
    bench.units(bench.joining(A1, group), bench.joining(A2, group), bench.joining(A3, group))
    assert bench.signal(2, D1, D2) == [f"a1: signal {group} 1@6d3"]
    return bench


def test_a_join_from_inside_makes_a_view_and_at_once_the_signal() -> None:
    bench = parted()
    assert bench.units(bench.joining(B1), bench.joining(B2)) == [
        "a1: view g 1>2@7d1 [a1 b1 a2 a3 | a1 a2] join b1",
        "b1: view g 1>2@7d1 [a1 b1 a2 a3 | b1] join b1",
        "a1 b1: signal g 1>2@7d1",
        "a1 b1: view g 1>2@8d2 [a1 b1 a2 b2 a3 | a1 b1 a2] join b2",
        "a1 b1: signal g 1>2@8d2",
    ]


def test_a_join_from_outside_is_absent_from_the_beginning() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A1))
    assert bench.signal(2, D1, D2) == []
    assert bench.units(bench.joining(A3)) == [
        "a1: view g 1>2@5d3 [a1 a3 | a1] join a3",
        "a1: signal g 1>2@5d3",
    ]
    assert bench.view(2, D1, D2) == ["a1: view g 2 [a1 | a1] network = a1"]


def test_a_group_made_from_outside_is_gone_with_the_view() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.signal(2, D1, D2)
    assert bench.units(bench.joining(A3)) == []
    assert bench.view(2, D1, D2) == [] and bench.groups.roster.by_name == {}


def test_leaves_and_kills_make_views_too() -> None:
    bench = parted()
    bench.units(bench.joining(B2))
    assert bench.units(bench.leaving(A2), bench.killing(A3), bench.killing(B2)) == [
        "a1: view g 1>2@8d2 [a1 b2 a3 | a1 b2] leave a2",
        "a1: signal g 1>2@8d2",
        "a1: view g 1>2@9d3 [a1 b2 | a1 b2] disconnect a3",
        "a1: signal g 1>2@9d3",
        "a1: view g 1>2@10d2 [a1 | a1] disconnect b2",
        "a1: signal g 1>2@10d2",
    ]
    assert bench.view(2, D1, D2) == ["a1: view g 2 [a1 | a1] network = a1"]


def test_ones_own_leave_takes_effect_behind_the_signal() -> None:
    bench = parted()
    assert bench.units(bench.leaving(A1), bench.sending(A2, "x")) == ["a1: left g"]
    assert bench.view(2, D1, D2) == []


def test_when_all_come_along_changes_are_plain() -> None:
    bench = started(A1, B1, members=(D1, D2))
    bench.units(bench.joining(A1), bench.joining(A2))
    assert bench.signal(2, D1, D2) == []
    assert bench.units(bench.joining(B1), bench.leaving(A2), bench.sending(A2, "x")) == [
        "a1: view g 1>2@5d1 [a1 b1 a2 | a1 a2] join b1",
        "b1: view g 1>2@5d1 [a1 b1 a2 | b1] join b1",
        "a1 b1: view g 1>2@6d2 [a1 b1 | a1 b1] leave a2",
        "a1 b1: x from a2 at 7",
    ]


def test_data_is_delivered_behind_the_signal_of_its_group() -> None:
    bench = parted()
    assert bench.units(bench.sending(A2, "x"), bench.sending(A1, "y", Service.SAFE)) == [
        "a1: x from a2 at 7",
        "a1: y from a1 at 8",
    ]


@pytest.mark.parametrize("service", [each for each in Service if each.is_reliable])
def test_a_group_that_lost_nobody_is_signalled_by_the_first_reliable_bundle(service: Service) -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A1), bench.joining(A2))
    assert bench.signal(2, D1, D2) == []
    assert bench.units(bench.sending(A2, "u", Service.UNRELIABLE)) == ["a1: u from a2 at 6"]
    assert bench.units(bench.sending(A2, "x", service), bench.sending(A2, "y", Service.SAFE)) == [
        "a1: signal g 1@5d2",
        "a1: x from a2 at 7",
        "a1: y from a2 at 8",
    ]
    assert bench.view(2, D1, D2) == ["a1: view g 2 [a1 a2 | a1 a2] network = a1 a2"]


def test_an_ordered_bundle_of_somebody_who_stays_behind_first_makes_a_view() -> None:
    bench = parted()
    assert bench.units(bench.sending(A3, "x"), bench.sending(A3, "y")) == [
        "a1: view g 1>2@0d1 [a1 a2 a3 | a1 a2] network = a1 a2",
        "a1: signal g 1>2@0d1",
        "a1: x from a3 at 7",
        "a1: y from a3 at 8",
    ]


def test_after_a_change_behind_the_signal_no_such_view_is_needed() -> None:
    bench = parted()
    bench.units(bench.leaving(A2))
    assert bench.units(bench.sending(A3, "x")) == ["a1: x from a3 at 8"]


def test_when_all_come_along_groups_that_lost_members_get_views_at_once() -> None:
    bench = parted()
    bench.units(bench.joining(A1, "h"))
    assert bench.view(2, D1, D2) == [
        "a1: view g 2 [a1 a2 | a1 a2] network = a1 a2",
        "a1: view h 2 [a1 | a1] network = a1",
    ]
    assert bench.groups.state is State.GOP and bench.groups.reason is Reason.ALL_CAME_ALONG


def test_groups_that_nothing_happened_to_see_nothing() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A1), bench.joining(A2))
    assert bench.signal(2, D1, D2) == []
    assert bench.view(2, D1, D2) == []
    assert bench.units(bench.sending(A2, "x")) == ["a1: x from a2 at 6"]


def test_with_others_in_the_new_view_the_groups_are_gathered() -> None:
    bench = parted()
    assert bench.view(3, D1, D2, D3) == ["Submit"]
    assert bench.groups.state is State.GGATHER and bench.groups.reason is Reason.OTHERS_CAME
    assert bench.groups.lineage == (D1, D2)


def test_requests_before_the_first_daemon_view_wait() -> None:
    bench = Bench().connect(A1)
    assert bench.ask(A1, b4.Join("g")) == []
    assert bench.groups.waiting_bytes > 0
    assert bench.view(1, D1) == ["Submit"]
    assert bench.groups.waiting_bytes == 0
    assert bench.units(bench.stamp("join")) == ["a1: view g 1@1d1 [a1 | a1] join a1"]
