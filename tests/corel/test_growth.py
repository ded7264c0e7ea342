"""Servers come and go: learners, state transfer, reconfigurations, and which sets may become a primary component."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.contract import TimerFired
from isotone.corel.configuration import decode_rule, founded
from isotone.corel.events import DiskRoom, ReconfigurationWanted, SnapshotOffered, Standing
from isotone.corel.explain import why_no_primary
from isotone.corel.quorum import AllOf, AnyOf, DynamicVoting, History, Majority, Monarch, Primary, Rule, Weighted
from isotone.corel.snapshot import Snapshot, digest_of
from tests.corel.cluster import Cluster, joined


def add(cluster: Cluster, at: str, server: str) -> str:
    """Ask for one more, and let it happen; the answer."""
    cluster.tell(at, ReconfigurationWanted(0, 1, add=server))
    cluster.run()
    return cluster[at].answers[-1]


def remove(cluster: Cluster, at: str, server: str) -> str:
    cluster.tell(at, ReconfigurationWanted(0, 1, remove=server))
    cluster.run()
    return cluster[at].answers[-1]


def primaries(cluster: Cluster) -> str:
    return "".join(name for name in cluster.names if cluster[name].replica.flow.is_primary)


def with_learner(records: int = 3, quorum: Rule | None = None, **settings: object) -> Cluster:
    """a, b and c have ordered something; x comes into their view and catches up."""
    cluster = joined("a", "b", "c", quorum=quorum, snapshots=True, **settings)
    for number in range(records):
        cluster.append("abc"[number % 3], b"%d" % number)
        cluster.run()
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    return cluster


def test_a_learner_catches_up_and_follows_without_a_vote() -> None:
    cluster = with_learner()
    assert cluster["x"].green == [b"0", b"1", b"2"] and primaries(cluster) == "abcx"
    cluster.append("a", b"more")
    cluster.settle()
    assert cluster["x"].green[-1] == b"more"
    cluster.view("a", "x")  # one vote of three
    cluster.run()
    assert primaries(cluster) == "bc"  # they do not know yet that they are alone
    cluster.view("b", "c")
    cluster.run()
    assert primaries(cluster) == "bc" and not cluster.report().violations


def test_a_learner_votes_when_its_reconfiguration_is_green() -> None:
    cluster = with_learner()
    assert add(cluster, "a", "x") == "accepted"
    cluster.settle()
    assert [cluster[name].configurations for name in "abcx"] == [[("a", "b", "c", "x")]] * 4
    cluster.view("a", "b")  # two of four
    cluster.run()
    assert not cluster["a"].replica.flow.is_primary
    assert "c, x are not" in why_no_primary(cluster["a"].replica)
    cluster.view("a", "b", "x")
    cluster.run()
    assert cluster["x"].replica.flow.is_primary and not cluster.report().violations


def test_one_at_a_time() -> None:
    cluster = with_learner()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.tell("a", ReconfigurationWanted(0, 2, remove="b"))
    assert cluster["a"].answers == ["accepted", "another reconfiguration is not green yet"]
    cluster.run()
    assert remove(cluster, "b", "c") == "accepted"
    cluster.settle()
    assert cluster["a"].configurations == [("a", "b", "c", "x"), ("a", "b", "x")]


def test_of_two_at_once_the_first_in_the_order_takes_effect() -> None:
    cluster = with_learner()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.tell("b", ReconfigurationWanted(0, 1, remove="c"))
    cluster.settle()
    assert [cluster[name].configurations for name in "abc"] == [[("a", "b", "c", "x")]] * 3
    assert not cluster.report().violations


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (ReconfigurationWanted(0, 1, add="y"), "y is not here"),
        (ReconfigurationWanted(0, 1, add="a"), "is or was a server"),
        (ReconfigurationWanted(0, 1, remove="q"), "q is no server"),
        (ReconfigurationWanted(0, 1, add="x", remove="a"), "one server is added or removed"),
        (ReconfigurationWanted(0, 1, add="x", rule=Monarch("q")), "the rule needs q"),
    ],
)
def test_what_is_refused(wanted: ReconfigurationWanted, reason: str) -> None:
    cluster = with_learner()
    cluster.tell("a", wanted)
    assert reason in cluster["a"].answers[-1]


def test_a_server_without_room_takes_no_change_either() -> None:
    cluster = with_learner()
    cluster.tell("a", DiskRoom(0, True))
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    assert "nearly full" in cluster["a"].answers[-1]
    cluster.tell("b", ReconfigurationWanted(0, 1, add="x"))
    assert cluster["b"].answers[-1] == "accepted"


def test_nothing_is_changed_outside_of_a_primary_or_without_a_quorum_of_the_new_set() -> None:
    cluster = with_learner()
    cluster.view("a", "b")
    cluster.run()
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="b"))  # a alone of a and c would be no quorum with b gone
    assert cluster["a"].answers[-1] == "those who are here would be no quorum of the new set"
    cluster.view("a", "x")
    cluster.run()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    assert cluster["a"].answers[-1] == "there is no primary component here"


def yellow_reconfiguration() -> Cluster:
    """The reconfiguration that adds x is yellow at a and b, and green nowhere; c and x do not have it."""
    cluster = with_learner()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.step("a")
    cluster.step("b")
    return cluster


def test_a_yellow_reconfiguration_counts_already() -> None:
    cluster = yellow_reconfiguration()
    cluster.view("a", "b")  # a majority of the old set, half of the new one
    cluster.run("a", "b")
    assert cluster["a"].standing == "regular" and not cluster["a"].replica.flow.is_primary
    cluster.view("c", "x")
    cluster.run("c", "x")
    assert not cluster["c"].replica.flow.is_primary
    cluster.view("a", "b", "x")
    cluster.settle()
    assert cluster["x"].configurations == [("a", "b", "c", "x")] and not cluster.report().violations


def test_a_reconfiguration_waits_for_a_quorum_of_the_new_set() -> None:
    """Sent in one view, and again in another, where those who are there are no quorum of the new set."""
    cluster = with_learner()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("b", b"behind it")
    cluster.run("a", "b")
    assert cluster["a"].configurations == [] and b"behind it" not in cluster["b"].green
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].configurations == [("a", "b", "c", "x")] and b"behind it" in cluster["c"].green
    assert not cluster.report().violations


def test_a_removed_server_says_good_bye_when_all_know() -> None:
    cluster = with_learner()
    assert add(cluster, "a", "x") == "accepted" and remove(cluster, "a", "c") == "accepted"
    cluster.settle()
    assert cluster["c"].replica.standing is Standing.REMOVED
    cluster.view("a", "b")
    cluster.run()
    assert cluster["a"].replica.flow.is_primary
    cluster.tell("a", ReconfigurationWanted(0, 1, add="c"))
    assert "is or was a server" in cluster["a"].answers[-1]


def test_a_removed_server_that_has_nothing_more_to_say_says_good_bye_all_the_same() -> None:
    """It told its green line before the view changed, and hears those of all others in their states."""
    cluster = with_learner()
    assert add(cluster, "a", "x") == "accepted" and remove(cluster, "a", "c") == "accepted"
    cluster.fire("c")
    cluster.view("a", "b", "c", "x")
    cluster.run()
    assert cluster["c"].replica.standing is Standing.REGULAR
    cluster.fire("c")
    assert cluster["c"].replica.standing is Standing.REMOVED


def test_white_asks_for_the_servers_of_the_green_prefix() -> None:
    cluster = with_learner()
    add(cluster, "a", "x")
    cluster.settle()
    cluster.view("a", "b", "c")
    cluster.run()
    cluster.append("a", b"new")
    cluster.settle()
    place = cluster["a"].replica.ledger.queue.green
    assert cluster["a"].replica.flow.white < place  # x does not have it
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert cluster["a"].replica.flow.white == place and not cluster.report().violations


def test_votes_are_given_to_new_servers() -> None:
    cluster = with_learner(quorum=Weighted({"a": 3, "b": 1, "c": 1}))
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x", votes=(("x", 5),)))
    cluster.settle()
    cluster.view("x", "b")
    cluster.run()
    assert cluster["b"].replica.flow.is_primary  # 6 of 10


def test_learners_do_not_count_under_dynamic_voting_either() -> None:
    cluster = with_learner(quorum=DynamicVoting(1))
    cluster.view("c", "x")  # half of the last primary by heads, one of its three votes
    cluster.run("c", "x")
    assert not cluster["c"].replica.flow.is_primary
    cluster.view("a", "b")
    cluster.run()
    assert cluster["a"].replica.flow.is_primary


def test_who_is_removed_and_went_on_alone_does_not_stop_the_others() -> None:
    """b alone has the removal of a, and a is the last primary: neither b nor c is a part of it."""
    cluster = joined("a", "b", "c", quorum=DynamicVoting(1))
    cluster.tell("b", ReconfigurationWanted(0, 1, remove="a"))
    cluster.step("b")
    for members in ("ac", "a"):
        cluster.view(*members)
        cluster.run(*members)
    cluster.append("a", b"alone")
    cluster.run("a")
    assert cluster["a"].green == [b"alone"]
    cluster.view("b", "c")  # they do not know what a has ordered
    cluster.run()
    assert primaries(cluster) == "a"
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].standing == "removed" and cluster["b"].green == cluster["c"].green == [b"alone"]
    cluster.view("b", "c")
    cluster.settle()
    assert primaries(cluster) == "bc" and not cluster.report().violations


def test_a_primary_of_which_nobody_stays_is_asked_by_a_green_configuration() -> None:
    """The exemption is for one that is not green, beside which the green one asks."""
    configuration = founded("yz", DynamicVoting(1))
    for history in (History(Primary(7, ("a",))), History(Primary(7, ("y",)), (Primary(8, ("a",)),))):
        assert not configuration.holds(frozenset("yz"), history)
        assert configuration.would_hold(frozenset("yz"), history)


def test_founders_must_be_the_same_everywhere() -> None:
    cluster = Cluster("a", "b", "c")
    cluster["c"].replica.ledger.queue.configuration = Cluster("a", "c")["a"].replica.ledger.queue.configuration
    cluster.view("a", "b", "c")
    cluster.run()
    assert cluster["c"].standing == "waiting" and "configuration 0" in why_no_primary(cluster["c"].replica)
    assert cluster["a"].replica.flow.is_primary and cluster["a"].replica.session.servers == ("a", "b")


# --- state transfer --------------------------------------------------------------------------------------------------


def with_snapshot(size: int = 100_000, **settings: object) -> Cluster:
    """Everything is white and forgotten at a, b and c: a snapshot stands for it."""
    cluster = joined("a", "b", "c", snapshots=True, **settings)
    for number in range(5):
        cluster.append("abc"[number % 3], b"%d" % number, b"%d again" % number)
        cluster.run()
    cluster.settle()
    for name in "abc":
        cluster.tell(name, SnapshotOffered(0, 8, b"s" * size))
    cluster.settle()
    return cluster


def test_nothing_is_forgotten_that_no_snapshot_covers() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"x")
    cluster.settle()
    queue = cluster["a"].replica.ledger.queue
    assert cluster["a"].white == 1 and queue.forgotten == 0
    cluster.tell("a", SnapshotOffered(0, 1, b"state"))
    assert queue.forgotten == 1
    assert cluster.restart("a").installed == [(1, b"state")]


@pytest.mark.parametrize("size", [100_000, 0])
def test_a_learner_gets_the_snapshot_and_what_follows(size: int) -> None:
    """Also one that is empty, of which no piece comes."""
    cluster = with_snapshot(size)
    assert cluster["a"].replica.ledger.queue.forgotten == 8
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert cluster["x"].installed == [(8, b"s" * size)] and cluster["x"].green == [b"4", b"4 again"]
    assert add(cluster, "b", "x") == "accepted"
    cluster.settle()
    assert cluster["x"].configurations and not cluster.report(stable=True).violations


def test_a_transfer_goes_on_where_it_was_broken_off() -> None:
    cluster = with_snapshot(size=900_000)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.run()
    cluster.tell("x", TimerFired(0, "pace"))
    cluster.run()
    ledger = cluster["x"].replica.ledger
    assert ledger.arriving is not None
    had = ledger.arriving.size
    assert 0 < had < 900_000
    cluster.restart("x")
    found = cluster["x"].replica.ledger.arriving
    assert found is not None and found.size == had
    cluster.view("b", "c", "x")
    for _ in range(12):
        cluster.settle()
    assert cluster["x"].installed == [(8, b"s" * 900_000)] and cluster["x"].replica.flow.is_primary


def test_who_cannot_be_helped_says_why() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    cluster.settle()  # white, and forgotten without a snapshot
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    text = why_no_primary(cluster["x"].replica)
    assert cluster["x"].standing == "learning" and "has no snapshot" in text


def test_a_server_that_fell_behind_catches_up_and_takes_part_again() -> None:
    """x was a learner when the others forgot what it lacks; it was added meanwhile."""
    cluster = with_snapshot()
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    for name in "abc":
        cluster.step(name)
    cluster.view("a", "b", "c")  # x does not hear of it
    cluster.run("a", "b", "c")
    assert cluster["a"].configurations == [("a", "b", "c", "x")]
    cluster.append("a", b"late")
    cluster.settle()
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert primaries(cluster) == "abcx" and cluster["x"].green[-1] == b"late"
    assert not cluster.report(stable=True).violations


def test_majority_of_five_after_two_more() -> None:
    cluster = with_learner()
    add(cluster, "a", "x")
    cluster.join("y")
    cluster.view("a", "b", "c", "x", "y")
    cluster.settle()
    assert add(cluster, "c", "y") == "accepted"
    cluster.settle()
    configuration = cluster["y"].replica.ledger.queue.configuration
    assert configuration.servers == ("a", "b", "c", "x", "y")
    assert configuration.describe() == Majority(tuple("abcxy")).describe()
    for name in "abcxy":
        cluster.restart(name)  # all stop, and come back
    cluster.view("c", "x", "y")
    cluster.run()
    assert cluster["y"].replica.flow.is_primary and not cluster.report().violations


def test_a_snapshot_that_comes_late_takes_nothing_back() -> None:
    """x asked a, heard nothing, and got everything from b; then a's answer comes."""
    cluster = with_snapshot(size=100)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    for name in "abcx":
        cluster.step(name, cluster.waiting(name))
    late, cluster.private = list(cluster.private), type(cluster.private)()
    assert len(late) == 1  # x's question to a
    cluster.tell("x", TimerFired(0, "pull"))
    cluster.run()
    cluster.tell("x", TimerFired(0, "pace"))  # the snapshot is there: what follows it
    green = cluster["x"].replica.ledger.queue.green
    assert green >= 8
    cluster["x"].replica.learner.active = True
    cluster.private.extend(late)
    cluster.run()
    assert cluster["x"].replica.ledger.queue.green >= green and cluster["x"].replica.ledger.arriving is None
    assert not cluster.report().violations


