"""[Spread 6.2, 6.3]: every theorem about daemon membership, and its cost in messages, on runs of real daemons.

Each theorem is judged twice on one run: by its statement in `theorems`, written from the text, and by the checkers of
the specification, which must say that it was put to the test and holds. Where ours is another promise, it is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from isotone.core.contract import Action, DatagramsReceived, Event, MulticastDatagrams
from isotone.core.services import Service
from isotone.evs.membership import State
from isotone.evs.membership.messages import Join, NewMemb
from isotone.evs.stack import Stack
from isotone.sim.full_cluster import FullCluster, datagrams
from isotone.spec.check import State as Verdict
from isotone.trace.events import DaemonViewDelivered, NetworkSent, NetworkStarted
from tests.paper import deliveries, theorems
from tests.paper.membership_run import Told, recorded, told, told_of_cascades
from tests.paper.theorems import Statement


@pytest.fixture(scope="module")
def run() -> Told:
    return told()


def holds(run: Told, statement: Statement, *labels: str) -> None:
    """The statement was put to the test and nothing speaks against it, in either run; so say the checkers."""
    finding = statement(run.daemons)
    assert not finding.offences and finding.instances
    assert not statement(told_of_cascades().daemons).offences
    assert {label: run.report.verdicts[label].state for label in labels} == dict.fromkeys(labels, Verdict.HOLDS)


# --- 6.2 -----------------------------------------------------------------------------------------------------------


def test_lemma_6_1_view_ids_are_unique(run: Told) -> None:
    """Reference: [Spread 6.2, Lemma 6.1]. Ours are unique without a clock: one NEWMEMB for each id, for all time."""
    attempts = [(row.entry.network, row.entry.servers) for row in run.rows if isinstance(row.entry, NetworkStarted)]
    assert len({network for network, _ in attempts}) == len(set(attempts))


def test_lemma_6_2_a_signal_precedes_every_view(run: Told) -> None:
    """Reference: [Spread 6.2, Lemma 6.2]."""
    left = [stay for stay in run.daemons.stays if stay.next is not None]
    assert left and all(stay.signals == [stay.view] for stay in left)


def test_lemma_6_6_every_view_was_an_attempt_with_these_members(run: Told) -> None:
    """Reference: [Spread 6.2, Lemma 6.6]. The id of the daemon view is that of its NEWMEMB (D-id)."""
    begun: set[tuple[str, str, tuple[str, ...]]] = set()
    for row in run.rows:
        match row.entry:
            case NetworkStarted(daemon=daemon, network=network, servers=servers):
                begun.add((daemon, network, servers))
            case DaemonViewDelivered(daemon=daemon, view=view, members=members):
                assert (daemon, str(view), members) in begun or members == (daemon,)
    assert any(len(servers) > 1 for _, _, servers in begun)


def test_theorem_6_1_initial_view_event(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.1]."""
    holds(run, theorems.initial_view_event, "EVS-2.1@S")


def test_theorem_6_2_self_inclusion(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.2]. A NEWMEMB that leaves its receiver out is not followed (D-self)."""
    holds(run, theorems.self_inclusion, "EVS-2.2@S")


def test_theorem_6_3_membership_agreement(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.3]."""
    holds(run, theorems.membership_agreement, "EVS-2.20@S")


def test_theorem_6_4_local_monotonicity(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.4]. Ours also across restarts, by floors on disk instead of clocks."""
    holds(run, theorems.local_monotonicity, "EVS-2.3@S")
    firsts = [stay for stay in run.daemons.stays if stay.process == "d#2" and stay.previous is None]
    assert firsts, "one of them came back"


def test_theorem_6_5a_first_transitional_set(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.5 (a)]."""
    holds(run, theorems.transitional_set_a, "EVS-2.4.1@S")


def test_theorem_6_5b_transitional_set_within_both_views(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.5 (b)]."""
    holds(run, theorems.transitional_set_b, "EVS-2.4.2@S")


def test_theorem_6_5c_transitional_set_is_exact(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.5 (c)]."""
    holds(run, theorems.transitional_set_c, "EVS-2.4.3@S")


