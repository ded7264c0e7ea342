"""Daemons behind Guards in the simulator: they find each other, and nobody else gets in."""

from __future__ import annotations

from collections import Counter

from isotone.core.choice import Choice
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.spec.check import check
from isotone.trace.events import DaemonViewDelivered
from tests.daemon.security.guarded import GuardedCluster, key_of, roster_of


def test_a_guarded_cluster_forms_parts_and_merges() -> None:
    cluster = GuardedCluster("a", "b", "c")
    cluster.join("a", "alice", "chat")
    assert cluster.run_until_quiet()
    assert [cluster.members(name) for name in "abc"] == ["abc"] * 3
    cluster.send("b", "bob", "chat", "hello")
    assert cluster.run_until_quiet()
    assert cluster.messages("a", "alice") == [b"hello"]
    cluster.partition("ab", "c")
    assert cluster.run_until_quiet()
    assert [cluster.members(name) for name in "abc"] == ["ab", "ab", "c"]
    cluster.heal()
    assert cluster.finish() and not check(cluster.rows).violations
    assert [cluster.members(name) for name in "abc"] == ["abc"] * 3


def test_links_over_streams_between_sites_are_guarded_too() -> None:
    sites = {"a": "x", "b": "x", "c": "y"}
    cluster = GuardedCluster("a", "b", "c", sites=sites, streams=[frozenset("xy")])
    cluster.join("c", "carol", "chat")
    assert cluster.run_until_quiet()
    cluster.send("b", "bob", "chat", "hello" * 20_000)
    assert cluster.run_until_quiet()
    assert cluster.messages("c", "carol") == [b"hello" * 20_000]
    assert sum(cluster.guarded(name).guard.counters.streams for name in "abc") == 2, "both ends of one stream"


def test_a_cluster_lives_with_loss_restarts_and_new_addresses() -> None:
    weather = LinkSettings(
        latency_us=500, jitter_us=200, loss=0.1, reorder=0.1, reorder_us=3_000, duplicate=0.1, burst_begin=0.005
    )
    for seed in range(3):
        cluster = GuardedCluster("a", "b", "c", "d", seed=seed, network=NetworkSettings(lan=weather))
        cluster.join("a", "alice", "chat")
        assert cluster.run_until_quiet()
        cluster.partition("ab", "cd")
        cluster.crash("d")
        cluster.run_for(3_000)
        cluster.restart("d", address="d.elsewhere")
        cluster.pause("b")
        cluster.run_for(500)
        cluster.resume("b")
        cluster.send("c", "carol", "chat", "hello")
        cluster.heal()
        assert cluster.finish() and not check(cluster.rows).violations
        assert [cluster.members(name) for name in "abcd"] == ["abcd"] * 4


# --- who must stay outside -------------------------------------------------------------------------------------------


def assert_refused(cluster: GuardedCluster, reason: str, peer: str, *, nodes: str = "ab") -> None:
    """The others refuse it, count it, tell of it once, and their daemon view does not change."""
    cluster.run_for(3_000)
    views = [cluster.daemon_view(name) for name in nodes]
    installed = Counter(type(row.entry) for row in cluster.rows)[DaemonViewDelivered]
    outsiders = sum(1 for row in cluster.rows if row.node == peer and isinstance(row.entry, DaemonViewDelivered))
    cluster.run_for(5_000)
    assert [cluster.members(name) for name in nodes] == [nodes] * len(nodes)
    assert [cluster.daemon_view(name) for name in nodes] == views
    now = sum(1 for row in cluster.rows if row.node == peer and isinstance(row.entry, DaemonViewDelivered))
    assert Counter(type(row.entry) for row in cluster.rows)[DaemonViewDelivered] - installed == now - outsiders
    told = [(note.peer, note.reason) for name in nodes for note in cluster.guarded(name).notes]
    assert sum(cluster.refused(name).get(reason, 0) for name in nodes) > 2
    assert 1 <= sum(1 for who, why in told if why == reason and who.startswith(peer)) <= len(nodes)
    for name in nodes:
        notes = [(note.peer, note.reason) for note in cluster.guarded(name).notes]
        assert len(notes) == len(set(notes))


def test_a_daemon_with_a_wrong_key_stays_outside() -> None:
    cluster = GuardedCluster("a", "b", "c", keys={"c": key_of("c", "guessed")})
    assert_refused(cluster, "wrong key", "c")
    assert cluster.members("c") == "c"


def test_a_daemon_without_a_guard_stays_outside() -> None:
    cluster = GuardedCluster("a", "b", "c", open_nodes="c")
    assert_refused(cluster, "not sealed", "c")
    assert cluster.members("c") == "c"


def test_a_daemon_of_another_cluster_stays_outside() -> None:
    cluster = GuardedCluster("a", "b", "c", rosters={"c": roster_of("a", "b", "c", cluster="elsewhere")})
    assert_refused(cluster, "wrong check", "c")


def test_a_removed_daemon_is_out_and_stays_out() -> None:
    cluster = GuardedCluster("a", "b", "c")
    assert cluster.run_until_quiet() and cluster.members("a") == "abc"
    for name in "ab":
        cluster.reload(name, roster_of("a", "b"), "c")
    assert_refused(cluster, "unknown daemon", "c")
    cluster.crash("c")
    cluster.restart("c")
    assert_refused(cluster, "unknown daemon", "c")


def test_a_removed_daemon_is_out_of_streams_too() -> None:
    sites = {"a": "x", "b": "x", "c": "y"}
    cluster = GuardedCluster("a", "b", "c", sites=sites, streams=[frozenset("xy")])
    assert cluster.run_until_quiet() and cluster.members("a") == "abc"
    for name in "ab":
        cluster.reload(name, roster_of("a", "b"), "c")
    assert_refused(cluster, "unknown daemon", "c")


def test_replays_and_forgeries_change_nothing() -> None:
    cluster = GuardedCluster("a", "b", "c")
    cluster.join("a", "alice", "chat")
    assert cluster.run_until_quiet()
    cluster.send("b", "bob", "chat", "hello")
    assert cluster.run_until_quiet()
    views = [cluster.daemon_view(name) for name in "abc"]
    heard = cluster.messages("a", "alice")
    overheard = [packet for to, packets in cluster.guarded("b").sent if to in (None, "a.1") for packet in packets]
    assert len(overheard) > 20
    choice = Choice("mutants")
    for packet in overheard:
        mutant = bytearray(packet)
        mutant[choice.below(len(mutant))] ^= 1 + choice.below(255)
        cluster.inject("a", "b.1", packet, bytes(mutant), packet[: choice.below(len(packet))])
        cluster.inject("a", "eve.1", packet, bytes(mutant))
        cluster.run_for(1)
    cluster.run_for(5_000)
    assert [cluster.daemon_view(name) for name in "abc"] == views
    assert cluster.messages("a", "alice") == heard
    refused = cluster.refused("a")
    assert refused["replayed"] and refused["other address"] and refused["not authentic"]
    notes = [(note.peer, note.reason) for note in cluster.guarded("a").notes]
    assert len(notes) == len(set(notes)) < 20
    cluster.send("b", "bob", "chat", "still here")
    assert cluster.finish() and not check(cluster.rows).violations
    assert cluster.messages("a", "alice") == [*heard, b"still here"]


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = []
    for _ in range(2):
        cluster = GuardedCluster("a", "b", "c", seed=4)
        cluster.run_for(2_000)
        runs.append([cluster.guarded(name).sent for name in "abc"])
    assert runs[0] == runs[1]
