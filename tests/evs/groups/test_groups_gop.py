"""GOP: joins, leaves, kills and data in a stable daemon view. Reference: [Spread Figures 6.18, 6.19]."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.codec.bundle import encode_bundle
from isotone.core.services import Service
from isotone.evs.groups import Reason, State, Submit
from isotone.evs.ordering.units import UnitKind
from tests.evs.groups.bench import A1, A2, A3, B1, B2, D1, D2, D3, Bench, started


def test_the_first_daemon_view_of_one_daemon_needs_no_gathering() -> None:
    bench = Bench()
    assert bench.groups.state is State.GTRANS and bench.groups.reason is Reason.STARTED
    assert bench.view(1, D1) == []
    assert bench.groups.state is State.GOP and bench.groups.reason is Reason.ALL_CAME_ALONG


def test_the_first_daemon_view_with_others_gathers_even_without_groups() -> None:
    bench = Bench()
    assert bench.view(1, D1, D2) == ["Submit"]
    assert bench.groups.state is State.GGATHER
    assert bench.units(bench.own_groups()) == [] and bench.groups.missing() == (D2,)
    bench.units(bench.bringing(D2))
    assert bench.groups.state is State.GOP and bench.groups.missing() == ()


def test_a_join_makes_the_group() -> None:
    bench = started(A1)
    assert bench.units(bench.joining(A1)) == ["a1: view g 1@1d1 [a1 | a1] join a1"]


def test_a_join_tells_those_who_were_there_and_the_joiner_differently() -> None:
    bench = started(A1, B1, members=(D1, D2))
    bench.units(bench.joining(A1), bench.joining(A2))
    assert bench.units(bench.joining(B1)) == [
        "a1: view g 1@5d1 [a1 b1 a2 | a1 a2] join b1",
        "b1: view g 1@5d1 [a1 b1 a2 | b1] join b1",
    ]


def test_joins_elsewhere_are_known_though_nobody_here_is_told() -> None:
    bench = started(A1, members=(D1, D2))
    assert bench.units(bench.joining(A2), bench.joining(B2)) == []
    assert bench.units(bench.joining(A1)) == ["a1: view g 1@5d1 [a1 a2 b2 | a1] join a1"]


def test_a_leave_takes_effect_where_it_stands() -> None:
    bench = started(A1, B1)
    bench.units(bench.joining(A1), bench.joining(B1))
    assert bench.units(bench.sending(B1, "x"), bench.leaving(B1), bench.sending(B1, "y")) == [
        "a1 b1: x from b1 at 3",
        "b1: left g",
        "a1: view g 1@4d1 [a1 | a1] leave b1",
        "a1: y from b1 at 5",
    ]


def test_a_group_that_empties_and_returns_never_repeats_an_id() -> None:
    bench = started(A1)
    first = bench.units(bench.joining(A1), bench.leaving(A1))
    assert bench.groups.roster.by_name == {}
    assert (first, bench.units(bench.joining(A1))) == (
        ["a1: view g 1@1d1 [a1 | a1] join a1", "a1: left g"],
        ["a1: view g 1@3d1 [a1 | a1] join a1"],
    )


def test_a_kill_leaves_all_groups_of_the_client() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A1), bench.joining(A1, "h"), bench.joining(A2), bench.joining(A2, "h"))
    assert bench.units(bench.killing(A2)) == [
        "a1: view g 1@7d2 [a1 | a1] disconnect a2",
        "a1: view h 1@7d2 [a1 | a1] disconnect a2",
    ]


def test_disconnect_is_a_kill_and_the_client_hears_nothing_more() -> None:
    bench = started(A1, B1)
    bench.ask(A1, b4.Join("g"))
    bench.units(bench.stamp("join"), bench.joining(B1))
    assert bench.ask(A1, b4.Disconnect()) == ["a1: disconnected", "Submit"]
    kill = bench.stamp("kill")
    assert bench.units(bench.sending(B1, "x"), kill) == [
        "b1: x from b1 at 4",
        "b1: view g 1@3d1 [b1 | b1] disconnect a1",
    ]


def test_who_is_in_no_group_needs_no_kill() -> None:
    bench = started(A1)
    assert bench.ask(A1, b4.Disconnect()) == ["a1: disconnected"]


def test_groups_are_open_and_unknown_ones_reach_nobody() -> None:
    bench = started(A1, B1)
    bench.units(bench.joining(A1))
    assert bench.units(bench.sending(B1, "x"), bench.sending(B1, "y", groups=("h",))) == ["a1: x from b1 at 2"]


def test_a_bundle_to_several_groups_comes_once() -> None:
    bench = started(A1, B1)
    bench.units(bench.joining(A1), bench.joining(A1, "h"), bench.joining(B1, "h"))
    assert bench.units(bench.sending(B1, "x", groups=("g", "h"))) == ["a1 b1: x from b1 at 4"]


def test_a_private_group_reaches_its_client_alone_and_in_no_view() -> None:
    bench = started(A1, B1, members=(D1, D2))
    assert bench.units(bench.sending(A2, "x", groups=("#b#d1",))) == ["b1: x from a2 at 3"]
    assert bench.units(bench.sending(A2, "y", groups=("#b#d2", "#c#d1"))) == []
    bench.ask(B1, b4.Disconnect())
    assert bench.units(bench.sending(A2, "z", groups=("#b#d1",))) == []


def test_changes_of_receivers_are_noticed() -> None:
    """Receivers are kept per group and per set of groups: every change must reach them."""
    bench = started(A1, B1)
    both = ("#b#d1", "g")
    seen = [bench.units(bench.sending(A1, "1", groups=both))]
    bench.units(bench.joining(A1))
    seen.append(bench.units(bench.sending(A1, "2", groups=both)))
    bench.ask(B1, b4.Disconnect())
    seen.append(bench.units(bench.sending(A1, "3", groups=both)))
    bench.units(bench.leaving(A1))
    seen.append(bench.units(bench.sending(A1, "4", groups=both)))
    assert seen == [["b1: 1 from a1 at 1"], ["b1 a1: 2 from a1 at 3"], ["a1: 3 from a1 at 4"], []]


def test_what_clients_ask_is_submitted_under_their_names() -> None:
    bench = started(A1)
    bench.ask(A1, b4.Join("g"))
    bench.ask(A1, b4.Send(bundle_of(A1, 1, Service.SAFE, ["g"], [b"x", b"y"])))
    (submit,) = bench.actions
    assert isinstance(submit, Submit)
    (draft,) = submit.drafts
    assert (draft.session, draft.kind, draft.service) == ("a", UnitKind.BUNDLE, Service.SAFE)


def test_units_that_no_correct_daemon_sends_are_counted_and_change_nothing() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A1))
    forged = bundle_of(A1, 1, Service.AGREED, ["g"], [b"x"])
    body = b"".join(encode_bundle(forged, None))
    wrong = [
        bench.unit(D2, UnitKind.BUNDLE, Service.AGREED, body),  # in another daemon's name
        bench.unit(D1, UnitKind.BUNDLE, Service.SAFE, body),  # another service than the unit's
        bench.unit(D1, UnitKind.BUNDLE, Service.AGREED, b"\x00"),
        bench.unit(D1, UnitKind.GROUPS, Service.AGREED, b"\x00"),
        bench.joining(A1),  # twice
        bench.leaving(A2),  # not a member
        bench.leaving(A2, "h"),
        bench.joining(A2, "#a#d2"),
    ]
    assert bench.units(*wrong) == []
    assert sum(bench.groups.refused.values()) == len(wrong)
    assert bench.units(bench.sending(A1, "y")) == ["a1: y from a1 at 12"]


def test_the_kill_of_somebody_in_no_group_is_no_error() -> None:
    bench = started(A1, members=(D1, D2))
    assert bench.units(bench.killing(A2)) == [] and bench.groups.refused == {}


def test_the_signal_concerns_groups_that_lose_members_only() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A1), bench.joining(A1, "h"), bench.joining(A2, "h"), bench.joining(A3, "i"))
    assert bench.signal(2, D1, D3) == ["a1: signal h 1@6d2"]
    assert bench.groups.state is State.GTRANS


def test_a_large_message_is_joined_and_stands_at_its_last_fragment() -> None:
    bench = started(A1)
    bench.units(bench.joining(A1))
    bench.ask(A1, b4.Send(bundle_of(A1, 1, Service.AGREED, ["g"], [b"." * 200_000])))
    (submit,) = bench.actions
    assert isinstance(submit, Submit) and len(submit.drafts) == 4
    units = [bench.unit(D1, draft.kind, draft.service, bytes(draft.body)) for draft in submit.drafts]
    assert bench.units(*units[:-1]) == []
    (heard,) = bench.units(units[-1])
    assert heard == f"a1: {'.' * 200_000} from a1 at 5"