def test_theorem_6_5d_transitional_sets_agree(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.5 (d)]."""
    holds(run, theorems.transitional_set_d, "EVS-2.4.4@S")


def test_theorem_6_6_no_duplication(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.6]."""
    holds(run, deliveries.no_duplication, "EVS-2.5@S")


def test_theorem_6_7_delivery_integrity(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.7]."""
    holds(run, deliveries.delivery_integrity, "EVS-2.6@S")


def test_theorem_6_8_self_delivery(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.8]."""
    holds(run, deliveries.self_delivery, "EVS-2.15@S")


def test_theorem_6_9_same_view_delivery(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.9]."""
    holds(run, deliveries.same_view_delivery, "EVS-2.18@S")


def test_theorem_6_10_virtual_synchrony(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.10]."""
    holds(run, deliveries.virtual_synchrony, "EVS-2.7@S")


def test_theorem_6_11a_not_before_the_view_it_was_sent_in(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.11 (a)]."""
    holds(run, deliveries.sane_view_delivery_a, "EVS-2.19.1")


def test_theorem_6_11b_not_after_its_sender_came_back(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.11 (b)]."""
    holds(run, deliveries.sane_view_delivery_b, "EVS-2.19.2")


def test_theorem_6_12a_agreed_messages_are_causal(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.12 (a)]."""
    holds(run, lambda history: deliveries.causal(history, theorems.AGREED), "EVS-2.11.2@S", "EVS-2.12.2@S")


def test_theorem_6_12b_nothing_lower_follows(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.12 (b)]."""
    holds(run, deliveries.agreed_b, "EVS-2.13.2@S", "EVS-D2.7@S")


def test_theorem_6_12c_no_holes_before_the_signal(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.12 (c)]."""
    holds(run, deliveries.agreed_c, "EVS-2.13.3@S")


def test_theorem_6_12d_no_holes_of_those_who_come_along(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.12 (d)]."""
    holds(run, deliveries.agreed_d, "EVS-2.13.4@S")


def test_theorem_6_13a_safe_messages_are_agreed(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.13 (a)]."""
    holds(run, lambda history: deliveries.agreed_b(history, (Service.SAFE,)), "EVS-2.13.2@S")


def test_theorem_6_13b_safe_before_the_signal(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.13 (b)]."""
    holds(run, deliveries.safe_b, "EVS-2.14.2@S")


def test_theorem_6_13c_safe_after_the_signal(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.13 (c)]."""
    holds(run, deliveries.safe_c, "EVS-2.14.3@S")


def test_theorem_6_14a_one_signal(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.14 (a)]."""
    holds(run, theorems.signals_a, "EVS-2.8.1@S")


def test_theorem_6_14b_the_same_before_and_after(run: Told) -> None:
    """Reference: [Spread 6.2, Theorem 6.14 (b)]. Holds as written by D-before of the recovery, not by Figure 6.13."""
    holds(run, theorems.signals_b, "EVS-2.8.2@S")
    sides = {each.after_signal for stay in run.daemons.stays for each in stay.deliveries if each.service.is_agreed}
    assert sides == {False, True}


def test_cascades_violate_nothing_else() -> None:
    """Reference: [Spread 6.1.10], the commit set: changes that break each other off."""
    run = told_of_cascades()
    assert not run.report.violations
    begun = {row.entry.network for row in run.rows if isinstance(row.entry, NetworkStarted)}
    installed = {str(stay.view) for stay in run.daemons.stays}
    assert len(begun - installed) >= 1, "an attempt that was installed nowhere"


# --- 6.3: the cost of a change -------------------------------------------------------------------------------------


class Cost:
    """Counts the messages of the membership, by daemon; ALIVE and JOIN in rounds, whatever the number of receivers."""

    def __init__(self) -> None:
        self.rounds: Counter[tuple[str, str]] = Counter()
        self.newmembs: Counter[tuple[str, str]] = Counter()
        self.answers = 0  # NEWMEMB to somebody whose JOIN crossed it [Figure 6.13, line 10]

    def __call__(self, stack: Stack, event: Event, actions: Sequence[Action]) -> None:
        name, state = stack.me.name, stack.membership.state
        said = datagrams(stack, actions)
        if state is State.SEG and any(isinstance(each, MulticastDatagrams) for each in actions):
            self.rounds[name, "ALIVE"] += 1
        if state is State.GATHER and any(isinstance(message, Join) for message, _ in said):
            self.rounds[name, "JOIN"] += 1
        newmembs = [address for message, address in said if isinstance(message, NewMemb)]
        if isinstance(event, DatagramsReceived):
            self.answers += len(newmembs)
        else:
            self.newmembs.update((name, address) for address in newmembs)


