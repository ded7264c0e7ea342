"""Order proposals: messages become green without a primary component, and a primary that comes respects them."""

from __future__ import annotations

import pytest

from isotone.core.contract import TimerFired
from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Proposal, Vote, merged_proposal, vote_on
from isotone.corel.proposals import PROPOSE
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import Majority
from isotone.trace import corel as trace
from tests.corel.cluster import Cluster

A, B = Origin("a", 1), Origin("b", 1)
FIVE = tuple("abcde")


def five() -> Cluster:
    return Cluster(*FIVE, quorum=Majority(FIVE), proposals=True)


def meet(cluster: Cluster, *names: str) -> None:
    """These meet, say what they have, and vote."""
    cluster.view(*names)
    cluster.run(*names)


def propose(cluster: Cluster) -> None:
    """The source's time has come."""
    cluster.tell("a", TimerFired(0, PROPOSE))
    cluster.run(*cluster["a"].replica.session.servers)


def propose_beside(older: str, *records: bytes, cluster: Cluster | None = None) -> Cluster:
    """This server has an older message of its own, alone; then a proposes these records to b."""
    cluster = cluster or five()
    meet(cluster, older)
    cluster.append(older, b"older")
    cluster.run(older)
    meet(cluster, "a", "b")
    for record in records:
        cluster.append("a", record)
        cluster.run("a", "b")
    propose(cluster)
    return cluster


def spread() -> Cluster:
    """a proposed; b, c and d accepted in pairs; e has not heard of it."""
    cluster = five()
    meet(cluster, "a", "b")
    cluster.append("a", b"1")
    cluster.append("b", b"2")
    cluster.run("a", "b")
    propose(cluster)
    meet(cluster, "b", "c")
    meet(cluster, "c", "d")
    return cluster


def test_all_servers_accept_and_no_quorum_ever_met() -> None:
    """Reference: [COReL 7.1.3]."""
    cluster = spread()
    assert cluster["d"].green == []
    meet(cluster, "d", "e")
    assert cluster["e"].green == cluster["d"].green == [b"1", b"2"]
    meet(cluster, "a", "e")
    assert cluster["a"].green == [b"1", b"2"]
    assert not [row for row in cluster.rows if isinstance(row.entry, trace.PrimaryAttempted)]
    verdicts = cluster.report().verdicts
    assert verdicts["COR-PROPOSAL"].state.value == "holds" and not cluster.report().violations


def test_one_that_accepted_and_does_not_know_orders_the_same_in_a_primary() -> None:
    """Reference: [COReL 7.1.4]: e applied it; b, c and d only know that they accepted."""
    cluster = spread()
    meet(cluster, "d", "e")
    meet(cluster, "b")  # what came later than the proposal stands behind it
    cluster.append("b", b"3")
    meet(cluster, "a", "b", "c")
    cluster.settle()
    assert cluster["c"].replica.flow.is_primary and cluster["c"].green == [b"1", b"2", b"3"]
    meet(cluster, *FIVE)
    assert [cluster[name].green for name in FIVE] == [[b"1", b"2", b"3"]] * 5
    assert not cluster.report().violations


def test_a_primary_whose_members_all_accept_orders_as_proposed() -> None:
    """Reference: [COReL 7.1.4]: c's own message is older by its timestamp, and stands behind all the same."""
    cluster = five()
    meet(cluster, "c")
    cluster.append("c", b"c's")
    cluster.run("c")
    meet(cluster, "a", "b")
    cluster.append("a", b"0")
    cluster.run("a", "b")
    cluster.append("a", b"1")
    cluster.append("b", b"2")
    cluster.run("a", "b")
    propose(cluster)
    meet(cluster, "a", "b", "c")
    assert cluster["c"].green == [b"0", b"1", b"2", b"c's"] and not cluster.report().violations


def test_who_knows_of_a_later_primary_rejects() -> None:
    """Reference: [COReL 7.1.1]."""
    cluster = five()
    meet(cluster, "a", "b")
    cluster.append("a", b"1")
    cluster.run("a", "b")
    propose(cluster)
    meet(cluster, "c", "d", "e")
    cluster.append("c", b"2")
    cluster.run("c", "d", "e")
    meet(cluster, "b", "c")
    proposal = cluster["b"].replica.ledger.proposal
    assert proposal is not None and "c" in proposal.rejected
    meet(cluster, *FIVE)
    assert cluster["a"].green == [b"2", b"1"] and not cluster.report().violations


