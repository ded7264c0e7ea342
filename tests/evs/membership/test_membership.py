"""Daemon views through single faults: who is together, what is delivered around the signal, and why states change."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.contract import Address, Persist, PersistFailed, Started, Stop
from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from isotone.detector.bounds import Conditions
from isotone.evs.boundary import DeliverDaemonView
from isotone.evs.membership import (
    KnownDaemon,
    Membership,
    MembershipSettings,
    PeersChanged,
    Reason,
    State,
)
from isotone.evs.membership.bounds import times_of
from isotone.spec.membership_bounds import MERGE, VIEW_CHANGE
from tests.evs.membership.cluster import LABEL, SECOND, Cluster

SETTINGS = MembershipSettings()


def members(cluster: Cluster, name: str) -> list[str]:
    return ["".join(each.name for each in view.members) for view in cluster.talker(name).views]


def moved(cluster: Cluster, name: str) -> list[str]:
    return ["".join(each.name for each in view.transitional) for view in cluster.talker(name).views]


# --- beginnings ----------------------------------------------------------------------------------------------------


def alone(**settings: object) -> Membership:
    made = MembershipSettings(**settings)  # type: ignore[arg-type]
    return Membership(me=DaemonId("a", 1), identity=b"i" * 16, site="s", address=Address("a.1"), settings=made)


def test_the_first_view_is_oneself_and_stands_behind_the_floor() -> None:
    actions = alone().handle(Started(0))
    assert isinstance(actions[0], Persist)
    [delivered] = [action for action in actions if isinstance(action, DeliverDaemonView)]
    assert delivered.view.members == delivered.view.transitional == (DaemonId("a", 1),)


def test_a_daemon_whose_disk_fails_stops() -> None:
    membership = alone()
    membership.handle(Started(0))
    assert membership.handle(PersistFailed(1, 1, "full")) == [Stop("the floors cannot be kept: full")]


def test_daemons_that_start_together_form_one_view_in_one_step() -> None:
    cluster = Cluster("ab c d")
    assert cluster.run_until_together() < 1
    for name in cluster.names:
        assert members(cluster, name) == [name, "abcd"] and moved(cluster, name) == [name, name]


def test_who_waits_before_its_first_view_has_no_view_of_its_own() -> None:
    cluster = Cluster("ab c", settings=MembershipSettings(first_wait_us=500_000))
    cluster.run_until_together()
    assert members(cluster, "a") == ["abc"] and moved(cluster, "b") == ["b"] and not cluster.talker("c").signals
    cluster.settle()
    assert cluster.violations() == {}


def test_daemons_that_nobody_named_find_each_other_in_their_site() -> None:
    cluster = Cluster("abc", known=False)
    cluster.run_until_together()
    assert members(cluster, "c") == ["c", "abc"]


def test_sixty_four_daemons_that_start_at_once_install_few_views() -> None:
    letters = [chr(each) for each in (*range(0x3F, 0x7F),)]
    sites = " ".join("".join(letters[place : place + 8]) for place in range(0, 64, 8))
    cluster = Cluster(sites, settings=MembershipSettings(record=False), record_network=False)
    cluster.run_until_together()
    assert max(len(cluster.talker(name).views) - 1 for name in cluster.names) <= 3


# --- losses and merges ---------------------------------------------------------------------------------------------


def speak(cluster: Cluster) -> None:
    for service in Service:
        for name in cluster.up:
            cluster.talk(name, service)


def test_a_partition_and_a_merge() -> None:
    cluster = Cluster("ab cd")
    cluster.run_until_together()
    speak(cluster)
    cluster.run(0.005)
    cluster.world.partition("ab", "cd")
    began = cluster.world.now
    cluster.run_until_together("a", "b")
    cluster.run_until_together("c", "d")
    conditions = Conditions(peers=3, round_trip_us=25_000, lateness_us=1_000)
    assert VIEW_CHANGE.report(times_of(SETTINGS, conditions), observed_us=cluster.world.now - began).kept
    speak(cluster)
    cluster.world.heal()
    observed = int(cluster.run_until_together() * SECOND)
    assert MERGE.report(times_of(SETTINGS, conditions), observed_us=observed).kept
    assert members(cluster, "d") == ["d", "abcd", "cd", "abcd"] and moved(cluster, "d")[-2:] == ["cd", "cd"]
    cluster.settle()
    assert cluster.violations() == {}


def test_both_sides_in_the_midst_of_a_change_still_merge() -> None:
    cluster = Cluster("abc def")
    cluster.run_until_together()
    cluster.world.partition("abc", "def")
    cluster.run_until_together("a", "b", "c")
    cluster.world.crash("a")
    cluster.world.crash("f")
    cluster.run(0.3)
    cluster.world.heal()
    assert cluster.run_until_together() < 5
    cluster.settle()
    assert cluster.violations() == {}


def test_a_crashed_daemon_comes_back_elsewhere() -> None:
    cluster = Cluster("ab c")
    cluster.run_until_together()
    cluster.world.crash("c")
    cluster.run_until_together()
    cluster.world.restart("c", str(cluster.world.new_address("c")))
    cluster.run_until_together()
    assert cluster.membership("a").node.peers.by_name["c"].address == "c.2"
    assert cluster.membership("a").members[-1] == DaemonId("c", 2)


def test_two_that_moved_are_introduced_by_a_third() -> None:
    cluster = Cluster("a b c")
    cluster.run_until_together()
    for name in "ab":
        cluster.world.crash(name)
    for name in "ab":
        cluster.world.restart(name, str(cluster.world.new_address(name)))
    assert cluster.run_until_together() < 10


def test_a_restart_is_noticed_without_a_timeout() -> None:
    cluster = Cluster("abc")
    cluster.run_until_together()
    cluster.world.crash("b")
    cluster.world.restart("b")
    cluster.run_until_together()
    assert cluster.membership("a").node.entries[Reason.MEMBER_SUSPECTED] == 0
    assert members(cluster, "a")[-1] == "abc" and moved(cluster, "a")[-1] in ("ac", "a")


def test_a_daemon_that_stops_says_so() -> None:
    cluster = Cluster("ab c")
    cluster.run_until_together()
    speak(cluster)
    cluster.run(1)
    cluster.world.stop("b")
    assert cluster.run_until_together("a", "c") < 1
    entries = cluster.membership("a").node.entries
    assert entries[Reason.MEMBER_STOPPED] + entries[Reason.MEMBER_LEFT] == 1 and not entries[Reason.MEMBER_SUSPECTED]
    cluster.settle()
    assert cluster.violations() == {}


def test_a_paused_daemon_doubts_itself_and_rejoins() -> None:
    cluster = Cluster("abc")
    cluster.run_until_together()
    cluster.world.pause("b")
    cluster.run(3)
    assert cluster.view("a") == "ac"
    cluster.world.resume("b")
    cluster.run_until_together()
    assert cluster.membership("b").standing(cluster.world.clock("b")).doubts > 0
    assert "b" not in members(cluster, "b")[1:], "it did not take the others for dead"


def test_a_short_pause_changes_nothing() -> None:
    cluster = Cluster("ab c")
    cluster.run_until_together()
    cluster.world.pause("b")
    cluster.run(0.2)
    cluster.world.resume("b")
    cluster.run(5)
    assert members(cluster, "b") == ["b", "abc"]


def test_a_gathering_that_finds_nobody_leaves_the_view_alone() -> None:
    """c cannot be added because it does not reach b; the view of a and b works on."""
    cluster = Cluster("a b c", start=False)
    for name in "abc":
        cluster.world.restart(name)
    cluster.world.cut("b", "c")
    cluster.run_until_together("a", "b")
    count = len(cluster.talker("a").views)
    cluster.talk("a", Service.SAFE)
    cluster.run(20)
    assert len(cluster.talker("a").views) == count and cluster.talker("b").heard
    standing = cluster.membership("c").standing(cluster.world.clock("c"))
    assert {each.daemon for each in standing.exclusions} == {"a", "b"}
    assert any("does not reach" in each.evidence for each in cluster.membership("a").standing(0).exclusions)


# --- who is refused ------------------------------------------------------------------------------------------------


def test_two_daemons_with_one_identity_are_refused_on_both_sides() -> None:
    cluster = Cluster("a b", start=False)
    cluster.identities["b"] = "a"
    for name in "ab":
        cluster.world.restart(name)
    cluster.run(5)
    for name, other in ("ab", "ba"):
        assert cluster.view(name) == name
        refusals = cluster.membership(name).standing(cluster.world.clock(name)).refusals
        assert any("identity" in each.evidence for each in refusals), (name, other, refusals)


def test_disjoint_versions_are_refused_on_both_sides_and_others_run_at_the_highest_common_one() -> None:
    cluster = Cluster("a b c", start=False)
    for name, low, high in (("a", 1, 3), ("b", 2, 4), ("c", 5, 5)):
        cluster.own[name] = msgspec.structs.replace(cluster.settings, versions=VersionRange(low, high))
        cluster.world.restart(name)
    cluster.run_until_together("a", "b")
    network = cluster.membership("a").node.network
    assert network is not None and network.version == 3
    cluster.run(3)
    assert cluster.view("c") == "c"
    refusals = cluster.membership("c").standing(cluster.world.clock("c")).refusals
    assert any("none in common" in each.evidence for each in refusals)


def test_another_cluster_is_not_heard() -> None:
    cluster = Cluster("ab", start=False)
    cluster.own["b"] = msgspec.structs.replace(cluster.settings, cluster="other")
    for name in "ab":
        cluster.world.restart(name)
    cluster.run(3)
    assert cluster.views() == {"a": "a", "b": "b"} and cluster.membership("a").node.peers.foreign > 0


def test_daemons_are_added_and_removed_at_run_time() -> None:
    cluster = Cluster("a b c", known=False)
    cluster.run(2)
    assert cluster.views() == {"a": "a", "b": "b", "c": "c"}
    known = tuple(KnownDaemon(name, name, Address(f"{name}.1")) for name in "abc")
    cluster.world.tell("a", LABEL, PeersChanged(0, known))
    cluster.run_until_together()
    cluster.world.tell("a", LABEL, PeersChanged(0, (), ("b",)))
    cluster.run_until_together("a", "c")
    cluster.run(3)
    assert cluster.view("b") == "b"
    cluster.world.tell("a", LABEL, PeersChanged(0, known))
    cluster.run_until_together()


# --- bookkeeping ---------------------------------------------------------------------------------------------------


def test_every_entry_has_a_reason_that_is_counted() -> None:
    cluster = Cluster("ab c")
    cluster.run_until_together()
    cluster.world.crash("a")
    cluster.run_until_together()
    for name in "bc":
        node = cluster.membership(name).node
        assert node.entries[Reason.INSTALLED] == 2
        assert sum(node.entries[each] for each in (Reason.FORMED, Reason.NEWMEMB_RECEIVED)) == 2
        assert sum(node.entries[each] for each in (Reason.MEMBER_SUSPECTED, Reason.MEMBER_LEFT)) == 1
    assert cluster.membership("b").state is State.OP


def test_nobody_is_waited_for_when_all_are_accounted_for() -> None:
    cluster = Cluster("abc")
    cluster.run_until_together()
    cluster.world.crash("b")
    took = cluster.run_until_together()
    assert took < 0.4, "a refused port: neither the time of SEG nor the window of GATHER is waited for"
    cluster.world.partition("a", "c")
    assert cluster.run_until_together("a") > 0.8, "silence alone: both are"


def test_drafts_wait_for_the_next_view() -> None:
    cluster = Cluster("a b")
    cluster.run_until_together()
    cluster.world.partition("a", "b")  # who is silent is waited for a little, who is gone is not
    while cluster.membership("a").node.network is not None:
        cluster.world.run_for(1_000)
    cluster.talk("a", Service.SAFE)
    cluster.run_until_together("a")
    cluster.run(1)
    [(view, sender, _)] = cluster.talker("a").heard
    assert view == cluster.membership("a").view and sender == "a#1"


@pytest.mark.parametrize("peers", [1, 11, 63])
def test_the_bounds_at_default_timeouts(peers: int) -> None:
    conditions = Conditions(peers=peers, round_trip_us=125_000, variation_us=30_000, lateness_us=5_000)
    times = times_of(SETTINGS, conditions)
    assert MERGE.function(times) <= 30 * SECOND and VIEW_CHANGE.function(times) <= 30 * SECOND
