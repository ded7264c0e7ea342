"""[Spread 6.5]: every theorem about group membership, on a run of real daemons with clients.

Each theorem is judged twice, in every group of the run: by its statement in `theorems`, written from the text, and by
the checkers of the specification, which must say that it was put to the test and holds. Deviations that change a
theorem: view ids are unique (so Membership Agreement holds too), and the same-view clauses are promised to RELIABLE and
FIFO messages too (D-cut of `isotone.spec.properties`).
"""

from __future__ import annotations

import pytest

from isotone.core.ids import GroupViewId
from isotone.core.services import Service
from isotone.spec.check import State as Verdict
from isotone.trace.events import DaemonDelivered, DaemonSent, JoinRequested, LeaveRequested, Row, ViewDelivered
from tests.paper import deliveries, theorems
from tests.paper.history import daemon_of
from tests.paper.membership_run import Told, told, told_of_cascades
from tests.paper.theorems import AGREED, Finding, Statement


@pytest.fixture(scope="module")
def run() -> Told:
    return told()


def holds(run: Told, statement: Statement, *labels: str) -> None:
    """In all groups of both runs; put to the test in at least one."""
    for history in told_of_cascades().clients.values():
        assert not statement(history).offences
    findings = {group: statement(history) for group, history in run.clients.items()}
    assert not [offence for finding in findings.values() for offence in finding.offences]
    assert any(finding.instances for finding in findings.values())
    assert {label: run.report.verdicts[label].state for label in labels} == dict.fromkeys(labels, Verdict.HOLDS)


def test_lemma_6_9_identical_order(run: Told) -> None:
    """Reference: [Spread 6.5, Lemma 6.9]. For AGREED and SAFE; weaker ones may wait in GGATHER."""
    passed: dict[str, list[tuple[int, str]]] = {}
    for row in run.rows:
        if isinstance(row.entry, DaemonDelivered) and row.entry.service in AGREED:
            passed.setdefault(row.entry.daemon, []).append((row.entry.lamport, row.entry.stamper))
    checked = 0
    for client, heard in run.clients["chat"].heard.items():
        below = passed[daemon_of(client)]
        places = [below.index(each.ord) for each in heard if each.service in AGREED]
        assert places == sorted(places)
        checked += len(places)
    assert checked


def test_lemma_6_16_a_signal_is_followed_by_a_view(run: Told) -> None:
    """Reference: [Spread 6.5, Lemma 6.16]."""
    signalled = [stay for history in run.clients.values() for stay in history.stays if stay.signals]
    assert signalled and all(stay.next is not None or stay.ended for stay in signalled)


def test_theorem_6_15_initial_view_event(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.15]."""
    holds(run, theorems.initial_view_event, "EVS-2.1")


def test_theorem_6_16_self_inclusion(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.16]."""
    holds(run, theorems.self_inclusion, "EVS-2.2")


def test_theorem_6_17_local_monotonicity(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.17, Definition 6.1]. Ours also across sessions and restarts of one name."""
    holds(run, theorems.local_monotonicity, "EVS-2.3")


def test_group_view_ids_are_unique(run: Told) -> None:
    """Reference: [Spread 2.2.5], which concedes the opposite; ours agree on members (2.20)."""
    holds(run, theorems.membership_agreement, "EVS-2.20")


def test_theorem_6_18a_first_transitional_set(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.18 (a)]."""
    holds(run, theorems.transitional_set_a, "EVS-2.4.1")


def test_theorem_6_18b_transitional_set_within_both_views(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.18 (b)]. Views of all causes occur."""
    holds(run, theorems.transitional_set_b, "EVS-2.4.2")
    views = [row.entry for row in run.rows if isinstance(row.entry, ViewDelivered)]
    assert {view.cause for view in views} == {"join", "leave", "disconnect", "network"}


def test_theorem_6_18c_transitional_set_is_exact(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.18 (c)]."""
    holds(run, theorems.transitional_set_c, "EVS-2.4.3")


def test_theorem_6_18d_transitional_sets_agree(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.18 (d)]."""
    holds(run, theorems.transitional_set_d, "EVS-2.4.4")


def test_theorem_6_19_no_duplication(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.19]."""
    holds(run, deliveries.no_duplication, "EVS-2.5")


def test_theorem_6_20_delivery_integrity(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.20]."""
    holds(run, deliveries.delivery_integrity, "EVS-2.6")


def test_theorem_6_21_self_delivery(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.21]."""
    holds(run, deliveries.self_delivery, "EVS-2.15")


def test_virtual_synchrony_of_groups(run: Told) -> None:
    """Reference: [Spread 2.7], which the proof of Theorem 6.27 leans on."""
    holds(run, deliveries.virtual_synchrony, "EVS-2.7")


