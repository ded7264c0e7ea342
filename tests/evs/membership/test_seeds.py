"""Addresses of daemons whose names nobody told: they are called until somebody there is reached."""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action, Address, SendDatagrams, Started, TimerFired
from isotone.core.ids import DaemonId
from isotone.evs.membership import Membership, MembershipSettings, PeersChanged
from isotone.evs.membership.messages import DAEMONS_MAX, Alive, Envelope
from isotone.evs.membership.node import LOOKUP_TIMER
from tests.evs.membership.cluster import LABEL, Cluster

SETTINGS = MembershipSettings(multicast=False)
SEED = Address("b.1")


def strangers(sites: str, *, seeds: dict[str, tuple[Address, ...]]) -> Cluster:
    cluster = Cluster(sites, settings=SETTINGS, known=False, start=False)
    for name, addresses in seeds.items():
        cluster.own[name] = msgspec.structs.replace(cluster.settings, seeds=addresses)
    for name in cluster.names:
        cluster.world.restart(name)
    return cluster


def calls(actions: list[Action], address: Address) -> int:
    return sum(isinstance(each, SendDatagrams) and each.destination == address for each in actions)


def alone(*seeds: Address) -> Membership:
    settings = msgspec.structs.replace(SETTINGS, seeds=seeds)
    return Membership(me=DaemonId("a", 1), identity=b"a" * 16, site="s", address=Address("a.1"), settings=settings)


def test_two_daemons_meet_when_one_knows_an_address() -> None:
    cluster = strangers("a b", seeds={"b": (Address("a.1"),)})
    cluster.run_until_together(limit=3)


def test_one_seed_that_all_share_brings_all_together() -> None:
    cluster = strangers("ab c de", seeds={name: (Address("c.1"),) for name in "abcde"})
    cluster.run_until_together(limit=5)


def test_a_seed_that_starts_late_is_called_until_it_is_there() -> None:
    cluster = Cluster("a b", settings=SETTINGS, known=False, start=False)
    cluster.own["a"] = msgspec.structs.replace(cluster.settings, seeds=(SEED,))
    cluster.world.restart("a")
    cluster.run(5)
    assert cluster.view("a") == "a"
    cluster.world.restart("b")
    cluster.run_until_together(limit=5)


def test_without_a_seed_or_a_name_they_never_meet() -> None:
    cluster = strangers("a b", seeds={})
    cluster.run(10)
    assert cluster.views() == {"a": "a", "b": "b"}


def test_seeds_are_told_at_run_time_and_called_at_once() -> None:
    cluster = strangers("a b", seeds={})
    cluster.run(1)
    cluster.world.tell("a", LABEL, PeersChanged(0, seeds=(SEED,)))
    cluster.run_until_together(limit=3)


def test_who_is_reached_at_a_seed_is_not_called_any_more() -> None:
    cluster = strangers("a b", seeds={"a": (SEED,)})
    cluster.run_until_together(limit=3)
    membership = cluster.membership("a")
    membership.node.out.clear()
    membership.node.call_seeds()
    assert membership.node.out == []


def test_a_call_is_one_alive_and_comes_with_every_lookup() -> None:
    membership = alone(SEED)
    started = [each for each in membership.handle(Started(0)) if isinstance(each, SendDatagrams)]
    assert [each.destination for each in started] == [SEED]
    message = Envelope("isotone").open(memoryview(b"".join(bytes(part) for part in started[0].datagrams[0])))
    assert isinstance(message, Alive) and message.card.name == "a"
    for at in range(1, 12):
        assert calls(membership.handle(TimerFired(at * SETTINGS.lookup_us, LOOKUP_TIMER)), SEED) == 1


def test_without_seeds_nothing_is_called_and_a_change_of_peers_leaves_seeds_alone() -> None:
    assert calls(alone().handle(Started(0)), SEED) == 0
    membership = alone(SEED)
    membership.handle(Started(0))
    assert calls(membership.handle(PeersChanged(1)), SEED) == 0
    assert membership.node.seeds == (SEED,)
    membership.handle(PeersChanged(2, seeds=()))
    assert calls(membership.handle(TimerFired(SETTINGS.lookup_us, LOOKUP_TIMER)), SEED) == 0


def test_ones_own_address_among_the_seeds_is_not_called() -> None:
    membership = alone(Address("a.1"), SEED)
    assert calls(membership.handle(Started(0)), Address("a.1")) == 0


def test_seeds_are_bounded() -> None:
    many = tuple(Address(f"x.{place}") for place in range(DAEMONS_MAX + 5))
    assert len(alone(*many).node.seeds) == DAEMONS_MAX
