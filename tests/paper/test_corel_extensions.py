"""The thesis on order proposals and dynamic voting, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Proposal, Vote, merged_proposal, vote_on
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import DynamicVoting, History, Majority, Primary, is_sub_quorum
from isotone.corel.wire import CODEC, State
from isotone.trace import corel as trace
from tests.corel.cluster import Cluster
from tests.corel.test_proposals import FIVE, five, meet, propose, propose_beside, spread

A, B = Origin("a", 1), Origin("b", 1)
NAMES = ((A, 1), (B, 1))


def subsets(servers: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(len(servers) + 1):
        yield from combinations(servers, size)


# --- [COReL 7.1] order proposals --------------------------------------------------------------------------------------


def queue(yellow: int = 0) -> MessageQueue:
    found = MessageQueue()
    found.append([Message(A, 1, 1, (b"1",)), Message(B, 1, 2, (b"2",))][:yellow], yellow=True)
    found.append([Message(A, 1, 1, (b"1",)), Message(B, 1, 2, (b"2",))][yellow:], yellow=False)
    return found


def proposal(number: int = 1, committed: int = 3, yellow: int = 0, **votes: tuple[str, ...]) -> Proposal:
    return Proposal(number, 0, committed, 0, 0, yellow, NAMES, **votes)


def test_a_proposal_is_initiated_outside_of_a_quorum_and_one_at_a_time() -> None:
    """Reference: [COReL 7.1.1]."""
    cluster = five()
    meet(cluster, "a", "b", "c")
    cluster.append("a", b"in a quorum")
    cluster.run("a", "b", "c")
    propose(cluster)
    assert cluster["a"].replica.ledger.proposal is None
    meet(cluster, "a", "b")
    for record in (b"1", b"2"):
        cluster.append("a", record)
        cluster.run("a", "b")
        propose(cluster)
    made = cluster["a"].replica.ledger.proposal
    assert made is not None and made.number == 1 and len(made.names) == 1


def test_what_a_proposal_holds() -> None:
    """Reference: [COReL 7.1.2]: id, last committed primary, order and yellow ones, cut, green line, votes."""
    cluster = five()
    meet(cluster, "a", "b", "c")
    cluster.append("a", b"green")
    cluster.run("a", "b", "c")
    meet(cluster, "a", "b")
    cluster.append("b", b"red")
    cluster.run("a", "b")
    propose(cluster)
    made = cluster["a"].replica.ledger.proposal
    assert made is not None
    assert (made.number, made.committed, made.after, made.yellow, made.names) == (1, 1, 1, 0, ((B, 1),))
    assert made.accepted == ("a", "b") and not made.rejected


def test_step_1_the_same_proposal_gathers_votes() -> None:
    """Reference: [COReL 7.1.3, 1]: and one reject is a reject."""
    known = merged_proposal(proposal(accepted=("a",)), proposal(accepted=("b",)))
    assert known == proposal(accepted=("a", "b"))
    rejected = merged_proposal(known, proposal(rejected=("c",)))
    assert rejected is not None and vote_on(rejected, queue(), (3, 0)) is Vote.REJECT
    assert not rejected.is_accepted(("a", "b"))


def test_step_1_a_later_proposal_annuls_the_last() -> None:
    """Reference: [COReL 7.1.3, 1], "annulling any previous commitment"."""
    later = proposal(number=2)
    assert merged_proposal(proposal(accepted=("a", "b")), later) == merged_proposal(later, proposal()) == later


@pytest.mark.parametrize(
    ("told", "own_yellow", "committed", "vote"),
    [
        (proposal(), 0, 3, Vote.ACCEPT),
        (proposal(yellow=1), 1, 3, Vote.ACCEPT),
        (proposal(), 0, 4, Vote.REJECT),  # a later primary is known here
        (proposal(yellow=1), 0, 3, Vote.REJECT),  # it has yellow what is red here
        (proposal(rejected=("b",)), 0, 3, Vote.REJECT),
    ],
)
def test_step_1_accept_or_reject(told: Proposal, own_yellow: int, committed: int, vote: Vote) -> None:
    """Reference: [COReL 7.1.3, 1], the three reasons to reject."""
    assert vote_on(told, queue(own_yellow), (committed, 0)) is vote


def test_step_2_accepted_by_all_is_green_in_the_proposed_order() -> None:
    """Reference: [COReL 7.1.3, 2]."""
    cluster = spread()
    meet(cluster, "d", "e")
    assert cluster["e"].green == [b"1", b"2"] and cluster["a"].green == []
    assert not [row for row in cluster.rows if isinstance(row.entry, trace.PrimaryEstablished)]


def test_the_last_proposal_travels_with_the_state() -> None:
    """Reference: [COReL 7.1.4], at Step 1 of the recovery."""
    cluster = spread()
    cluster.view("b", "c")
    order = cluster.sent[cluster["b"].replica.session.view]
    states = [CODEC.decode(bytes(message.bundle.payload)) for _, message in order]
    assert len(states) == 2
    assert all(
        isinstance(state, State) and state.proposal is not None and state.proposal.number == 1 for state in states
    )


@pytest.mark.parametrize(
    ("told", "committed"), [(proposal(committed=4), 3), (Proposal(1, 0, 3, 0, 0, 0, (*NAMES, (B, 2))), 3)]
)
def test_a_vote_is_deferred_by_who_does_not_know_enough(told: Proposal, committed: int) -> None:
    """Reference: [COReL 7.1.4]: a primary that it does not know of, or a message that it lacks."""
    assert vote_on(told, queue(), (committed, 0)) is Vote.LATER


def test_all_vote_with_the_attempt_and_a_primary_orders_as_proposed_when_it_is_established() -> None:
    """Reference: [COReL 7.1.4]: yellow with the commit, green with the establishment, in the proposed order."""
    cluster = propose_beside("c", b"1", b"2")
    cluster.view("a", "b", "c")
    while cluster["c"].standing != "commit":
        for name in "abc":
            if cluster.waiting(name) and cluster[name].standing != "commit":
                cluster.step(name)
    assert cluster["c"].lines == (0, 3, 3) and cluster["c"].queue == ["a.1:1", "a.1:2", "c.1:1"]
    cluster.run("a", "b", "c")
    assert cluster["c"].green == [b"1", b"2", b"older"] and not cluster.report().violations


# --- [COReL 7.2] dynamic voting ---------------------------------------------------------------------------------------


def test_of_two_disjoint_sets_at_most_one_is_a_sub_quorum() -> None:
    """Reference: [COReL 7.2.1], the first requirement."""
    for previous in subsets(FIVE):
        for part in subsets(previous):
            rest = frozenset(previous) - set(part)
            assert not (is_sub_quorum(previous, frozenset(part)) and is_sub_quorum(previous, rest))


def test_fewer_than_the_minimum_are_never_a_quorum() -> None:
    """Reference: [COReL 7.2.1], the second requirement."""
    rule = DynamicVoting(3)
    for previous, members in product(subsets(FIVE), subsets(FIVE)):
        assert len(members) >= 3 or not rule.holds(frozenset(members), History(Primary(1, previous)))


def test_a_primary_asks_the_last_and_every_pending_one() -> None:
    """Reference: [COReL 7.2.2], both conditions."""
    history = History(Primary(1, ("a", "b", "c")), (Primary(2, ("b", "c")), Primary(3, ("c", "d", "e"))))
    rule = DynamicVoting(1)
    assert rule.holds(frozenset("bcd"), history)
    assert not rule.holds(frozenset("ade"), history)  # no sub-quorum of the last
    assert not rule.holds(frozenset("abc"), history)  # nor of the third
    assert not rule.holds(frozenset("acde"), history)  # nor of the second: half of it, without its first


def test_who_committed_and_did_not_establish_keeps_both() -> None:
    """Reference: [COReL 7.2.2], Pending_Committed; and the next primary's members agree on what is pending."""
    cluster = Cluster(*"abc", quorum=DynamicVoting(1))
    cluster.view(*"abc")
    while cluster["a"].standing != "commit":
        for name in "abc":
            if cluster.waiting(name) and cluster[name].standing != "commit":
                cluster.step(name)
    history = cluster["a"].replica.ledger.history
    assert (history.last.number, [each.number for each in history.pending]) == (0, [1])
    cluster.view("a", "b")
    cluster.run("a", "b")
    histories = [cluster[name].replica.ledger.history for name in "ab"]
    assert histories == [History(Primary(2, ("a", "b")))] * 2
    cluster.view("c")
    cluster.run("c")
    assert cluster["c"].standing == "regular" and not cluster["c"].replica.flow.is_primary


def test_a_majority_is_a_private_case_of_dynamic_voting() -> None:
    """Reference: [COReL 7.2], with more than half as the minimum, as DESIGN 6 corrects it: every two quorums meet."""
    static, dynamic = Majority(FIVE), DynamicVoting(len(FIVE) // 2 + 1)
    for previous, members in product(subsets(FIVE), subsets(FIVE)):
        if dynamic.holds(frozenset(members), History(Primary(1, previous))):
            assert static.holds(frozenset(members), History(Primary(1, previous)))