def test_same_view_delivery_of_groups(run: Told) -> None:
    """Reference: [Spread 2.18]. Before signals (D-other-side)."""
    holds(run, lambda history: deliveries.same_view_delivery(history, after_signals=False), "EVS-2.18")


def test_theorem_6_22a_not_before_the_view_it_was_sent_in(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.22 (a)], for A and S as it says."""
    holds(run, lambda history: deliveries.sane_view_delivery_a(history, AGREED), "EVS-2.9.1")


def test_theorem_6_22b_not_after_its_sender_came_back(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.22 (b)]. bob came back to his daemon, dave with his daemon."""
    holds(run, deliveries.sane_view_delivery_b, "EVS-2.9.2")
    sessions = {stay.process for stay in run.clients["chat"].stays}
    assert {"#bob#b#1#1", "#bob#b#1#3", "#dave#d#1#1", "#dave#d#2#1"} <= sessions


def test_theorem_6_23_fifo(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.23], over all groups of a receiver."""
    holds(run, deliveries.fifo, "EVS-2.11.2")


def test_theorem_6_24_causal(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.24]. CAUSAL is a service of its own here."""
    holds(run, lambda history: deliveries.causal(history, (Service.CAUSAL,)), "EVS-2.12.2")


def test_theorem_6_25a_agreed_messages_are_causal(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.25 (a)]."""
    holds(run, lambda history: deliveries.causal(history, AGREED), "EVS-2.12.2")


def test_theorem_6_25b_nothing_lower_follows(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.25 (b)], over all groups of a receiver."""
    holds(run, deliveries.agreed_b, "EVS-2.13.2", "EVS-D2.7")


def test_theorem_6_25c_no_holes_before_the_signal(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.25 (c)]."""
    holds(run, deliveries.agreed_c, "EVS-2.13.3")


def test_theorem_6_25d_no_holes_of_those_who_come_along(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.25 (d)]."""
    holds(run, deliveries.agreed_d, "EVS-2.13.4")


def test_theorem_6_26a_safe_messages_are_agreed(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.26 (a)]."""
    holds(run, lambda history: deliveries.agreed_b(history, (Service.SAFE,)), "EVS-2.13.2")


def test_theorem_6_26b_safe_before_the_signal(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.26 (b)]. Members deliver it, in whatever view (D-other-side)."""
    holds(run, lambda history: deliveries.safe_b(history, in_that_view=False), "EVS-2.14.2")


def test_theorem_6_26c_safe_after_the_signal(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.26 (c)]."""
    holds(run, deliveries.safe_c, "EVS-2.14.3")


def test_theorem_6_27a_one_signal(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.27 (a)]."""
    holds(run, theorems.signals_a, "EVS-2.8.1")


def test_theorem_6_27b_the_same_before_and_after(run: Told) -> None:
    """Reference: [Spread 6.5, Theorem 6.27 (b)]."""
    holds(run, theorems.signals_b, "EVS-2.8.2")


# --- what the introduction of 6.4 promises -------------------------------------------------------------------------


def test_a_join_behind_the_signal_makes_a_view_that_is_signalled_at_once(run: Told) -> None:
    """Reference: [Spread 6.4.5, Figure 6.20]. bert joined when the daemon view had already ended for c and d."""
    first = next(stay for stay in run.clients["chat"].stays if stay.process.startswith("#bert#"))
    assert isinstance(first.view, GroupViewId) and first.view.next_daemon_view.epoch > 0
    assert first.signals == [first.view] and not [each for each in first.deliveries if not each.after_signal]


def test_joins_and_leaves_cost_one_safe_message(run: Told) -> None:
    """Reference: [Spread 6.4.4]."""
    asked = 0
    for before, row in enumerate(run.rows):
        if isinstance(row.entry, JoinRequested | LeaveRequested):
            follows = _next_sent(run.rows[before:], row.node)
            assert follows is not None and follows.service is Service.SAFE
            asked += 1
    assert asked >= 12


def _next_sent(rows: list[Row], node: str) -> DaemonSent | None:
    return next((row.entry for row in rows if row.node == node and isinstance(row.entry, DaemonSent)), None)


def test_a_group_without_members_on_daemons_that_left_sees_nothing(run: Told) -> None:
    """Reference: [Spread 6.4]. All members of home are at a: after the joins nothing changes, whatever daemons do."""
    stays = run.clients["home"].stays
    assert len(stays) == 3 and not [stay for stay in stays if stay.signals]
    assert {stay.process for stay in stays} == {"#alice#a#1#1", "#ann#a#1#2"}
    daemon_views = {stay.view for stay in run.daemons.of("a#1")}
    assert len(daemon_views) > 4


def test_findings_need_instances() -> None:
    assert not Finding().proves and Finding(1).proves and not Finding(1, ["no"]).proves
