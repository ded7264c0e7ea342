"""A server that returns with a great lag holds up no quorum of the others: it fetches first, and votes as before."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from isotone.core.contract import TimerFired
from isotone.corel.events import ReconfigurationWanted, SnapshotOffered
from isotone.corel.message import Origin, Range
from isotone.corel.quorum import AllOf, DynamicVoting, Majority, Rule
from isotone.corel.rounds import LAG_MAX, Outcome, Round
from isotone.corel.wire import CATCHING_CODEC, Fetch
from tests.corel.cluster import Cluster, joined
from tests.corel.test_identities import primaries
from tests.corel.test_rounds import state

COUNT = 300
SIZE = 4_000  # several requests for all of them


def order(cluster: Cluster, *names: str, count: int = COUNT) -> None:
    for number in range(count):
        cluster.append(names[0], b"%d" % number + b"." * SIZE)
        speak(cluster, *names)


def speak(cluster: Cluster, *names: str) -> None:
    """All that is said to the group is heard; what is said to one alone is not."""
    while any(map(cluster.waiting, names)):
        for name in names:
            cluster.step(name, cluster.waiting(name))


def with_one_that_returns(quorum: Rule | None = None) -> Cluster:
    cluster = joined("a", "b", "c", quorum=quorum)
    cluster.view("a", "b")
    speak(cluster, "a", "b")
    order(cluster, "a", "b")
    cluster.view("a", "b", "c")
    speak(cluster, "a", "b", "c")
    return cluster


def asked(cluster: Cluster) -> Fetch:
    """The last request that is on its way."""
    found = [CATCHING_CODEC.decode(bytes(message.bundle.payload)) for _, message in cluster.private]
    return [each for each in found if isinstance(each, Fetch)][-1]


def test_the_others_go_on_at_once_and_it_takes_part_when_it_has_what_it_lacked() -> None:
    cluster = with_one_that_returns()
    assert primaries(cluster) == "ab" and cluster["c"].standing == "learning"
    cluster.append("b", b"meanwhile")
    speak(cluster, "a", "b", "c")
    assert cluster["a"].green[-1] == b"meanwhile" and cluster["c"].lines == (0, 0, 0)
    for _ in range(9):
        cluster.settle()
    assert primaries(cluster) == "abc" and cluster["c"].lines == cluster["a"].lines
    assert cluster["c"].green == cluster["a"].green and sorted(cluster["c"].red) == sorted(cluster["c"].green)
    assert not cluster.report(stable=True).violations


def test_it_votes_and_vouches_as_before_with_what_it_fetched_red() -> None:
    """b is gone when c has a part: a and c are a quorum, and wait for the rest in their recovery."""
    cluster = with_one_that_returns()
    cluster._whisper()
    cluster._whisper()
    had = cluster["c"].lines[2]
    ledger = cluster["c"].replica.ledger
    assert 0 < had < COUNT and cluster["c"].lines == (0, 0, had) and ledger.ready and ledger.vouches
    cluster.restart("c")
    assert cluster["c"].lines == (0, 0, had)
    cluster.view("a", "c")
    speak(cluster, "a", "c")
    assert primaries(cluster).replace("b", "") == "ac" and cluster["c"].lines == (COUNT, COUNT, COUNT)
    assert not cluster.report().violations


def test_in_the_next_view_it_goes_on_where_it_was() -> None:
    cluster = with_one_that_returns()
    cluster._whisper()
    cluster._whisper()
    had = cluster["c"].lines[2]
    cluster.private.clear()
    cluster.view("a", "b", "c")
    speak(cluster, "a", "b", "c")
    assert primaries(cluster) == "ab" and asked(cluster).after == had > 0


def test_where_more_comes_than_it_can_fetch_it_takes_part_all_the_same() -> None:
    cluster = with_one_that_returns()
    requests = 0
    while cluster["c"].standing == "learning":
        cluster._whisper()
        cluster._whisper()
        speak(cluster, "a", "b", "c")
        order(cluster, "a", "b", "c", count=LAG_MAX + 10)
        cluster.tell("c", TimerFired(0, "pace"))
        requests += 1
        assert requests < 20
    assert requests > 3 and primaries(cluster) == "abc" and cluster["c"].lines == cluster["a"].lines
    assert not cluster.report().violations


def order_without(cluster: Cluster, away: str) -> None:
    """a, b and c order much while this one is away; then it returns."""
    cluster.view("a", "b", "c")
    speak(cluster, "a", "b", "c")
    order(cluster, "a", "b", "c")
    cluster.settle()
    cluster.view("a", "b", "c", away)
    speak(cluster, "a", "b", "c", away)


def test_one_without_a_vote_is_not_late() -> None:
    """x took part and was away. What it lacks may be forgotten at any time: it is recovered with all, or not at all."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert primaries(cluster) == "abcx"
    order_without(cluster, "x")
    assert primaries(cluster) == "abcx" and cluster["x"].lines == cluster["a"].lines
    assert not cluster.report().violations


