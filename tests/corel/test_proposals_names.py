"""What stands in an order proposal: all that is yellow at the source, or nothing; and nothing from a change on."""

from __future__ import annotations

import pytest

from isotone.corel import proposals
from isotone.corel.events import ReconfigurationWanted
from isotone.corel.proposal import Proposal
from tests.corel.cluster import Cluster
from tests.corel.test_proposals import FIVE, five, meet, propose
from tests.corel.test_proposals_votes import with_learner


def ahead(cluster: Cluster) -> Cluster:
    """All have two messages of the primary component yellow, and f alone, a learner, hears that all have them."""
    for name in (*FIVE, "f"):
        cluster.step(name, 2)
    cluster.step("f", cluster.waiting("f"))
    meet(cluster, "f")
    assert [cluster[name].lines for name in "af"] == [(0, 2, 2), (2, 2, 2)]
    return cluster


def proposed(cluster: Cluster, *pairs: str) -> Proposal | None:
    """What a proposes where it meets b, and takes to others with these pairs."""
    meet(cluster, "a", "b")
    propose(cluster)
    for pair in pairs:
        meet(cluster, *pair)
    return cluster["a"].replica.ledger.proposal


def test_with_a_yellow_reconfiguration_nothing_is_proposed() -> None:
    """Green at f, which it adds: servers that had ordered what stands before it would have it red, and reorder it."""
    cluster = with_learner()
    cluster.append("b", b"first")
    cluster.tell("a", ReconfigurationWanted(0, 1, add="f"))
    assert proposed(ahead(cluster), "bc", "cd", "de") is None
    meet(cluster, "e", "f")
    assert cluster["e"].configurations == [(*FIVE, "f")] and cluster["e"].green == [b"first"]
    meet(cluster, *FIVE, "f")
    assert cluster["a"].green == [b"first"] and not cluster.report().violations


def test_a_proposal_is_as_long_as_what_is_yellow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the second one, green at f, would be red at whoever applied the first."""
    monkeypatch.setattr(proposals, "PROPOSED_MAX", 1)
    cluster = with_learner()
    cluster.append("b", b"first")
    cluster.append("a", b"second")
    made = proposed(ahead(cluster), "bc", "cd", "de")
    assert made is not None and (len(made.names), made.yellow) == (2, 2)
    assert cluster["e"].replica.ledger.level == (made.committed, 1)
    meet(cluster, "c", "d", "e")
    meet(cluster, "e", "f")
    assert cluster["c"].green == cluster["f"].green == [b"first", b"second"] and not cluster.report().violations


def test_too_many_yellow_ones_are_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = with_learner()
    cluster.append("b", b"first")
    cluster.append("a", b"second")
    monkeypatch.setattr(proposals, "YELLOW_MAX", 1)
    assert proposed(ahead(cluster)) is None
    monkeypatch.setattr(proposals, "YELLOW_MAX", 2)
    assert proposed(cluster) is not None


def test_of_the_red_ones_only_the_first_are_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "PROPOSED_MAX", 1)
    cluster = five()
    meet(cluster, "a", "b")
    cluster.append("a", b"1")
    cluster.append("b", b"2")
    cluster.run("a", "b")
    first = proposed(cluster, "bc", "cd", "de", "ae")
    assert first is not None and (len(first.names), first.yellow) == (1, 0) and cluster["a"].green == [b"1"]
    second = proposed(cluster, "bc", "cd", "de")
    assert second is not None and (second.after, len(second.names)) == (1, 1) and cluster["e"].green == [b"1", b"2"]
    assert not cluster.report().violations
