"""The checker as a whole: its interface, how a run may end, what it keeps in memory, what its work grows with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from isotone.core.choice import Choice
from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.spec.check import Checker, State, check
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.trace import events as trace
from isotone.trace.events import Entry, Row
from tests.spec.corruptions import interleaved, renumbered
from tests.spec.naive.compare import disagreements
from tests.spec.reference_checker import Reference

A, B = "#a#d1#1#1", "#b#d2#1#1"
LIVENESS = ("EVS-2.15", "EVS-2.16", "EVS-2.17")


def _rows(*entries: tuple[str, Entry]) -> list[Row]:
    return renumbered([Row(node, 1, 0, at, entry) for at, (node, entry) in enumerate(entries)])


def _view(client: str, epoch: int, members: tuple[str, ...], transitional: tuple[str, ...]) -> Entry:
    view = GroupViewId(DaemonViewId(epoch, DaemonId("d1", 1)))
    return trace.ViewDelivered((client,), "g", view, members, transitional, "network")


def _sent(client: str, first: int, service: Service, count: int = 1) -> Entry:
    return trace.Sent(client, first, service, ("g",), (1,) * count, (7,) * count)


def _delivered(receivers: tuple[str, ...], sender: str, first: int, service: Service, lamport: int) -> Entry:
    return trace.Delivered(receivers, sender, first, service, ("g",), (1,), (7,), lamport, "d1#1")


ALONE = (("d1", _view(A, 1, (A,), (A,))), ("d1", _sent(A, 1, Service.RELIABLE)))
STABLE = ("", trace.Stabilised((("d1",),)))


# --- interface -----------------------------------------------------------------------------------------------------


def test_every_property_with_a_checker_has_one_verdict_per_boundary() -> None:
    expected = {
        each.label(boundary) for each in PROPERTIES if each.form is not Form.DEFINITION for boundary in each.boundaries
    }
    assert set(check([]).verdicts) == expected


def test_an_empty_run_exercises_nothing() -> None:
    assert {verdict.state for verdict in check([]).verdicts.values()} == {State.NOT_EXERCISED}


@pytest.mark.parametrize("boundary", [Boundary.CLIENTS, Boundary.DAEMONS, Boundary.NETWORK])
def test_one_boundary_alone_is_judged_as_among_the_others(boundary: Boundary) -> None:
    rows = list(Synthetic(Shape(bundles=200, daemons=True)))
    alone, whole = check(rows, (boundary,)), check(rows)
    assert alone.verdicts == {label: whole.verdicts[label] for label in alone.verdicts}


def test_events_are_counted_per_message_and_receiver() -> None:
    rows = _rows(
        ("d1", _view(A, 1, (A,), (A,))),
        ("d1", trace.Sent(A, 1, Service.FIFO, ("g",), (1, 1), (7, 8))),
        ("d1", trace.Delivered((A, "#x#d1#1#2"), A, 1, Service.FIFO, ("g",), (1, 1), (7, 8), 1, "d1#1")),
    )
    report = check(rows)
    assert (report.rows, report.events) == (3, 2 + 4)


# --- the end of a run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ((), State.NOT_EXERCISED),
        ((STABLE,), State.NOT_EXERCISED),
        ((("", trace.Ended(True)),), State.NOT_EXERCISED),
        ((STABLE, ("", trace.Ended(False))), State.NOT_JUDGED),
    ],
    ids=["nothing", "no end", "not stable", "not quiet"],
)
def test_liveness_is_judged_only_after_a_stable_and_quiet_end(end: tuple[tuple[str, Entry], ...], state: State) -> None:
    verdicts = check(_rows(*ALONE, *end)).verdicts
    assert {verdicts[label].state for label in LIVENESS} == {state}


def test_after_a_stable_and_quiet_end_it_is() -> None:
    report = check(_rows(*ALONE, STABLE, ("", trace.Ended(True))))
    assert set(report.violations) == {"EVS-2.15", "EVS-2.17"}


def test_what_is_still_owed_counts_at_a_quiet_end_only() -> None:
    rows = [
        ("d1", _view(A, 1, (A, B), (A,))),
        ("d2", _view(B, 1, (A, B), (B,))),
        ("d1", _sent(A, 1, Service.SAFE)),
        ("d1", _delivered((A,), A, 1, Service.SAFE, 1)),
    ]
    stable = ("", trace.Stabilised((("d1", "d2"),)))
    assert check(_rows(*rows)).violations == {}
    settled = check(_rows(*rows, stable, ("", trace.Ended(True))))
    assert set(settled.violations) == {"EVS-2.14.2", "EVS-2.17"}


def test_a_new_incarnation_ends_the_sessions_of_the_one_before() -> None:
    rows = _rows(
        ("d1", _view(A, 1, (A, B), (A,))),
        ("d2", _view(B, 1, (A, B), (B,))),
        ("d1", _sent(A, 1, Service.SAFE)),
        ("d1", _delivered((A,), A, 1, Service.SAFE, 1)),
    )
    again = Row("d2", 2, 0, 9, trace.Recovered("d2#2"))
    assert check([*rows, again, Row("", 1, 0, 9, trace.Stabilised((("d1",), ("d2",))))]).violations == {}


# --- lost rows -----------------------------------------------------------------------------------------------------


def test_an_inversion_is_seen_beside_a_gap() -> None:
    rows = _rows(
        ("d2", _view(B, 1, (B,), (B,))),
        ("d1", _sent(A, 1, Service.FIFO)),
        ("d1", _sent(A, 2, Service.FIFO)),
        ("d1", trace.Gap(3)),
        ("d2", _delivered((B,), A, 2, Service.FIFO, 2)),
        ("d2", trace.Gap(3)),
        ("d2", _delivered((B,), A, 1, Service.FIFO, 1)),
    )
    report = check(rows)
    assert set(report.violations) == {"EVS-2.11.2"}
    assert report.labels(State.HOLDS) == ()


def test_a_missing_send_is_not_judged_if_its_node_lost_rows_and_is_if_another_did() -> None:
    delivery = ("d2", _delivered((B,), A, 1, Service.FIFO, 1))
    begin = [("d1", trace.Connected(A)), ("d2", _view(B, 1, (B,), (B,)))]
    assert check(_rows(*begin, ("d1", trace.Gap(1)), delivery)).verdicts["EVS-2.6"].state is State.NOT_JUDGED
    assert check(_rows(*begin, ("d3", trace.Gap(1)), delivery)).verdicts["EVS-2.6"].state is State.VIOLATED


def _with_losses(rows: list[Row], choice: Choice) -> list[Row]:
    """Some rows of some nodes missing, each time with a gap or cut off for good."""
    for _ in range(1 + choice.below(3)):
        place = choice.below(len(rows) - 2)
        node, incarnation = rows[place].node, rows[place].incarnation
        same = [i for i in range(place, len(rows)) if (rows[i].node, rows[i].incarnation) == (node, incarnation)]
        cut, count = choice.chance(0.3), 1 + choice.below(6)
        lost = set(same if cut else same[:count])
        loss = Row(node, incarnation, 0, 0, trace.Truncated("torn") if cut else trace.Gap(count))
        rows = [loss if i == place else row for i, row in enumerate(rows) if i == place or i not in lost]
    return renumbered(rows)


@pytest.mark.parametrize("seed", range(1, 31))
def test_a_good_run_with_lost_rows_has_no_violation_and_nothing_holds(seed: int) -> None:
    shape = Shape(
        seed=seed,
        bundles=60,
        nodes=3,
        clients_per_node=2,
        groups=2,
        messages_min=1,
        messages_max=3,
        daemons=True,
        change_every=6,
        lag_max=8,
    )
    choice = Choice(f"losses/{seed}")
    rows = _with_losses(list(Synthetic(shape)), choice)
    report = check(rows)
    assert report.violations == {}
    assert {verdict.state for verdict in report.verdicts.values()} == {State.NOT_JUDGED}
    assert check(interleaved(rows, choice)).verdicts == report.verdicts


def test_the_sequences_of_daemons_need_not_be_dense() -> None:
    """Nothing waits for what was never sent, and what is forgotten gives doubt and no accusation."""
    view = trace.DaemonViewDelivered("d1#1", DaemonViewId(1, DaemonId("d1", 1)), ("d1#1",), ("d1#1",))
    rows = [("d1", trace.Recovered("d1#1")), ("d1", view)]
    for number in range(3, 300, 3):
        rows.append(("d1", trace.DaemonSent("d1#1", number, Service.FIFO, (1,), (7,))))
        rows.append(("d1", _sdelivered("d1", number)))
    for linger in (4, 4096):
        checker = Checker(linger=linger)
        checker.feed_many(_rows(*rows))
        assert checker.retained() < 2 * linger + 10
        assert checker.finish().verdicts["EVS-2.6@S"].state is State.HOLDS
    never = _rows(*rows, ("d1", _sdelivered("d1", 100)))
    assert list(check(never).violations) == ["EVS-2.6@S"]
    checker = Checker(linger=4)
    checker.feed_many(never)
    report = checker.finish()
    assert report.violations == {} and report.verdicts["EVS-2.6@S"].state is State.NOT_JUDGED


def _sdelivered(node: str, number: int) -> Entry:
    return trace.DaemonDelivered(f"{node}#1", "d1#1", number, Service.FIFO, (1,), (7,), number, "d1#1")


# --- memory --------------------------------------------------------------------------------------------------------


def _peak(bundles: int, linger: int) -> int:
    checker, peak = Checker(linger=linger), 0
    for count, row in enumerate(Synthetic(Shape(bundles=bundles, change_every=20, messages_max=2, messages_min=1))):
        checker.feed(row)
        if count % 50 == 0:
            peak = max(peak, checker.retained())
    assert checker.finish().violations == {}
    return peak


def test_memory_does_not_grow_with_the_run() -> None:
    short, long = _peak(1_000, 32), _peak(6_000, 32)
    assert long < 1.5 * short + 100, "ten views an hour or ten thousand: what is held is what is open"


def test_memory_does_not_grow_within_one_view() -> None:
    shape = Shape(bundles=4_000, change_every=1_000_000, messages_max=2, messages_min=1, lag_max=10)
    checker, peak = Checker(linger=32), 0
    for row in Synthetic(shape):
        checker.feed(row)
        peak = max(peak, checker.retained())
    assert checker.finish().violations == {}
    assert peak < 700


def test_a_delivery_of_what_was_forgotten_is_not_judged_rather_than_wrong() -> None:
    rows = [("d1", _view(A, 1, (A,), (A,))), ("d2", _view(B, 2, (B,), (B,)))]
    for sequence in range(1, 41):
        rows += [
            ("d1", _sent(A, sequence, Service.RELIABLE)),
            ("d1", _delivered((A,), A, sequence, Service.RELIABLE, sequence)),
        ]
    late = ("d2", _delivered((B,), A, 1, Service.RELIABLE, 1))
    checker = Checker(linger=4)
    checker.feed_many(_rows(*rows, late))
    report = checker.finish()
    assert report.violations == {}
    assert {report.verdicts[label].state for label in ("EVS-2.5", "EVS-2.6", "EVS-2.18")} == {State.NOT_JUDGED}
    assert check(_rows(*rows, late)).verdicts["EVS-2.6"].state is State.HOLDS


def test_what_waits_is_as_much_as_the_nodes_are_apart() -> None:
    rows = list(Synthetic(Shape(bundles=300)))
    checker = Checker()
    for row in sorted(rows, key=lambda row: (row.node != "d1", row.node)):
        checker.feed(row)
        if row.node != "d1":
            break
    assert checker.retained() > 100
    mixed = Checker(linger=16)
    peak = 0
    for row in rows:
        mixed.feed(row)
        peak = max(peak, mixed.retained())
    assert peak < 700


# --- work ----------------------------------------------------------------------------------------------------------


def _work_per_row(bundles: int) -> float:
    checker = Checker()
    checker.feed_many(Synthetic(Shape(bundles=bundles, messages_max=2, messages_min=1)))
    checker.finish()
    return checker.work() / checker.rows


def test_work_grows_with_the_rows_and_not_faster() -> None:
    assert _work_per_row(4_000) < 1.3 * _work_per_row(400) + 5


def test_work_does_not_depend_on_the_size_of_bundles() -> None:
    small, big = Checker(), Checker()
    small.feed_many(Synthetic(Shape(bundles=300, messages_min=1, messages_max=1)))
    big.feed_many(Synthetic(Shape(bundles=300, messages_min=50, messages_max=50)))
    assert small.rows == big.rows
    assert big.work() <= small.work()  # more, only until causal order was exercised once
    assert big.events > 40 * small.events


def test_long_runs_are_judged_alike_in_any_interleaving() -> None:
    rows = list(Synthetic(Shape(seed=7, bundles=1500, messages_max=3, messages_min=1, daemons=True)))
    verdicts = check(rows).verdicts
    for seed in range(3):
        assert check(interleaved(rows, Choice(seed))).verdicts == verdicts


# --- what a hostile reader of these checkers found -----------------------------------------------------------------


def _second_versions_agree(rows: list[Row]) -> None:
    """Both dumb versions judge as the streaming checkers do; the reference names the same witnesses."""
    violations = check(rows).violations
    found = {f"EVS-{id}": each for id, each in Reference(rows, daemons=False).judge().found.items()}
    found |= {f"EVS-{id}@S": each for id, each in Reference(rows, daemons=True).judge().found.items()}
    assert {label: each.witness for label, each in violations.items()} == found
    assert disagreements(rows) == {}


def test_more_in_flight_than_is_remembered_gives_doubt_and_no_accusation() -> None:
    sends = [("d1", _sent(A, number, Service.FIFO)) for number in range(1, 60)]
    delivered = [("d1", _delivered((A,), A, number, Service.FIFO, 10 + number)) for number in range(1, 60)]
    rows = _rows(ALONE[0], *sends, *delivered, STABLE, ("", trace.Ended(True)))
    checker = Checker(linger=4)
    checker.feed_many(rows)
    report = checker.finish()
    assert not report.violations
    assert report.verdicts["EVS-2.15"].state is State.NOT_JUDGED
    assert not check(rows).violations and check(rows).verdicts["EVS-2.15"].state is State.HOLDS


def test_a_bundle_delivered_in_two_pieces_reached_everyone() -> None:
    whole = trace.Delivered((A,), A, 1, Service.FIFO, ("g",), (1, 1), (7, 7), 5, "d1#1")
    rows = _rows(
        ("d1", _view(A, 1, (A, B), (A,))),
        ("d2", _view(B, 1, (A, B), (B,))),
        ("d1", _sent(A, 1, Service.FIFO, 2)),
        ("d1", whole),
        ("d2", _delivered((B,), A, 1, Service.FIFO, 5)),
        ("d2", _delivered((B,), A, 2, Service.FIFO, 5)),
        *[("d2", _sent(B, number, Service.FIFO)) for number in range(1, 40)],
        *[
            (node, _delivered((client,), B, number, Service.FIFO, 10 + number))
            for number in range(1, 40)
            for node, client in (("d1", A), ("d2", B))
        ],
        ("", trace.Stabilised((("d1", "d2"),))),
        ("", trace.Ended(True)),
    )
    checker = Checker(linger=4)
    checker.feed_many(rows)
    assert not checker.finish().violations


def test_the_order_in_which_members_and_groups_are_written_says_nothing() -> None:
    def run(members: tuple[str, ...], groups: tuple[str, ...]) -> dict[str, State]:
        sent = trace.Sent(A, 1, Service.SAFE, groups, (1,), (7,))
        delivered = trace.Delivered((A,), A, 1, Service.SAFE, ("g",), (1,), (7,), 5, "d1#1")
        rows = _rows(
            ("d1", _view(A, 1, (A, B), (A,))),
            ("d2", _view(B, 1, members, (B,))),
            ("d1", sent),
            ("d1", delivered),
            ("d1", _view(A, 2, (A, B), (A, B))),
            ("d2", _view(B, 2, members, members)),
        )
        return {label: verdict.state for label, verdict in check(rows).verdicts.items()}

    plain = run((A, B), ("g",))
    assert plain["EVS-2.7"] is State.VIOLATED and plain["EVS-2.14.2"] is State.VIOLATED
    assert run((B, A), ("g", "g")) == plain


def test_nothing_waits_for_a_record_that_broke_off() -> None:
    views = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,)))]
    lost = [("d2", _delivered((B,), A, number, Service.FIFO, 10 + number)) for number in range(1, 50)]
    checker = Checker(linger=4)
    checker.feed_many(_rows(*views, ("d1", trace.Truncated("killed")), *lost))
    assert checker.events == 49, "all of them were taken as they came"
    assert not checker.finish().violations


def test_a_late_failure_of_another_network_does_not_end_the_present_one() -> None:
    servers = ("d1#1", "d2#1")
    starts = [(node, trace.NetworkStarted(f"{node}#1", name, servers)) for name in "nm" for node in ("d1", "d2")]
    rows = _rows(
        *starts,
        ("d1", trace.LinkFailed("d1#1", "n", "link", "late")),
        ("d1", trace.NetworkSent("d1#1", "m", 1, 9)),
        *[(node, trace.NetworkReceived(f"{node}#1", "m", "d1#1", 1, 9)) for node in ("d1", "d2")],
    )
    assert not check(rows).violations


@pytest.mark.parametrize("end", [trace.Disconnected(A), trace.Crashed("d1#1")])
def test_a_send_behind_the_end_of_its_sender_is_none_in_any_interleaving(end: Entry) -> None:
    views = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,))), ("d1", end)]
    sends = [("d1", _sent(A, number, Service.FIFO)) for number in (1, 2)]
    deliveries = [("d2", _delivered((B,), A, number, Service.FIFO, 10 + number)) for number in (2, 1)]
    one, other = check(_rows(*views, *sends, *deliveries)), check(_rows(*views, *deliveries, *sends))
    assert list(one.violations) == ["EVS-2.6"]
    assert one.verdicts == other.verdicts
    _second_versions_agree(_rows(*views, *sends, *deliveries))


@pytest.mark.parametrize("between", [(), (("d1", _view(A, 2, (A,), (A,))),)], ids=["plain", "view"])
def test_a_join_that_is_asked_while_a_leave_is_pending_is_owed(between: tuple[tuple[str, Entry], ...]) -> None:
    asked = (("d1", trace.LeaveRequested(A, "g")), ("d1", trace.JoinRequested(A, "g")), *between)
    rows = (ALONE[0], *asked, ("d1", trace.SelfLeft(A, "g")))
    end = (STABLE, ("", trace.Ended(True)))
    broken, good = _rows(*rows, *end), _rows(*rows, ("d1", _view(A, 3, (A,), (A,))), *end)
    assert {label: each.witness for label, each in check(broken).violations.items()} == {"EVS-2.16": (("d1", 1, 2),)}
    assert check(good).violations == {} and check(good).verdicts["EVS-2.16"].state is State.HOLDS
    for each in (broken, good):
        _second_versions_agree(each)


def test_a_daemon_of_the_component_without_any_rows_accuses_nobody() -> None:
    view = DaemonViewId(1, DaemonId("d1", 1))
    rows = (("d1", trace.Recovered("d1#1")), ("d1", trace.DaemonViewDelivered("d1#1", view, ("d1#1",), ("d1#1",))))
    alone = _rows(*rows, STABLE, ("", trace.Ended(True)))
    missed = _rows(*rows, ("", trace.Stabilised((("d1", "d2"),))), ("", trace.Ended(True)))
    assert check(alone).verdicts["EVS-2.16@S"].state is State.HOLDS
    _second_versions_agree(alone)
    report = check(missed)
    assert report.verdicts["EVS-2.16@S"].state is State.NOT_JUDGED
    assert (report.violations, report.missing) == ({}, ("d2",))


def _network(*servers: str) -> Entry:
    return trace.NetworkStarted(f"{servers[0]}#1", "n", tuple(f"{name}#1" for name in servers[1:]))


SENT = ("d1", trace.NetworkSent("d1#1", "n", 1, 9))


def _received(node: str, digest: int = 9) -> tuple[str, Entry]:
    return (node, trace.NetworkReceived(f"{node}#1", "n", "d1#1", 1, digest))


@pytest.mark.parametrize(
    ("first", "second", "received", "violated"),
    [
        (("d1", "d2"), ("d1",), [_received("d1")], ["EVS-2.21", "EVS-2.22"]),
        (("d1",), ("d1", "d2"), [_received("d1")], ["EVS-2.21"]),
        (("d1",), ("d1",), [_received("d1"), _received("d2")], ["EVS-2.21"]),
        (("d1",), ("d1",), [_received("d1"), _received("d2", 8)], ["EVS-2.21"]),
        (("d1",), ("d1",), [_received("d1"), _received("d2"), _received("d2")], ["EVS-2.21", "EVS-2.22"]),
        (("d1", "d2"), ("d1", "d2"), [SENT, _received("d1"), _received("d2")], []),
    ],
)
def test_verdicts_on_networks_do_not_depend_on_the_interleaving(
    first: tuple[str, ...], second: tuple[str, ...], received: list[tuple[str, Entry]], violated: list[str]
) -> None:
    starts = [("d1", _network("d1", *first)), ("d2", _network("d2", *second))]
    end = [("", trace.Stabilised((("d1", "d2"),))), ("", trace.Ended(True))]
    rows = _rows(*starts, SENT, *received, *end)
    verdicts = check(rows).verdicts
    assert sorted(check(rows).violations) == violated
    for order in (("d1", "d2"), ("d2", "d1")):
        assert check([row for node in (*order, "") for row in rows if row.node == node]).verdicts == verdicts
    for seed in range(8):
        assert check(interleaved(rows, Choice(seed))).verdicts == verdicts


OTHER, THIRD = "#o#d2#1#1", "#q#d3#1#1"


def _with_forgetting(before: list[tuple[str, Entry]], after: list[tuple[str, Entry]]) -> tuple[State, State]:
    """D2.7 if nothing is forgotten, and if all is that happened before."""
    filler = [
        each
        for number in range(1, 21)
        for each in (
            ("d1", _sent(A, number, Service.FIFO)),
            ("d1", _delivered((A,), A, number, Service.FIFO, 90 + number)),
        )
    ]
    rows = _rows(ALONE[0], *before, *filler, *after)
    checker = Checker(linger=4)
    checker.feed_many(rows)
    return check(rows).verdicts["EVS-D2.7"].state, checker.finish().verdicts["EVS-D2.7"].state


def _stamped(sender: str, number: int, lamport: int) -> list[tuple[str, Entry]]:
    """A send, and its delivery at A."""
    entry = trace.Delivered((A,), sender, number, Service.RELIABLE, ("g",), (1,), (7,), lamport, "d2#1")
    return [(sender.split("#")[2], _sent(sender, number, Service.RELIABLE)), ("d1", entry)]


def test_a_stamp_of_a_forgotten_bundle_gives_doubt() -> None:
    states = _with_forgetting(_stamped(OTHER, 1, 5), _stamped(THIRD, 1, 5))
    assert states == (State.VIOLATED, State.NOT_JUDGED)
    assert _with_forgetting(_stamped(OTHER, 1, 5), _stamped(THIRD, 1, 6)) == (State.HOLDS, State.HOLDS)


def test_stamps_against_the_order_of_sends_are_seen_though_the_other_is_forgotten() -> None:
    states = _with_forgetting(_stamped(OTHER, 1, 50), _stamped(OTHER, 2, 40))
    assert states == (State.VIOLATED, State.VIOLATED)
    early, late = _stamped(OTHER, 1, 50), _stamped(OTHER, 2, 40)
    assert _with_forgetting([early[0], *late], [early[1]]) == (State.VIOLATED, State.VIOLATED)


def test_a_bundle_among_forgotten_ones_of_its_sender_gives_doubt() -> None:
    first, second, third = (_stamped(OTHER, number, lamport) for number, lamport in ((1, 50), (2, 40), (3, 60)))
    states = _with_forgetting([*first, second[0], *third], [second[1]])
    assert states == (State.VIOLATED, State.NOT_JUDGED)


def test_memory_does_not_grow_behind_a_gap() -> None:
    views = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,)))]
    again = [("d1", _view(A, 2, (A, B), (A, B))), ("d2", _view(B, 2, (A, B), (A, B)))]
    rows = [*views, ("d1", trace.Gap(1)), *again]
    for number in range(1, 401):
        rows += [("d1", _sent(A, number, Service.FIFO))] if number > 1 else []
        rows += [(node, _delivered((each,), A, number, Service.FIFO, number)) for node, each in (("d1", A), ("d2", B))]
    checker = Checker(linger=16)
    checker.feed_many(_rows(*rows))
    assert checker.retained() < 50
    assert checker.finish().violations == {}


def test_memory_does_not_grow_with_broken_networks() -> None:
    servers, rows = ("d1#1", "d2#1"), []
    for number in range(50):
        name = f"n{number}"
        rows += [(node, trace.NetworkStarted(f"{node}#1", name, servers)) for node in ("d1", "d2")]
        rows += [
            ("d1", trace.NetworkSent("d1#1", name, 1, 9)),
            ("d1", trace.NetworkReceived("d1#1", name, "d1#1", 1, 9)),
        ]
        rows += [(node, trace.LinkFailed(f"{node}#1", name, "link", "")) for node in ("d1", "d2")]
    checker = Checker()
    checker.feed_many(_rows(*rows))
    assert checker.retained() < 5
    assert checker.finish().violations == {}


def test_what_is_received_outside_of_a_network_counts_under_the_use_of_it_alone() -> None:
    starts = [
        (node, trace.NetworkStarted(f"{node}#1", name, ("d1#1", "d2#1"))) for name in "nm" for node in ("d1", "d2")
    ]
    failed = ("d1", trace.LinkFailed("d1#1", "n", "link", ""))
    rows = _rows(*starts[:2], SENT, failed, *starts[2:], _received("d2", 8))
    verdicts = check(rows).verdicts
    assert list(check(rows).violations) == ["EVS-2.21"]
    for seed in range(8):
        assert check(interleaved(rows, Choice(seed))).verdicts == verdicts


# --- work, by lines of code that run -------------------------------------------------------------------------------


def _lines(rows: list[Row]) -> int:
    """How many lines the checkers run, without regard to clocks."""
    count, before = 0, sys.gettrace()

    def follow(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        nonlocal count
        count += 1
        return follow if "check" in frame.f_code.co_filename else None

    sys.settrace(follow)
    try:
        check(rows)
    finally:
        sys.settrace(before)
    return count


def _split_bundles(count: int) -> list[Row]:
    rows = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,)))]
    for number in range(1, 2 * count, 2):
        rows.append(("d1", _sent(A, number, Service.FIFO, 2)))
        for node, client in (("d1", A), ("d2", B)):
            rows += [(node, _delivered((client,), A, each, Service.FIFO, number)) for each in (number, number + 1)]
    return _rows(*rows)


def _sessions_and_crashes(count: int) -> list[Row]:
    sessions = [f"#m#d1#1#{number + 1}" for number in range(count)]
    rows = [("d1", 1, each(client)) for client in sessions for each in (trace.Connected, trace.Disconnected)]
    rows += [
        ("d2", number, each(f"d2#{number}")) for number in range(1, count) for each in (trace.Recovered, trace.Crashed)
    ]
    return renumbered([Row(node, incarnation, 0, at, entry) for at, (node, incarnation, entry) in enumerate(rows)])


def _missing_node(count: int) -> list[Row]:
    rows = [("d2", _delivered((B,), A, number, Service.FIFO, number)) for number in range(1, count)]
    return _rows(("d2", _view(B, 1, (A, B), (B,))), *rows)


def _one_stamp(count: int) -> list[Row]:
    """All bundles share one stamp, each sender sends one, and all are delivered in one order."""
    senders = [f"#s#d3#1#{number}" for number in range(1, count)]
    both = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,)))]
    sent = [("d3", _sent(each, 1, Service.AGREED)) for each in senders]
    delivered = [
        (node, _delivered((client,), each, 1, Service.AGREED, 5))
        for node, client in (("d1", A), ("d2", B))
        for each in senders
    ]
    return _rows(*both, *sent, *delivered)


@pytest.mark.parametrize("make", [_split_bundles, _sessions_and_crashes, _missing_node, _one_stamp])
def test_lines_run_grow_with_the_rows_and_not_faster(make: Callable[[int], list[Row]]) -> None:
    short, long = make(40), make(160)
    assert _lines(long) / len(long) < 1.2 * _lines(short) / len(short)


@pytest.mark.parametrize("count", [2, 5])
def test_bundles_of_one_stamp_are_told_by_their_first_rows_in_any_order(count: int) -> None:
    rows = [row for row in _one_stamp(count + 1) if row.node != "d2"]
    rows.insert(0, Row("d2", 1, 0, 0, trace.Recovered("d2#1")))
    swapped = [*rows[:-2], rows[-1], rows[-2]]
    for each in (rows, renumbered(swapped), _one_stamp(count + 1)):
        _second_versions_agree(each)
        for seed in range(4):
            assert check(interleaved(each, Choice(seed))).verdicts == check(each).verdicts


def _two_orders(count: int) -> list[Row]:
    """The same, but the last two in the other order at the second node."""
    rows = _one_stamp(count)
    return renumbered([*rows[:-2], rows[-1], rows[-2]])


def test_two_orders_among_bundles_of_one_stamp() -> None:
    for count in (3, 9):
        assert {"EVS-D2.7", "EVS-2.13.2"} == set(check(_two_orders(count)).violations)
        _second_versions_agree(_two_orders(count))


def test_more_daemon_views_than_are_remembered_give_doubt_about_safe_messages() -> None:
    """B was in 300 daemon views before it is known what A had in the first: when was it too late?"""
    views = [("d2", _view(B, epoch, (A, B) if epoch == 1 else (B,), (B,))) for epoch in range(1, 302)]
    late = [*views, ("d2", _delivered((B,), A, 1, Service.SAFE, 5))]
    had = [("d1", _sent(A, 1, Service.SAFE)), ("d1", _delivered((A,), A, 1, Service.SAFE, 5))]
    first = [("d1", _view(A, 1, (A, B), (A,))), *had, ("d1", _view(A, 900, (A,), (A,)))]
    assert set(check(_rows(*first, *late)).violations) == {"EVS-2.14.2", "EVS-2.18"}
    behind = check(_rows(*late, *first))
    assert set(behind.violations) == {"EVS-2.18"}
    assert behind.verdicts["EVS-2.14.2"].state is State.NOT_JUDGED


@pytest.mark.parametrize(
    ("more", "components", "violated"),
    [
        ((), (("d1", "d2"),), ["EVS-2.21"]),
        ((), (("d1",), ("d2",)), []),
        ((("d2", trace.Crashed("d2#1")),), (("d1", "d2"),), []),
        ((("d1", trace.LinkFailed("d1#1", "n", "link", "")),), (("d1", "d2"),), []),
        ((("d2", _network("d2", "d1", "d2")), _received("d2")), (("d1", "d2"),), []),
    ],
    ids=["within reach", "apart", "crashed", "failed", "began"],
)
def test_all_servers_begin_a_network_that_is_in_use_at_a_settled_end(
    more: tuple[tuple[str, Entry], ...], components: tuple[tuple[str, ...], ...], violated: list[str]
) -> None:
    rows = (("d1", _network("d1", "d1", "d2")), ("d2", trace.Recovered("d2#1")), SENT, _received("d1"), *more)
    settled = _rows(*rows, ("", trace.Stabilised(components)), ("", trace.Ended(True)))
    assert sorted(check(settled, (Boundary.NETWORK,)).violations) == violated
    assert check(_rows(*rows), (Boundary.NETWORK,)).violations == {}


@pytest.mark.parametrize("first", [1, 9])
def test_explanations_do_not_depend_on_how_a_bundle_was_cut_when(first: int) -> None:
    whole = trace.Delivered((B,), A, first, Service.FIFO, ("g",), (1, 1), (7, 7), 5, "d1#1")
    sent = ("d1", _sent(A, first, Service.FIFO, 2))
    parts = [("d1", _delivered((A,), A, number, Service.FIFO, 5)) for number in (first, first + 1)]
    views = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,)))]
    before = [("d1", _sent(A, 1, Service.FIFO, first - 1))] if first > 1 else []
    wrong = [("d2", whole), ("d2", whole)]
    one = check(_rows(*views, *before, sent, *wrong, *parts))
    other = check(_rows(*views, *before, sent, *parts, *wrong))
    assert one.violations["EVS-2.5"].explanation == f"{B} delivered message {first} of {A} twice."
    assert one.verdicts == other.verdicts


def test_a_bundle_of_which_nobody_delivered_the_rest_did_not_reach_everyone() -> None:
    views = [("d1", _view(A, 1, (A, B), (A,))), ("d2", _view(B, 1, (A, B), (B,)))]
    parts = [(node, _delivered((client,), A, 1, Service.FIFO, 5)) for node, client in (("d1", A), ("d2", B))]
    end = [("", trace.Stabilised((("d1", "d2"),))), ("", trace.Ended(True))]
    rows = _rows(*views, ("d1", _sent(A, 1, Service.FIFO, 2)), *parts, *end)
    assert sorted(check(rows).violations) == ["EVS-2.15", "EVS-2.17"]
    _second_versions_agree(rows)


# --- after a gap, and at the end of what is remembered ---------------------------------------------------------------


def _then(client: str, epoch: int, *others: str) -> tuple[str, Entry]:
    """A view in which everybody came together."""
    members = tuple(sorted((client, *others)))
    return client.split("#")[2], _view(client, epoch, members, members)


def test_a_view_after_a_gap_has_an_unknown_previous_view_and_the_next_has_not() -> None:
    begin = [("d1", _view(A, 1, (A,), (A,))), ("d1", trace.Gap(2)), _then(A, 4, B)]
    assert check(_rows(*begin)).violations == {}
    strange = check(_rows(*begin, _then(A, 5, B, OTHER)))
    assert {label: each.witness for label, each in strange.violations.items()} == {"EVS-2.4.2": (("d1", 1, 3),)}
    again = check(_rows(*begin, ("d1", trace.SelfLeft(A, "g")), _then(A, 5, B)))
    assert {label: each.witness for label, each in again.violations.items()} == {"EVS-2.4.1": (("d1", 1, 4),)}
    gone = check(_rows(*begin, ("d1", trace.SelfLeft(A, "g")), ("d2", _sent(B, 1, Service.FIFO)), _at_a(B)))
    assert list(gone.violations) == ["EVS-2.1"]
    blind = check(_rows(begin[0], begin[1], ("d2", _sent(B, 1, Service.FIFO)), _at_a(B)))
    assert blind.violations == {}


def _at_a(sender: str) -> tuple[str, Entry]:
    return "d1", trace.Delivered((A,), sender, 1, Service.FIFO, ("g",), (1,), (7,), 9, "d2#1")


def test_a_session_that_is_first_met_after_a_gap_may_have_done_anything_before() -> None:
    late = "#l#d1#1#9"
    signal = trace.SignalDelivered((late,), "g", GroupViewId(DaemonViewId(3, DaemonId("d1", 1))))
    sent = ("d2", _sent(B, 1, Service.FIFO))
    at_late = ("d1", trace.Delivered((late,), B, 1, Service.FIFO, ("g",), (1,), (7,), 9, "d2#1"))
    of_late = ("d2", trace.Delivered((B,), late, 1, Service.FIFO, ("g",), (1,), (7,), 8, "d1#1"))
    view = ("d2", _view(B, 1, (B,), (B,)))
    for rows in ([("d1", signal)], [sent, at_late], [("d1", trace.Connected(late)), of_late], [_then(late, 4, A)]):
        assert check(_rows(view, ("d1", trace.Gap(1)), *rows)).violations == {}
        assert len(check(_rows(view, ("d1", trace.Connected(A)), *rows)).violations) == 1
    asked = [_then(late, 4, late), ("d1", _sent(late, 1, Service.AGREED))]
    early = ("d2", trace.Delivered((B,), late, 1, Service.AGREED, ("g",), (1,), (7,), 8, "d1#1"))
    assert check(_rows(view, ("d1", trace.Gap(1)), *asked, early)).violations == {}, "it may have asked to leave"


@pytest.mark.parametrize(
    ("more", "violated"),
    [
        ((), ["EVS-2.22"]),
        ((("d2", trace.NetworkStarted("d2#1", "m", ("d2#1",))),), []),
        ((("d1", trace.NetworkStarted("d1#1", "m", ("d1#1",))),), []),
        ((("d2", trace.Crashed("d2#1")),), []),
        ((("d1", trace.Crashed("d1#1")),), []),
    ],
    ids=["still there", "receiver moved", "sender moved", "receiver crashed", "sender crashed"],
)
def test_a_multicast_is_owed_among_servers_that_still_use_the_network(
    more: tuple[tuple[str, Entry], ...], violated: list[str]
) -> None:
    starts = [("d1", _network("d1", "d1", "d2")), ("d2", _network("d2", "d1", "d2"))]
    end = [("", trace.Stabilised((("d1", "d2"),))), ("", trace.Ended(True))]
    rows = _rows(*starts, SENT, _received("d1"), *more, *end)
    assert sorted(check(rows, (Boundary.NETWORK,)).violations) == violated


def test_a_server_that_crashed_need_not_begin_the_network_and_one_that_came_back_must() -> None:
    rows = [("d1", _network("d1", "d1", "d2")), ("d2", trace.Recovered("d2#1")), SENT, _received("d1")]
    end = [("", trace.Stabilised((("d1", "d2"),))), ("", trace.Ended(True))]
    assert list(check(_rows(*rows, *end), (Boundary.NETWORK,)).violations) == ["EVS-2.21"]
    assert check(_rows(*rows, ("d2", trace.Crashed("d2#1")), *end), (Boundary.NETWORK,)).violations == {}


@pytest.mark.parametrize("number", [1, 2], ids=["before", "since"])
@pytest.mark.parametrize("linger", [2, 4096])
def test_the_causal_past_of_a_forgotten_last_bundle_stays_with_its_sender(linger: int, number: int) -> None:
    """B knew a message of A when it sent its first bundle, which is forgotten; the second still depends on it.

    So it does on what B delivered since.
    """
    both = (A, B, OTHER)
    views = [(client.split("#")[2], _view(client, 1, both, (client,))) for client in both]
    alone = GroupViewId(DaemonViewId(1, DaemonId("d2", 1)))
    rows = [
        *views,
        ("d2", trace.ViewDelivered((B,), "own", alone, (B,), (B,), "join")),
        ("d1", _sent(A, 1, Service.CAUSAL)),
        ("d1", _delivered((A,), A, 1, Service.CAUSAL, 1)),
        ("d2", _delivered((B,), A, 1, Service.CAUSAL, 1)),
    ]
    rows += [
        ("d2", trace.Sent(B, 1, Service.CAUSAL, ("own",), (1,), (7,))),
        ("d2", trace.Delivered((B,), B, 1, Service.CAUSAL, ("own",), (1,), (7,), 2, "d2#1")),
        ("d1", _sent("#z#d1#1#7", 1, Service.CAUSAL)),
        ("d2", _delivered((B,), "#z#d1#1#7", 1, Service.CAUSAL, 9)),
    ]
    for each in range(1, 9):
        rows += [
            ("d4", trace.Sent("#x#d4#1#1", each, Service.UNRELIABLE, ("g",), (1,), (7,))),
            ("d1", trace.Delivered((A,), "#x#d4#1#1", each, Service.UNRELIABLE, ("g",), (1,), (7,), 0, "d4#1")),
        ]
    rows += [
        ("d2", trace.Sent(B, 2, Service.CAUSAL, ("g",), (1,), (7,))),
        ("d2", trace.Delivered((OTHER,), B, 2, Service.CAUSAL, ("g",), (1,), (7,), 20, "d2#1")),
        ("d2", _delivered((OTHER,), A if number == 1 else "#z#d1#1#7", 1, Service.CAUSAL, 1 if number == 1 else 9)),
    ]
    checker = Checker(linger=linger)
    checker.feed_many(_rows(*rows))
    assert checker.finish().violations.keys() == {"EVS-2.12.2"}


def test_a_member_that_is_first_met_after_a_gap_may_have_had_a_safe_message() -> None:
    had = [("d1", _view(A, 1, (A, B), (A,))), ("d1", _sent(A, 1, Service.SAFE))]
    had += [("d1", _delivered((A,), A, 1, Service.SAFE, 1))]
    later = ("d2", _view(B, 2, (B,), (B,)))
    assert list(check(_rows(*had, later)).violations) == ["EVS-2.14.2"]
    assert check(_rows(*had, ("d2", trace.Gap(2)), later)).violations == {}
