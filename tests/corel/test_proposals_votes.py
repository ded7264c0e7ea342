"""A vote on an order proposal: given once, by the servers that are asked and by nobody else, and it stands."""

from __future__ import annotations

import pytest

from isotone.corel.configuration import Configuration
from isotone.corel.events import ReconfigurationWanted
from isotone.corel.proposal import is_asked, stands
from isotone.trace import corel as trace
from tests.corel.cluster import Cluster
from tests.corel.test_proposals import FIVE, five, meet, proposal, propose, propose_beside, queue


def with_learner() -> Cluster:
    """Five servers, and f, which caught up and is none."""
    cluster = five()
    cluster.view(*FIVE)
    cluster.run()
    cluster.join("f")
    cluster.view(*FIVE, "f")
    cluster.settle()
    return cluster


def with_removed() -> Cluster:
    """Of six servers f was removed; it takes part until it knows that all others know it."""
    six = (*FIVE, "f")
    cluster = Cluster(*six, proposals=True)
    cluster.view(*six)
    cluster.run()
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="f"))
    cluster.run()
    assert cluster["f"].replica.flow.is_retired and cluster["f"].replica.flow.is_primary
    return cluster


def lag_behind(cluster: Cluster) -> Cluster:
    """b's message, then a's, reach all but f in the primary component; a's is the older one by its timestamp."""
    cluster.append("b", b"first")
    cluster.append("a", b"second")
    for name in FIVE:
        cluster.step(name, 2)
    meet(cluster, "f")
    assert cluster["a"].lines[1] == cluster["f"].lines[1] + 2
    return cluster


def spread_to_all(cluster: Cluster) -> None:
    """Pairs of servers meet; only d and e learn that all accepted, and apply it."""
    meet(cluster, "a", "b")
    propose(cluster)
    for pair in ("bc", "cd", "de"):
        meet(cluster, *pair)
    assert [cluster[name].green[-2:] for name in "de"] == [[b"first", b"second"]] * 2
    assert [cluster[name].replica.ledger.applied for name in FIVE] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("begin", [with_learner, with_removed], ids=["a learner", "a removed server"])
def test_what_was_accepted_stands_when_one_that_lags_makes_the_yellow_line_retreat(begin: object) -> None:
    """f has neither message, and the same last primary: they are red in the next one, and in the proposed order."""
    cluster = lag_behind(begin())  # type: ignore[operator]
    spread_to_all(cluster)
    meet(cluster, "a", "b", "c", "f")
    assert cluster["c"].replica.flow.is_primary and cluster["f"].replica.flow.is_primary
    assert [cluster[name].green[-2:] for name in "abcf"] == [[b"first", b"second"]] * 4
    meet(cluster, *FIVE)
    assert not cluster.report().violations


def test_who_accepted_applies_behind_a_yellow_line_that_retreated() -> None:
    cluster = lag_behind(with_learner())
    spread_to_all(cluster)
    meet(cluster, "c", "f")
    assert cluster["c"].lines == (0, 0, 2)
    known = cluster["e"].replica.ledger.proposal
    assert known is not None and known.is_accepted(FIVE)
    cluster["c"].replica.proposals.learn(known)
    meet(cluster, "c")
    assert cluster["c"].green == [b"first", b"second"] and not cluster.report().violations


def test_a_learner_is_not_asked_and_applies_what_all_servers_accepted() -> None:
    cluster = lag_behind(with_learner())
    meet(cluster, "a", "b", "f")  # no quorum: what is yellow retreats before the source proposes
    propose(cluster)
    made = cluster["f"].replica.ledger.proposal
    assert made is not None and made.accepted == ("a", "b") and not made.rejected
    for pair in ("bc", "cd", "de", "ef"):
        meet(cluster, *pair)
    assert cluster["f"].green == cluster["e"].green == [b"second", b"first"]
    assert not [row for row in cluster.rows if isinstance(row.entry, trace.Voted) and row.entry.server == "f"]
    meet(cluster, "a", "b", "c")
    assert cluster["a"].green == [b"second", b"first"] and not cluster.report().violations


def test_a_learner_that_lags_does_not_kill_a_proposal() -> None:
    """It has red what is yellow at the source: for a server that is a reason to reject."""
    cluster = lag_behind(with_learner())
    spread_to_all(cluster)
    meet(cluster, "a", "f")
    made = cluster["a"].replica.ledger.proposal
    assert made is not None and not made.rejected
    propose(cluster)
    assert cluster["a"].replica.ledger.proposal == made
    meet(cluster, "a", "b", "c")
    assert cluster["a"].green == [b"first", b"second"] and not cluster.report().violations