def with_a_new_server_without_old_messages(new: str) -> Cluster:
    """d was away with 10 messages. Of its fellows b and c have all that it lacks; the new one has a state instead."""
    cluster = joined("b", "c", "d", snapshots=True)
    order(cluster, "b", "c", "d", count=10)
    cluster.settle()
    for name in "bcd":
        cluster.tell(name, SnapshotOffered(0, 10, b"state"))
    cluster.settle()
    cluster.view("b", "c")
    speak(cluster, "b", "c")
    order(cluster, "b", "c")
    cluster.settle()
    for name in "bc":
        cluster.tell(name, SnapshotOffered(0, COUNT + 10, b"state"))
    cluster.join(new)
    cluster.view(new, "b", "c")
    for _ in range(5):
        cluster.settle()
    cluster.tell("b", ReconfigurationWanted(0, 1, new, ""))
    cluster.settle()
    forgotten = [cluster[name].replica.ledger.queue.forgotten for name in (new, "b", "c")]
    assert forgotten == [COUNT + 10, 10, 10] and cluster["d"].lines == (10, 10, 10)
    return cluster


@pytest.mark.parametrize("new", ["a", "z"])
def test_only_those_are_asked_who_still_have_the_messages(new: str) -> None:
    """Whoever takes a state does not vouch any more."""
    cluster = with_a_new_server_without_old_messages(new)
    names = tuple(sorted({new, "b", "c", "d"}))
    cluster.view(*names)
    speak(cluster, *names)
    assert cluster["d"].standing == "learning" and set(primaries(cluster)) == {new, "b", "c"}
    for _ in range(6):  # all are silent in turn
        cluster.private.clear()
        cluster.tell("d", TimerFired(0, "pull"))
        assert cluster["d"].replica.learner.teacher in {"b", "c"}
    while cluster["d"].standing == "learning":
        cluster._whisper()
        assert cluster["d"].replica.ledger.ready and cluster["d"].replica.ledger.vouches
        cluster.tell("d", TimerFired(0, "pace"))
        speak(cluster, *names)
    assert set(primaries(cluster)) == set(names) and not cluster["d"].installed
    assert cluster["d"].lines == cluster["b"].lines and not cluster.report().violations


def test_a_quorum_of_whole_disks_goes_on_whatever_one_that_was_late_has_fetched() -> None:
    """a alone commits, and is gone; b and c attempted. If d had a state of a, it would know of what nobody else has."""
    cluster = with_a_new_server_without_old_messages("a")
    cluster.view("a", "b", "c", "d")
    while moving := [each for each in "abcd" if cluster.waiting(each) and cluster[each].standing != "attempt"]:
        cluster.step(moving[0])
    while cluster.waiting("a"):
        cluster.step("a")
    assert [cluster[name].standing for name in "abcd"] == ["commit", "attempt", "attempt", "learning"]
    for _ in range(4):
        cluster._whisper()
    cluster.crash("a")
    cluster.view("b", "c", "d")
    for _ in range(5):
        cluster.settle()
    assert primaries(cluster).replace("a", "") == "bcd" and not cluster.report().violations


