"""Why there is no primary component, why a message is not green, which failures stop a cluster."""

from __future__ import annotations

from isotone.corel import records as r
from isotone.corel.configuration import Configuration, encode_rule
from isotone.corel.events import ReconfigurationWanted
from isotone.corel.explain import whom_it_waits_for, why_no_primary, why_not_green
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
        "No quorum: b is here, a, c are not; needed: more than half of 3 servers. It waits for a, or c."
    )


def test_dynamic_voting_names_what_is_counted_against() -> None:
    cluster = joined("a", "b", "c", quorum=DynamicVoting(1))
    cluster.view("c")
    cluster.run("c")
    text = why_no_primary(cluster["c"].replica)
    assert "counted against primary 1 (a, b, c). It waits for a, or b, unless they know of a later primary." in text
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.view("b", "c")
    cluster.run("b", "c")
    text = why_no_primary(cluster["b"].replica)
    assert "half with its first server" in text and "counted against primary 2 (a, b)" in text
    assert "It waits for a, unless" in text, "b is half of it, and not its first"


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


# --- strangers, logs that have not begun, fences ---------------------------------------------------------------------


def test_nobody_waits_for_a_stranger() -> None:
    """b is here, without its log: only a makes a quorum with c."""
    cluster = joined("a", "b", "c")
    cluster.lose_disk("b")
    cluster.view("b", "c")
    cluster.run("b", "c")
    assert whom_it_waits_for(cluster["c"].replica) == [("a",)]
    assert "It waits for a. b is here without its log" in why_no_primary(cluster["c"].replica)


def test_a_stranger_that_is_here_does_not_count_for_whom_the_others_wait() -> None:
    cluster = joined(*FIVE)
    cluster.lose_disk("b")
    cluster.view("b", "c")
    cluster.run("b", "c")
    assert whom_it_waits_for(cluster["c"].replica) == [("a", "d"), ("a", "e"), ("d", "e")], "c and two more of a, d, e"
    assert whom_it_waits_for(cluster["b"].replica) == [], "nobody who comes makes it count"


def test_who_has_many_to_wait_for_names_some() -> None:
    cluster = joined(*"abcdefghi")
    cluster.view("a", "b", "c")
    cluster.run("a", "b", "c")
    text = why_no_primary(cluster["a"].replica)
    assert "It waits for d and e, or d and f, " in text and text.endswith("e and g, or e and h, or for others.")
    cluster.view("a", "b", "c", "d")
    cluster.run("a", "b", "c", "d")
    assert why_no_primary(cluster["a"].replica).endswith("It waits for e, or f, or g, or h, or i."), "these are all"


def test_one_server_is_and_several_are() -> None:
    cluster = joined("a", "b", "c", quorum=Monarch("a"))
    cluster.view("b", "c")
    cluster.run("b", "c")
    assert why_no_primary(cluster["c"].replica).startswith("No quorum: b, c are here, a is not; needed: a must be")


def test_a_log_that_has_not_begun_waits_for_all_its_servers() -> None:
    cluster = Cluster(*FIVE, met=False)
    cluster.view("a", "b", "c")
    cluster.run("a", "b", "c")
    assert whom_it_waits_for(cluster["a"].replica) == [("d", "e")]
    assert "missing: d, e." in why_no_primary(cluster["a"].replica)
    cluster.view(*FIVE)
    cluster.run()
    cluster.view("a", "b")
    cluster.run("a", "b")
    assert whom_it_waits_for(cluster["a"].replica) == [("c",), ("d",), ("e",)]


def fenced(*servers: str) -> Cluster:
    """a and b are behind a fence, as the logs of these servers, and c is not."""
    cluster = joined("a", "b", "c")
    forced = r.encode_record(r.Forced(7, Configuration(1, servers, encode_rule(Majority(servers)))))
    for name in "ab":
        cluster.restart(name, [*cluster[name].log, forced])
    cluster.view("a", "b", "c")
    cluster.run()
    assert cluster["c"].standing == "fenced"
    return cluster


def test_who_is_behind_the_fence_by_name_and_not_by_its_log_is_told_how_it_comes_there() -> None:
    text = why_no_primary(fenced("a", "b", "c")["c"].replica)
    assert "restore it from the same copy with --fence 7" in text and "recover again" in text
    assert "new name" not in text


def test_who_is_none_of_those_behind_the_fence_comes_back_under_a_new_name() -> None:
    text = why_no_primary(fenced("a", "b")["c"].replica)
    assert "without this server" in text and "under a new name" in text


def test_a_learner_that_caught_up_knows_that_the_log_has_begun() -> None:
    """It was cut off before it took part, and has met nobody since."""
    cluster = Cluster("a", "b", "c")
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.run("x")
    assert cluster["x"].replica.ledger.ready and cluster["x"].standing == "exchange"
    cluster.restart("x")
    cluster.view("x")
    cluster.run("x")
    assert why_no_primary(cluster["x"].replica).startswith("No quorum: x is here, a, b, c are not")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert cluster["x"].replica.flow.is_primary and not cluster.report().violations
