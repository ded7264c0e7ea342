"""Daemons behind Guards in the simulator: they find each other, and nobody else gets in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Address, DatagramsReceived
from isotone.core.ids import DaemonId
from isotone.daemon.security.handshakes import Handshakes, Refusal
from isotone.daemon.security.keys import Identity
from isotone.daemon.security.packets import CHECK_BYTES, Kind
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.spec.check import check
from isotone.trace.events import DaemonViewDelivered
from tests.daemon.security.guarded import GuardedCluster, Source, key_of, roster_of


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


STEP_MS, STEPS_MAX = 1, 5_000


def restart_within_ms(attack: Callable[[GuardedCluster, int], None], seed: int = 0) -> int:
    """How long a daemon that was away for a while takes to be back with the others, under attack all the time."""
    cluster = GuardedCluster("a", "b", "c", seed=seed)
    cluster.join("a", "alice", "chat")
    assert cluster.run_until_quiet()
    cluster.crash("b")
    for step in range(300):
        attack(cluster, step)
        cluster.run_for(STEP_MS)
    cluster.restart("b")
    for step in range(STEPS_MAX):
        if all(cluster.members(name) == "abc" for name in "abc"):
            return step * STEP_MS
        attack(cluster, step)
        cluster.run_for(STEP_MS)
    raise AssertionError(f"not together after {STEPS_MAX * STEP_MS} ms")


def let_be(cluster: GuardedCluster, step: int) -> None:
    """No attack."""


def replaying() -> Callable[[GuardedCluster, int], None]:
    """All that was overheard before the restart, from where it came and from elsewhere; handshakes most often."""
    overheard: list[tuple[str, bytes]] = []

    def attack(cluster: GuardedCluster, step: int) -> None:
        if not overheard:
            heard = [(name, each) for name in "ac" for _, packets in cluster.guarded(name).sent for each in packets]
            handshakes = [each for each in heard if each[1][0] in (Kind.FIRST, Kind.SECOND, Kind.THIRD)]
            overheard.extend([*heard[:200], *handshakes * 10])
        for place in range(10 * step, 10 * step + 10):
            name, packet = overheard[place % len(overheard)]
            for victim in (each for each in "abc" if each != name and cluster.world.is_up(each)):
                cluster.inject(victim, f"{name}.1", packet)
                cluster.inject(victim, f"eve.{place % 300}", packet)

    return attack


def flooding() -> Callable[[GuardedCluster, int], None]:
    """A thousand calls in a second, from addresses of its own: it proves them."""
    source = Source("eve")
    eve = Handshakes(Identity(DaemonId("eve", 1), key_of("eve")), roster_of("a", "b", "c"), source)
    calls = [eve.call(Address(f"nobody.{number}"), 0)[0][:-CHECK_BYTES] for number in range(397)]

    def attack(cluster: GuardedCluster, step: int) -> None:
        call, address = calls[step % len(calls)], Address(f"eve.{step % 50}")
        for victim in (each for each in "abc" if cluster.world.is_up(each)):

            def knock(at: int, victim: str = victim) -> DatagramsReceived:
                checks = cluster.guarded(victim).guard._datagrams.handshakes._checks
                message = checks.prove(call, checks.cookie(address, at))
                return DatagramsReceived(at, address, message, len(message))

            cluster.take(victim, knock)

    return attack


def flood(victim: Handshakes, eve: Handshakes, at: int) -> None:
    for number in range(1_000):
        call, address = eve.call(Address(f"nobody.{eve.calls}"), at)[0][:-CHECK_BYTES], Address(f"eve.{number}")
        victim.on_first(victim._checks.prove(call, victim._checks.cookie(address, at)), address, at)


def test_a_flood_of_calls_does_not_hold_up_what_is_under_way() -> None:
    roster, at = roster_of("a", "b"), 1_000_000
    a, b, eve = (
        Handshakes(Identity(DaemonId(name, 1), key_of(name)), roster, Source(name)) for name in ("a", "b", "eve")
    )
    (first,) = a.call(Address("b.1"), at)
    (second,) = b.on_first(first, Address("a.1"), at)
    for victim in (a, b):
        with pytest.raises(Refusal, match="too many handshakes"):
            flood(victim, eve, at)
    established = a.on_second(second, at)
    assert established.third is not None
    assert b.on_third(established.third, Address("a.1"), at).introduction.name == "a"


def test_neither_replays_nor_a_flood_of_calls_delay_a_start() -> None:
    undisturbed = restart_within_ms(let_be)
    assert undisturbed < 1_000
    for attack in (replaying(), flooding()):
        assert restart_within_ms(attack) <= undisturbed + 50


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = []
    for _ in range(2):
        cluster = GuardedCluster("a", "b", "c", seed=4)
        cluster.run_for(2_000)
        runs.append([cluster.guarded(name).sent for name in "abc"])
    assert runs[0] == runs[1]