# --- the setting ----------------------------------------------------------------------------------------------------


def accepted_by_all() -> Cluster:
    """d has an older message of its own, which is not proposed; only d and e learn that all accepted, and apply it."""
    cluster = propose_beside("d", b"first", b"second")
    for pair in ("bc", "ce", "bd", "de"):
        meet(cluster, *pair)
    assert [cluster[name].replica.ledger.applied for name in FIVE] == [0, 0, 0, 1, 1]
    return cluster


@pytest.mark.parametrize("restarted", ["a", "c", "abc"])
def test_a_vote_stands_when_proposals_are_turned_off(restarted: str) -> None:
    cluster = accepted_by_all()
    cluster.configure(proposals=False)
    for name in restarted:
        cluster.restart(name)
    meet(cluster, "a", "b", "c")
    assert cluster["b"].green == [b"first", b"second", b"older"] and not cluster.report().violations


def test_who_has_proposals_off_gives_no_new_votes_and_applies_what_all_accepted() -> None:
    cluster = five()
    cluster.configure(proposals=False)
    cluster.restart("e")
    meet(cluster, "a", "b")
    cluster.append("a", b"1")
    cluster.run("a", "b")
    propose(cluster)
    for pair in ("bc", "cd", "de"):
        meet(cluster, *pair)
    known = cluster["e"].replica.ledger.proposal
    assert known is not None and known.accepted == ("a", "b", "c", "d") and not known.rejected
    cluster.configure(proposals=True)
    cluster.restart("e")
    meet(cluster, "e")
    assert cluster["e"].green == [b"1"]
    cluster.configure(proposals=False)
    cluster.restart("d")
    meet(cluster, "d", "e")
    assert cluster["d"].green == [b"1"] and not cluster.report().violations


def test_with_proposals_off_the_source_proposes_nothing() -> None:
    cluster = Cluster(*FIVE)
    meet(cluster, "a", "b")
    cluster.append("a", b"1")
    cluster.run("a", "b")
    propose(cluster)
    assert cluster["a"].replica.ledger.proposal is None


def accepted_by_all_but_c() -> Cluster:
    """c has an older message, and proposals off."""
    cluster = five()
    cluster.configure(proposals=False)
    cluster.restart("c")
    propose_beside("c", b"first", b"second", cluster=cluster)
    for pair in ("bd", "de"):
        meet(cluster, *pair)
    made = cluster["e"].replica.ledger.proposal
    assert made is not None and made.accepted == ("a", "b", "d", "e")
    return cluster


def test_who_attempts_a_primary_and_has_no_vote_to_give_rejects_for_good() -> None:
    """c has not voted when the others commit; it must not accept later what they did not order."""
    cluster = accepted_by_all_but_c()
    cluster.view("a", "b", "c")
    while cluster["a"].standing != "commit":
        for name in "abc":
            if cluster.waiting(name) and cluster[name].standing not in {"attempt", "commit"}:
                cluster.step(name)
        if {cluster[name].standing for name in "abc"} == {"attempt"}:
            cluster.step("a", cluster.waiting("a"))
    assert cluster["c"].standing == "attempt"
    cluster.configure(proposals=True)
    cluster.restart("c")
    made = cluster["c"].replica.ledger.proposal
    assert made is not None and made.rejected == ("c",)
    meet(cluster, "c", "d")
    assert cluster["c"].green == cluster["d"].green == []
    meet(cluster, "a", "c", "d")
    meet(cluster, *FIVE)
    assert cluster["e"].green == [b"first", b"older", b"second"] and not cluster.report().violations


# --- by themselves --------------------------------------------------------------------------------------------------


def test_who_is_asked() -> None:
    configuration = Configuration(3, ("a", "b"), b"")
    made = proposal(configuration=3)
    assert is_asked("a", made, configuration) and not is_asked("f", made, configuration)
    assert not is_asked("a", proposal(configuration=2), configuration)
    assert not is_asked("a", proposal(configuration=4), configuration)


def test_what_makes_a_proposal_stand() -> None:
    """Everything that a vote asks for, but for the colours."""
    made = proposal(yellow=1)
    assert stands(made, queue(), (2, 0))
    assert not stands(made, queue(), (3, 0)) and not stands(made, queue(), (2, 1)) and not stands(made, queue(), (1, 0))
    assert not stands(proposal(rejected=("e",)), queue(), (2, 0))
    assert not stands(proposal(configuration=1), queue(), (2, 0))
    assert not stands(proposal(names=(*made.names, (made.names[0][0], 2))), queue(), (2, 0))
    assert not stands(proposal(after=1), queue(), (2, 0))