def test_a_snapshot_in_other_bytes_is_not_mixed_with_what_is_there() -> None:
    """The same state, written in another way by another server: the transfer begins anew."""
    cluster = with_snapshot(size=900_000)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.run()
    found = cluster["x"].replica.ledger.arriving
    assert found is not None and found.size > 0
    teacher = cluster["b"].replica.ledger
    assert teacher.snapshot is not None
    head = msgspec.structs.replace(teacher.snapshot.head, digest=digest_of(b"t" * 900_000))
    teacher.snapshot = Snapshot(head, b"t" * 900_000)
    cluster.view("b", "c", "x")
    for _ in range(12):
        cluster.settle()
    assert cluster["x"].installed == [(8, b"t" * 900_000)]


def test_voters_that_lack_what_a_learner_forgot_still_take_part() -> None:
    """x learned by a snapshot that stands for more than b and c have green: a still has the messages."""
    cluster = joined("a", "b", "c", quorum=Monarch("a"), snapshots=True)
    cluster.append("a", b"0")
    cluster.settle()
    cluster.view("a")
    cluster.run("a")
    for number in range(1, 4):
        cluster.append("a", b"%d" % number)
        cluster.run("a")
    cluster.tell("a", SnapshotOffered(0, 4, b"state"))
    cluster["a"].replica.ledger.queue.forget(1)  # what is white
    cluster.join("x")
    cluster.view("a", "x")
    cluster.settle()
    assert cluster["x"].replica.ledger.queue.forgotten == 4
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert primaries(cluster) == "abcx" and cluster["b"].green == [b"0", b"1", b"2", b"3"]
    assert not cluster["b"].installed and not cluster.report(stable=True).violations