def test_one_that_was_removed_while_it_fetched_may_be_left_with_a_state() -> None:
    """It votes as far as it knows. When what it lacks is forgotten, it says its state: the next round decides."""
    cluster = joined("a", "b", "c", "d", snapshots=True)
    order_without(cluster, "d")
    assert primaries(cluster) == "abc" and cluster["d"].standing == "learning"
    cluster.private.clear()
    cluster.tell("a", ReconfigurationWanted(0, 1, "", "d"))
    for _ in range(3):
        speak(cluster, "a", "b", "c", "d")
        for name in "abc":
            for key in dict.fromkeys(cluster[name].timers):
                cluster.tell(name, TimerFired(0, key))  # type: ignore[arg-type]
    for name in "abc":
        cluster.tell(name, SnapshotOffered(0, COUNT, b"state"))
    speak(cluster, "a", "b", "c", "d")
    assert cluster["a"].replica.ledger.queue.forgotten == COUNT + 1
    assert cluster["d"].standing == "learning" and cluster["d"].replica.ledger.vouches
    for _ in range(9):
        cluster.settle()
    assert primaries(cluster) == "abc" and cluster["d"].installed == [(COUNT, b"state")]
    assert cluster["d"].standing == "removed" and not cluster.report(stable=True).violations


# --- who is late -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("green", "held", "invited", "late"),
    [(100 - LAG_MAX, 0, "", ""), (99 - LAG_MAX, 0, "", "x"), (0, 40, "", ""), (0, 30, "", "x"), (0, 0, "x", "")],
)
def test_who_is_late_lacks_much_and_is_not_waited_for(green: int, held: int, invited: str, late: str) -> None:
    ahead = [state(each, committed=2, green=100) for each in "abc"]
    behind = state("x", committed=1, green=green)
    ranges = (Range(Origin("a", 1), 3, held + 2),) if held else ()
    begun = Round(frozenset("abcx"), frozenset(invited))
    outcomes = [begun.take(each.server, each) for each in (replace(behind, ranges=ranges), *ahead)]
    assert outcomes[-1] is Outcome.COMPLETE and begun.late == tuple(late)
    assert begun.parts == tuple(each for each in "abcx" if each not in late)


def test_nobody_is_late_whom_the_others_need() -> None:
    """Two of five are no quorum."""
    begun = Round(frozenset("abx"))
    states = [*(state(each, committed=2, green=100) for each in "ab"), state("x", committed=1)]
    for each in states:
        begun.take(each.server, replace(each, known=("a", "b", "x")))
    assert begun.is_complete and begun.parts == ("a", "b", "x") and begun.late == ()


def test_nobody_is_late_whom_a_configuration_that_is_coming_may_need() -> None:
    """The addition of d is yellow, and d is gone: a and b are a quorum of three servers, and none of four."""
    cluster = joined("a", "b", "c")
    cluster.view("a", "b")
    speak(cluster, "a", "b")
    order(cluster, "a", "b")
    cluster.join("d")
    cluster.view("a", "b", "d")
    for _ in range(5):
        cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, "d", ""))
    for name in "abd":
        cluster.step(name)
    assert cluster["a"].lines == cluster["b"].lines == (COUNT, COUNT + 1, COUNT + 1)
    cluster.crash("d")
    cluster.view("a", "b", "c")
    speak(cluster, "a", "b", "c")
    assert primaries(cluster).replace("d", "") == "abc" and cluster["c"].lines == cluster["a"].lines
    assert not cluster.report().violations


@pytest.mark.parametrize("rule", [DynamicVoting(1), AllOf((Majority(("a", "b", "c")), DynamicVoting(1)))])
def test_nobody_is_late_where_the_members_of_a_primary_are_asked_for_the_next(rule: Rule) -> None:
    """a is lost when c is back: b and c are more than half of abc, and only half of ab."""
    cluster = with_one_that_returns(quorum=rule)
    assert primaries(cluster) == "abc" and cluster["c"].lines == cluster["a"].lines
    cluster.crash("a")
    cluster.view("b", "c")
    speak(cluster, "b", "c")
    assert primaries(cluster).replace("a", "") == "bc" and not cluster.report().violations


def test_who_comes_later_and_is_late_is_invited_when_it_says_its_state_again() -> None:
    begun = Round(frozenset("abcx"))
    for each in "abc":
        begun.take(each, replace(state(each, committed=2, green=100), known=("a", "b", "c")))
    behind = state("x", committed=1)
    assert begun.is_complete and begun.take("x", behind) is Outcome.WAIT and begun.late == ("x",)
    assert begun.take("x", behind) is Outcome.AGAIN