def test_the_source_waits_for_the_outcome() -> None:
    """Reference: [COReL 7.1.1]."""
    cluster = spread()
    meet(cluster, "a")
    cluster.append("a", b"3")
    propose(cluster)
    assert cluster["a"].replica.ledger.proposal.number == 1  # type: ignore[union-attr]
    meet(cluster, "d", "e")
    meet(cluster, "a", "e")
    propose(cluster)
    proposal = cluster["a"].replica.ledger.proposal
    assert proposal is not None and (proposal.number, proposal.applied) == (2, 1)
    meet(cluster, "a", "b")  # that there is a second one says that the first was applied
    assert cluster["b"].green == [b"1", b"2"] and not cluster.report().violations


def test_a_vote_survives_a_restart() -> None:
    cluster = spread()
    cluster.restart("b")
    proposal = cluster["b"].replica.ledger.proposal
    assert proposal is not None and "b" in proposal.accepted
    meet(cluster, "d", "e")
    cluster.restart("e")
    assert cluster["e"].replica.ledger.queue.green == 2
    meet(cluster, *FIVE)
    assert [cluster[name].green[-2:] for name in "abcd"] == [[b"1", b"2"]] * 4


def queue(*, yellow: int = 0) -> MessageQueue:
    found = MessageQueue()
    found.append([Message(A, 1, 1, (b"1",)), Message(B, 1, 2, (b"2",))], yellow=False)
    found.yellow = yellow
    return found


NAMES = ((A, 1), (B, 1))


def proposal(**fields: object) -> Proposal:
    known = {"number": 1, "configuration": 0, "committed": 2, "applied": 0, "after": 0, "yellow": 0, "names": NAMES}
    return Proposal(**(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "yellow", "level", "vote"),
    [
        (proposal(), 0, (2, 0), Vote.ACCEPT),
        (proposal(), 0, (3, 0), Vote.REJECT),
        (proposal(), 0, (2, 1), Vote.REJECT),
        (proposal(), 0, (1, 4), Vote.LATER),
        (proposal(number=2, applied=1), 0, (2, 0), Vote.LATER),
        (proposal(after=3), 0, (2, 0), Vote.LATER),
        (proposal(names=(*NAMES, (B, 2))), 0, (2, 0), Vote.LATER),
        (proposal(rejected=("e",)), 0, (2, 0), Vote.REJECT),
        (proposal(yellow=1), 0, (2, 0), Vote.REJECT),
        (proposal(yellow=1), 1, (2, 0), Vote.ACCEPT),
        (proposal(yellow=1, names=NAMES[::-1]), 1, (2, 0), Vote.REJECT),
        (proposal(names=NAMES[::-1]), 1, (2, 0), Vote.ACCEPT),
    ],
)
def test_votes(made: Proposal, yellow: int, level: tuple[int, int], vote: Vote) -> None:
    """Reference: [COReL 7.1.3, 1] and [COReL 7.1.4]."""
    assert vote_on(made, queue(yellow=yellow), level) is vote


def test_the_later_proposal_counts_and_votes_add_up() -> None:
    one, two = proposal(accepted=("a",)), proposal(number=2)
    assert merged_proposal(one, two) == two == merged_proposal(two, one)
    assert merged_proposal(one, proposal(rejected=("b",))) == proposal(accepted=("a",), rejected=("b",))
    assert merged_proposal(None, one) is one and merged_proposal(one, None) is one
    assert proposal(accepted=("a", "b")).is_accepted(("a", "b")) and not one.is_accepted(("a", "b"))


def test_what_a_proposal_made_green_is_known_to_whoever_caught_up() -> None:
    """x learns from e, which applied it; b only accepted it, and must not be taken for one that knows as much."""
    cluster = Cluster(*FIVE, quorum=Majority(FIVE), proposals=True, snapshots=True)
    meet(cluster, "a", "b")
    cluster.append("a", b"1")
    cluster.append("b", b"2")
    cluster.run("a", "b")
    propose(cluster)
    for pair in ("bc", "cd", "de"):
        meet(cluster, *pair)
    cluster.join("x")
    cluster.view("e", "x")
    cluster.settle()
    assert cluster["x"].green == [b"1", b"2"] and cluster["b"].green == []
    assert cluster["x"].replica.ledger.level == cluster["e"].replica.ledger.level == (0, 1)
    cluster.restart("x")
    meet(cluster, "b", "x")
    assert cluster["b"].green == [b"1", b"2"] and cluster["b"].replica.ledger.level == (0, 1)
    meet(cluster, "a", "b", "c")
    assert cluster["c"].replica.flow.is_primary and cluster["c"].green[:2] == [b"1", b"2"]
    assert not cluster.report().violations