def test_who_lacks_what_all_forgot_asks_one_that_takes_part() -> None:
    """Of those who know the order only x is there, with a snapshot alone: b and c learn from it."""
    cluster = joined("a", "b", "c", quorum=Monarch("a"), snapshots=True)
    cluster.append("a", b"0")
    cluster.settle()
    cluster.view("a")
    cluster.run("a")
    cluster.append("a", b"1")
    cluster.run("a")
    cluster.tell("a", SnapshotOffered(0, 2, b"state"))
    cluster["a"].replica.ledger.queue.forget(1)
    cluster.join("x")
    cluster.view("a", "x")
    cluster.settle()
    cluster.view("b", "c", "x")
    for _ in range(4):
        cluster.settle()
    assert [cluster[name].replica.ledger.queue.green for name in "bcx"] == [2, 2, 2]
    assert cluster["b"].installed == [(2, b"state")] and cluster["c"].standing == "regular"


def test_a_transfer_keeps_its_pace() -> None:
    """So many bytes in a second and no more, however fast the answers come."""
    pace = 100_000
    cluster = with_snapshot(size=900_000, transfer_bytes_per_s=pace)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    at = asked = received = 0
    for _ in range(100):
        cluster.run()
        learner = cluster["x"].replica.learner
        if not learner.active:
            break
        pause = cluster["x"].pauses["pace"]
        received += learner.received
        at += pause
        asked += 1
        cluster.tell("x", TimerFired(0, "pace"))
    assert cluster["x"].installed and asked >= 3
    assert at >= received * 1_000_000 // pace and received >= 900_000


