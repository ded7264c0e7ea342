"""All who are in a view follow its rounds, also those who wait in it: else the others wait for them."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import Stamp
from isotone.core.services import Service
from isotone.corel import records as r
from isotone.corel.configuration import Configuration, encode_rule, founded
from isotone.corel.explain import why_no_primary
from isotone.corel.quorum import History, Majority, Primary
from isotone.corel.rounds import Outcome, Round
from isotone.corel.wire import State
from tests.corel.cluster import GROUP, Cluster, identity_of
from tests.corel.test_identities import primaries


def with_one_apart(*names: str) -> Cluster:
    """w was set up with other founders."""
    cluster = Cluster(*names, "w", snapshots=True)
    cluster["w"].replica.ledger.queue.configuration = Cluster("a", "w")["a"].replica.ledger.queue.configuration
    return cluster


def rounds(cluster: Cluster) -> set[str]:
    return {cluster[name].replica.session.view for name in cluster.names}


def test_one_that_waits_apart_begins_anew_with_the_others() -> None:
    cluster = with_one_apart("a", "b", "c", "d")
    cluster.view("a", "b", "c", "d", "w")
    cluster.run()
    assert primaries(cluster) == "abcd" and cluster["w"].standing == "waiting"
    client = cluster["c"].replica.session.client
    assert client is not None
    nonsense = bundle_of(client, 99, Service.AGREED, (GROUP,), (b"\x92\xcc\x82 half a state",))
    (order,) = cluster.sent.values()
    order.append(("c", b4.Message(nonsense, Stamp(99, client.daemon))))
    cluster.run()
    assert primaries(cluster) == "abd" and cluster["w"].standing == "waiting"
    assert "configuration 0" in why_no_primary(cluster["w"].replica)
    cluster.append("a", b"1")
    cluster.run()
    assert cluster["b"].green == [b"1"] and not cluster.report().violations


def test_the_others_say_who_is_apart() -> None:
    cluster = with_one_apart("a", "b", "c")
    cluster.view("a", "b", "w")
    cluster.run()
    text = why_no_primary(cluster["a"].replica)
    assert "It waits for c. w is apart: configuration 0 is a w at w" in text
    assert "is apart" not in why_no_primary(cluster["w"].replica), "it says that of itself in other words"


def test_nobody_waits_for_it_when_a_later_fence_becomes_known() -> None:
    """x comes from behind a fence, and says so when all the others have gone on already."""
    cluster = with_one_apart("a", "b", "c")
    cluster.join("x")
    servers = Configuration(1, ("x",), encode_rule(Majority(("x",))), (), (("x", identity_of("x", 1)),))
    lived = r.encode_record(r.Lived(0, identity_of("x", 1)))
    cluster.restart(
        "x", [lived, r.encode_record(r.CaughtUp(0, History(Primary(0, ("a",))))), r.encode_record(r.Forced(1, servers))]
    )
    cluster.view("a", "b", "c", "w", "x")
    cluster.run()
    assert len(rounds(cluster)) == 1
    assert primaries(cluster) == "x" and {cluster[name].standing for name in "abcw"} == {"fenced"}


def test_one_that_waits_apart_keeps_nobody_out_who_catches_up() -> None:
    cluster = with_one_apart("a", "b", "c")
    cluster.join("x")
    cluster.view("a", "b", "c", "w", "x")
    cluster.settle()
    assert primaries(cluster) == "abcx" and cluster["w"].standing == "waiting" and len(rounds(cluster)) == 1


def test_where_the_log_has_not_begun_a_server_that_caught_up_begins_it_with_the_others() -> None:
    """x is chosen by force, and nobody knows whose log is which; it learned of that from the others."""
    cluster = Cluster("a", "b", met=False)
    servers = ("a", "b", "x")
    forced = r.encode_record(r.Forced(1, Configuration(1, servers, encode_rule(Majority(servers)))))
    for name in "ab":
        cluster.restart(name, [*cluster[name].log, forced])
    cluster.join("x")
    cluster.view("a", "b")
    cluster.run()
    assert cluster["a"].standing == "waiting"
    cluster.view("a", "b", "x")
    cluster.settle()
    assert primaries(cluster) == "abx" and not cluster.report().violations


def test_where_the_log_has_not_begun_learners_take_part_in_waiting() -> None:
    cluster = Cluster("a", "b", "c", met=False)
    cluster.join("x")
    cluster.view("a", "b", "x")
    cluster.settle()
    assert len({cluster[name].replica.session.view for name in "abx"}) == 1
    assert {cluster[name].standing for name in "abx"} == {"waiting"}
    assert "missing: c" in why_no_primary(cluster["x"].replica)


def test_behind_the_signal_no_state_counts() -> None:
    cluster = with_one_apart("a", "b", "c")
    cluster.join("x")
    cluster.view("a", "b", "c", "w", "x")
    cluster.run("a", "b", "c", "w")  # x has not asked for anything yet
    assert cluster["w"].standing == "waiting"
    cluster.signal("w")
    before = cluster["w"].replica.session.view
    cluster.settle()
    assert cluster["w"].replica.session.view == before and "in transition" in why_no_primary(cluster["w"].replica)
    assert cluster["a"].standing == "exchange", "until the next view"


# --- who is left out, and why ---------------------------------------------------------------------------------------


def state(server: str, *founders: str, committed: int = 0, green: int = 0, forgotten: int = 0, fence: int = 0) -> State:
    servers = founders or ("a", "b", "c", "w", "x")
    configuration = founded(servers, Majority(servers))
    history = History(Primary(0, configuration.servers))
    known = ("a", "b", "c", "w")
    lines = (committed, 0, green, green, ())
    return State("v", server, *lines, history, (), known, configuration, True, forgotten, 0, fence)


def complete(*states: State) -> Round:
    begun = Round(frozenset("abcwx"))
    outcomes = [begun.take(each.server, each) for each in states]
    assert outcomes[-1] is Outcome.COMPLETE
    return begun


def test_a_round_names_those_who_do_not_agree_and_nobody_else() -> None:
    behind = state("x", green=2)
    ahead = [state(each, committed=1, green=5, forgotten=5) for each in "abc"]
    begun = complete(behind, *ahead, state("w", "a", "w", green=5))
    assert begun.parts == ("a", "b", "c") and list(begun.apart) == ["w"]
    old = [state("c"), state("w", "a", "w", fence=1)]
    begun = complete(*old, *(state(each, fence=1) for each in "ab"))
    assert begun.parts == ("a", "b") and list(begun.apart) == ["w"]


def test_who_is_not_in_the_view_any_more_has_no_state_in_it() -> None:
    begun = Round(frozenset("abc"))
    assert begun.take("a", state("a")) is Outcome.WAIT
    begun.dismiss("b")
    with pytest.raises(RemoteProtocolError, match="b"):
        begun.take("b", state("b"))
    assert begun.take("c", state("c")) is Outcome.COMPLETE and begun.parts == ("a", "c")


@pytest.mark.parametrize(("founders", "outcome"), [((), Outcome.AGAIN), (("a", "x"), Outcome.WAIT)])
def test_whoever_comes_later_is_judged_by_itself(founders: tuple[str, ...], outcome: Outcome) -> None:
    begun = complete(*(state(each) for each in "abc"), state("w", "a", "w"))
    assert begun.take("x", state("x", *founders)) is outcome
    assert list(begun.apart) == (["w"] if outcome is Outcome.AGAIN else ["w", "x"])