MISSING = 3


def test_6_3_message_counts() -> None:
    """Reference: [Spread 6.3].

    The thesis: N_a ALIVE, N_j JOIN, 1 NEWMEMB, N_s STATETRANS, N_m resent messages, and the usual ARU_UPDATEs. Ours:
    ALIVE of each daemon once per ``alive_us`` of SEG; JOIN of each representative once per ``join_us`` of GATHER;
    NEWMEMB once to each other member, and once more to whose JOIN crosses it; one STATETRANS of each member; each
    missing message once, whoever lacks it; and, instead of waiting for a line, one RECOVERED of each member (D-done).
    """
    cost = Cost()
    sites = {"a": "x", "b": "x", "c": "y", "d": "z"}
    cluster = FullCluster(*sites, sites=sites, settings=recorded(), spy=cost)
    for node, client in (("a", "alice"), ("c", "carol"), ("d", "dave")):
        cluster.join(node, client, "chat")
    assert cluster.run_until_quiet()
    cluster.cut("d", "c")
    for turn in range(MISSING):
        cluster.send("d", "dave", "chat", f"for a and b alone {turn}", service=Service.RELIABLE)
        cluster.run_for(3)
    cluster.run_for(10)
    before, sent = len(cluster.rows), cluster.world.now
    cost.rounds.clear()
    cost.newmembs.clear()
    cluster.partition("abc", "d")  # and not a crash: nobody waits for who is gone (D-early)
    assert cluster.run_until_quiet()
    assert cluster.messages("c", "carol")[-MISSING:] == cluster.messages("a", "alice")[-MISSING:], "nothing is lost"
    settings = recorded().membership
    alive = -(-settings.segment_us // settings.alive_us)
    rounds = {(name, kind): count for (name, kind), count in cost.rounds.items() if name != "d"}
    assert {name: count for (name, kind), count in rounds.items() if kind == "ALIVE"} == dict.fromkeys("abc", alive)
    joins = {name: count for (name, kind), count in rounds.items() if kind == "JOIN"}
    assert joins.keys() == {"a", "c"}, "b is represented"
    assert all(1 <= count <= settings.gather_max_us // settings.join_us for count in joins.values())
    assert cost.newmembs == {("a", "b.1"): 1, ("a", "c.1"): 1}
    units = Counter(
        str(row.entry.daemon)
        for row in cluster.rows[before:]
        if isinstance(row.entry, NetworkSent)
        and row.at > sent
        and row.entry.network == str(cluster.stack("a").membership.view)
    )
    assert units == {"a#1": 2 + MISSING, "b#1": 2, "c#1": 2}, (
        "STATETRANS and RECOVERED; the lowest that has them resends"
    )


def test_6_3_a_merge_costs_no_more() -> None:
    """Reference: [Spread 6.3]. Nothing is lost, so nothing is resent, and nobody is in SEG: 1 NEWMEMB, 2 N_s units."""
    cost = Cost()
    cluster = FullCluster("a", "b", "c", sites={"a": "x", "b": "y", "c": "z"}, settings=recorded(), spy=cost)
    cluster.partition("ab", "c")
    assert cluster.run_until_quiet()
    cost.rounds.clear()
    cost.newmembs.clear()
    cluster.heal()
    assert cluster.run_until_quiet()
    assert cost.newmembs == {("a", "b.1"): 1, ("a", "c.1"): 1}
    assert cost.answers <= 1
    assert not [kind for _, kind in cost.rounds if kind == "ALIVE"]
    view = str(cluster.stack("a").membership.view)
    units = Counter(
        row.entry.daemon for row in cluster.rows if isinstance(row.entry, NetworkSent) and row.entry.network == view
    )
    assert units == dict.fromkeys(("a#1", "b#1", "c#1"), 3), "STATETRANS, RECOVERED, and GROUPS"