def test_who_has_learned_of_a_later_primary_does_not_catch_up_with_an_earlier_one() -> None:
    """x has a message that became green in a primary which c does not know of: c cannot say that x has everything."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"0")
    cluster.settle()
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("a", *[b"%d" % number + b"." * 30_000 for number in range(1, 90)])
    cluster.run("a", "b")
    cluster.join("x")
    cluster.view("a", "b", "x")
    cluster.run("a", "b", "x")
    assert 1 < len(cluster["x"].green) < 20 and cluster["x"].standing == "learning"
    cluster.view("c", "x")
    cluster.settle()
    assert cluster["x"].standing == "learning" and cluster["c"].standing == "regular"
    cluster.view("a", "c", "x")
    for _ in range(4):
        cluster.settle()
    assert cluster["x"].replica.flow.is_primary and len(cluster["x"].green) == 90 and not cluster.report().violations


# --- the rule alone ---------------------------------------------------------------------------------------------------


def change(cluster: Cluster, at: str, rule: Rule | None = None, **votes: int) -> str:
    cluster.tell(at, ReconfigurationWanted(0, 1, rule=rule, votes=tuple(votes.items())))
    cluster.run()
    return cluster[at].answers[-1]


def test_the_rule_changes_and_the_servers_stay() -> None:
    cluster = joined("a", "b", "c")
    assert change(cluster, "b", Monarch("c")) == "accepted"
    assert [cluster[name].configurations for name in "abc"] == [[("a", "b", "c")]] * 3
    cluster.view("a", "b")
    cluster.view("c")
    cluster.run()
    assert primaries(cluster) == "c"
    assert "c must be present" in why_no_primary(cluster["a"].replica)
    cluster.append("c", b"alone")
    cluster.run()
    assert cluster["c"].green == [b"alone"]
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].green == [b"alone"] and not cluster.report(stable=True).violations


def test_votes_change_and_what_is_not_named_keeps_its_own() -> None:
    cluster = joined("a", "b", "c", quorum=Weighted({"a": 1, "b": 1, "c": 1}))
    assert change(cluster, "a", a=3) == "accepted"
    assert decode_rule(cluster["b"].replica.ledger.queue.configuration.rule) == Weighted({"a": 3, "b": 1, "c": 1})
    cluster.view("b", "c")
    cluster.run()
    assert "a" in primaries(cluster) and not cluster["b"].replica.flow.is_primary
    cluster.view("a")
    cluster.run()
    assert primaries(cluster) == "a" and not cluster.report().violations


def test_a_rule_is_filled_with_the_servers_that_there_are() -> None:
    cluster = joined("a", "b", "c", quorum=Monarch("a"))
    assert change(cluster, "a", Majority(())) == "accepted"
    assert decode_rule(cluster["a"].replica.ledger.queue.configuration.rule) == Majority(("a", "b", "c"))
    assert change(cluster, "a", Weighted({}), c=2) == "accepted"
    assert decode_rule(cluster["a"].replica.ledger.queue.configuration.rule) == Weighted({"a": 1, "b": 1, "c": 2})


def test_a_change_of_the_rule_that_makes_no_sense_is_refused_with_the_reason() -> None:
    cluster = joined("a", "b", "c")
    two = AnyOf((Monarch("a"), Majority(())))
    assert "both a and b, c would be quorums" in change(cluster, "a", two)
    assert "nothing changes" in change(cluster, "a")
    assert "nothing changes" in change(cluster, "a", Majority(()))
    assert "at most 2048 bytes" in change(cluster, "a", AllOf((Majority(()),) * 100))
    assert "the rule needs x" in change(cluster, "a", Monarch("x"))
    assert "x is no server" in change(cluster, "a", Weighted({}), x=3)
    assert "not even all servers together" in change(cluster, "a", Weighted({}), a=0, b=0, c=0)
    cluster.view("a", "b")
    cluster.run()
    assert "would be no quorum of the new set" in change(cluster, "a", Monarch("c"))
    assert not any(cluster[name].configurations for name in "abc")


@pytest.mark.parametrize("seen", range(12))
def test_while_a_new_rule_is_known_and_not_green_both_must_hold(seen: int) -> None:
    """From a majority to a monarch: wherever the view breaks, there are never two primary components."""
    cluster = joined("a", "b", "c")
    cluster.tell("a", ReconfigurationWanted(0, 1, rule=Monarch("c")))
    for place in range(seen):
        for name in ("c", "a", "b")[place % 3 :]:
            if cluster.waiting(name):
                cluster.step(name)
    known = [name for name in "ab" if any(cluster[name].replica.ledger.queue.coming())]
    green = [name for name in "ab" if cluster[name].configurations]
    cluster.view("a", "b")
    cluster.view("c")
    cluster.run()
    if known or green:
        assert not {"a", "b"} & set(primaries(cluster)), "c is not there, and they know that it must be"
    assert set(primaries(cluster)) in ({"a", "b"}, {"c"}, set())
    cluster.view("a", "b", "c")
    cluster.settle()
    assert set(primaries(cluster)) == {"a", "b", "c"} and not cluster.report(stable=True).violations
