"""Order proposals and what befalls a server between its vote and the end: a fence, a lost disk, a checkpoint."""

from __future__ import annotations

import pytest

from isotone.core.contract import TimerFired
from isotone.corel.proposals import PROPOSE
from isotone.corel.quorum import Majority
from tests.corel.cluster import Cluster
from tests.corel.test_proposals import FIVE, meet, propose, propose_beside
from tests.corel.test_recover import force

FOUNDERS = tuple("bcdef")


def proposed(cluster: Cluster, source: str, *pairs: str) -> None:
    """The source's time has come; then these pairs meet."""
    cluster.tell(source, TimerFired(0, PROPOSE))
    cluster.run(*cluster[source].replica.session.servers)
    for pair in pairs:
        meet(cluster, *pair)


def two_applied() -> Cluster:
    """b, e and f applied two proposals of b; the learners a and x have a message of them red, and heard of no other."""
    cluster = Cluster(*FOUNDERS, quorum=Majority(FOUNDERS), proposals=True)
    cluster.view(*FOUNDERS)
    cluster.run()
    cluster.join("a")
    cluster.join("x")
    cluster.view(*FOUNDERS, "a", "x")
    cluster.settle()
    meet(cluster, "a", "b", "x")
    cluster.append("b", b"0")
    cluster.run("a", "b", "x")
    for record in (b"1", b"2"):
        meet(cluster, "b", "c")
        cluster.append("b", record)
        cluster.run("b", "c")
        proposed(cluster, "b", "cd", "de", "ef", "bf")
    assert cluster["f"].green == [b"0", b"1", b"2"] and cluster["a"].replica.ledger.proposal is None
    return cluster


def test_a_source_that_knew_of_no_proposal_goes_on_above_those_that_were_applied() -> None:
    """a and x, servers since the fence, begin at 1; f knows of 2, rejects, and the next is the third."""
    cluster = two_applied()
    epoch, applied = cluster["f"].replica.ledger.level
    force(cluster, "a", "f", "x")
    meet(cluster, "a", "x")
    cluster.append("a", b"3")
    cluster.run("a", "x")
    proposed(cluster, "a", "fx", "ax")
    first = cluster["a"].replica.ledger.proposal
    assert first is not None and (first.number, first.applied, first.rejected) == (1, 0, ("f",))
    assert cluster["a"].replica.ledger.level == (epoch, applied) == (epoch, 2)
    proposed(cluster, "a", "fx")
    second = cluster["f"].replica.ledger.proposal
    assert second is not None and (second.number, second.applied) == (3, 2)
    assert cluster["x"].replica.ledger.level == (epoch, 3) and cluster["x"].green == [b"0", b"1", b"2", b"3"]
    meet(cluster, "a", "f")
    meet(cluster, "a", "f", "x")
    assert cluster["a"].replica.flow.is_primary and cluster["a"].green == [b"0", b"1", b"2", b"3"]
    assert not cluster.report().violations


@pytest.mark.parametrize(
    ("survivors", "order"), [("bce", [b"1", b"2", b"older"]), ("bc", [b"1", b"older", b"2"])], ids=["e", "none"]
)
def test_behind_a_fence_what_was_applied_stays_and_votes_count_for_nothing(survivors: str, order: list[bytes]) -> None:
    """All accepted, and d and e applied it; b and c do not know that."""
    cluster = propose_beside("c", b"1", b"2")
    for pair in ("bc", "cd", "de"):
        meet(cluster, *pair)
    assert [cluster[name].replica.ledger.applied for name in FIVE] == [0, 0, 0, 1, 1]
    force(cluster, *survivors)
    meet(cluster, *survivors)
    assert cluster["b"].replica.flow.is_primary and cluster["b"].green == order and not cluster.report().violations


def test_a_stranger_does_not_take_back_a_vote_that_its_lost_disk_gave() -> None:
    """c accepted and lost its disk: it is in no primary any more, so what it promised holds; others may apply."""
    cluster = propose_beside("d", b"1", b"2")
    meet(cluster, "b", "c")
    cluster.lose_disk("c")
    meet(cluster, "b", "c")
    assert cluster["c"].standing == "stranger" and cluster["c"].replica.ledger.proposal is None
    for pair in ("bd", "de"):
        meet(cluster, *pair)
    assert cluster["e"].green == [b"1", b"2"]
    meet(cluster, "a", "b", "c", "d")
    assert cluster["b"].replica.flow.is_primary and cluster["b"].green == [b"1", b"2", b"older"]
    assert not cluster.report().violations


def test_a_checkpoint_keeps_the_vote() -> None:
    cluster = Cluster(*FIVE, quorum=Majority(FIVE), proposals=True, checkpoint_records=1)
    cluster.view(*FIVE)
    cluster.run()
    for number in range(4):
        cluster.append("a", b"%d" % number)
        cluster.settle()
    meet(cluster, "d")
    cluster.append("d", b"older")
    cluster.run("d")
    meet(cluster, "a", "b")
    for record in (b"first", b"second"):
        cluster.append("a", record)
        cluster.run("a", "b")
    propose(cluster)
    for pair in ("bc", "ce", "bd", "de"):
        meet(cluster, *pair)
    first, proposal = cluster["b"].first, cluster["b"].replica.ledger.proposal
    assert first > 1 and proposal is not None and "b" in proposal.accepted
    for name in FIVE:
        cluster.restart(name)
    assert cluster["b"].replica.ledger.proposal == proposal
    assert cluster["e"].replica.ledger.level[1] == 1
    meet(cluster, "a", "b", "c")
    assert cluster["b"].green[-3:] == [b"first", b"second", b"older"] and not cluster.report().violations
