"""Why there is no primary component, why a message is not green, which failures stop a cluster."""

from __future__ import annotations

from isotone.corel.events import ReconfigurationWanted
from isotone.corel.explain import why_no_primary, why_not_green
from isotone.corel.message import Origin
from isotone.corel.quorum import DynamicVoting, History, Majority, Monarch, Primary, stopping_failures
from tests.corel.cluster import Cluster, joined

FIVE = tuple("abcde")


def test_no_session() -> None:
    assert "no session" in why_no_primary(Cluster("a", "b", "c")["a"].replica)


def test_no_quorum_names_who_is_away() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.view("b")
    cluster.run()
    assert why_no_primary(cluster["b"].replica) == (
        "No quorum: b are here, a, c are not; needed: more than half of 3 servers. It waits for a, or c."
    )


def test_dynamic_voting_names_what_is_counted_against() -> None:
    cluster = joined("a", "b", "c", quorum=DynamicVoting(1))
    cluster.view("c")
    cluster.run("c")
    assert "counted against primary 1 (a, b, c)" in why_no_primary(cluster["c"].replica)


def test_an_exchange_names_whom_it_waits_for() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.view("a", "b", "c")
    cluster.step("a", 2)
    assert "now: exchange; awaited: c." in why_no_primary(cluster["a"].replica)
    cluster.step("a")
    cluster.step("a")
    for name in "bc":
        cluster.step(name, 3)
    cluster.step("a")
    assert "now: attempt; awaited: c." in why_no_primary(cluster["a"].replica)
    cluster.signal("a")
    assert "in transition" in why_no_primary(cluster["a"].replica)


def test_a_message_names_who_has_not_acknowledged_it() -> None:
    cluster = joined("a", "b", "c")
    assert why_no_primary(cluster["a"].replica) == ""
    cluster.append("a", b"x")
    name = (Origin("a", 1), 1)
    assert why_not_green(cluster["a"].replica, name) == "a does not have a.1:1."
    cluster.hold_disk("c")
    cluster.run()
    assert why_not_green(cluster["a"].replica, name) == "a.1:1 stands at place 1; not yet acknowledged by c."
    cluster.signal("a")
    assert "stands at place 1. The view is in transition" in why_not_green(cluster["a"].replica, name)
    cluster.release_disk("c")
    cluster.view("a", "b", "c")
    cluster.run()
    assert why_not_green(cluster["a"].replica, name) == ""


def test_failures_that_stop_a_cluster() -> None:
    nothing = History(Primary(0, FIVE))
    assert {len(lost) for lost in stopping_failures(Majority(FIVE), FIVE, nothing)} == {3}
    assert stopping_failures(Monarch("c"), FIVE, nothing) == [("c",)]
    assert stopping_failures(Majority(("a",)), ("a",), nothing) == [("a",)]
    shrunk = History(Primary(4, ("d", "e")))
    assert stopping_failures(DynamicVoting(1), FIVE, shrunk) == [("d",)]


def test_what_stands_behind_a_reconfiguration_without_a_quorum_of_the_new_set() -> None:
    """All members acknowledged it, and that is not why it waits."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("b", b"behind it")
    cluster.run("a", "b")
    replica = cluster["b"].replica
    assert replica.flow.is_primary
    for message in replica.ledger.queue.between(replica.ledger.queue.green, replica.ledger.queue.end):
        assert "no quorum of the new set" in why_not_green(replica, message.name)
