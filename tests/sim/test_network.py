"""Links, cuts, datagrams and multicast."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    DatagramsReceived,
    DatagramsRefused,
    MulticastDatagrams,
    SendDatagrams,
)
from isotone.core.errors import LocalProtocolError
from isotone.sim import Boot, LinkSettings, NetworkSettings, World
from isotone.sim.links import Link
from tests.sim.automata import Scripted, Told, obedient, obey

PLAIN = LinkSettings(latency_us=100, jitter_us=0)


def network(lan: LinkSettings = PLAIN, **sites: str) -> World:
    """A world of nodes a, b, c … at their sites."""
    world = World(seed=7, network=NetworkSettings(lan=lan, wan=LinkSettings(latency_us=5_000, jitter_us=0)))
    for name, site in sites.items():
        world.add_process(name, obedient, site=site)
    return world


def tell(world: World, name: str, *actions: Action, label: str = "main") -> None:
    world.tell(name, label, Told(0, actions))


def received(world: World, name: str, label: str = "main") -> list[DatagramsReceived]:
    automaton = world.automaton(name, label)
    assert isinstance(automaton, Scripted)
    return [event for event in automaton.heard if isinstance(event, DatagramsReceived)]


def texts(world: World, name: str, label: str = "main") -> list[bytes]:
    return [bytes(event.data) for event in received(world, name, label)]


def send(to: str, *datagrams: bytes) -> SendDatagrams:
    return SendDatagrams(Address(to), [[datagram] for datagram in datagrams])


# --- datagrams -----------------------------------------------------------------------------------------------------


def test_a_datagram_takes_the_latency_of_its_link() -> None:
    world = network(a="lan", b="lan", c="far")
    tell(world, "a", send("b.1", b"near"), send("c.1", b"far"))
    world.run_until(99)
    assert not texts(world, "b")
    world.run_until(100)
    assert texts(world, "b") == [b"near"] and received(world, "b")[0].source == "a.1"
    world.run_until(4_999)
    assert not texts(world, "c")
    world.run_until(5_000)
    assert texts(world, "c") == [b"far"]


def test_parts_are_joined() -> None:
    world = network(a="lan", b="lan")
    tell(world, "a", SendDatagrams(Address("b.1"), [[b"he", memoryview(b"ader"), b"|body"]]))
    world.run_until(100)
    assert texts(world, "b") == [b"header|body"]


def test_datagrams_sent_together_arrive_as_trains_of_one_size() -> None:
    world = network(a="lan", b="lan")
    tell(world, "a", send("b.1", b"aaaa", b"bbbb", b"cc", b"dddd", b"eeeeee", b"", b"ff"))
    world.run_until(100)
    trains = [(bytes(event.data), event.segment_size) for event in received(world, "b")]
    assert trains == [(b"aaaabbbbcc", 4), (b"dddd", 4), (b"eeeeee", 6), (b"", 0), (b"ff", 2)]
    assert world.network.datagrams_received == 7


def test_a_train_is_no_longer_than_the_kernel_makes_it() -> None:
    world = network(a="lan", b="lan")
    tell(world, "a", send("b.1", *[bytes(1_400)] * 100))
    world.run_until(100)
    assert [len(event.data) for event in received(world, "b")] == [46 * 1_400, 46 * 1_400, 8 * 1_400]


def test_an_address_that_changed_is_reached_no_more() -> None:
    world = network(a="lan", b="lan")
    world.crash("b")
    world.restart("b", address="elsewhere")
    tell(world, "a", send("b.1", b"old"), send("elsewhere", b"new"), send("nowhere", b"lost"))
    world.run_until(1_000)
    assert texts(world, "b") == [b"new"]


def test_a_datagram_for_the_last_incarnation_does_not_reach_the_next() -> None:
    world = network(a="lan", b="lan")
    tell(world, "a", send("b.1", b"late"))
    world.run_until(50)
    world.crash("b")
    world.restart("b")
    world.run_until(1_000)
    assert not texts(world, "b")


def ports(boot: Boot) -> Mapping[str, Automaton]:
    return {"main": Scripted(obey), "side": Scripted(obey)}


def test_labels_are_ports() -> None:
    world = World(seed=1)
    world.add_process("a", ports)
    world.add_process("b", ports)
    tell(world, "a", send("b.1/side", b"to side"), label="side")
    tell(world, "a", send("a.1/side", b"to oneself"))
    tell(world, "b", MulticastDatagrams("lan", [[b"all sides"]]), label="side")
    world.run_until(1_000)
    assert [(event.source, bytes(event.data)) for event in received(world, "b", "side")] == [("a.1/side", b"to side")]
    assert texts(world, "a", "side") == [b"to oneself", b"all sides"]
    assert not texts(world, "b") and not texts(world, "a")


# --- multicast -----------------------------------------------------------------------------------------------------


def test_multicast_reaches_all_others_of_the_site() -> None:
    world = network(a="lan", b="lan", c="lan", d="far")
    tell(world, "a", MulticastDatagrams("lan", [[b"hello"]]), MulticastDatagrams("far", [[b"no route"]]))
    world.run_until(10_000)
    assert [texts(world, name) for name in "abcd"] == [[], [b"hello"], [b"hello"], []]


def test_each_receiver_of_a_multicast_has_its_own_losses() -> None:
    world = network(LinkSettings(latency_us=100, jitter_us=0, loss=0.5), a="lan", b="lan", c="lan")
    for number in range(200):
        tell(world, "a", MulticastDatagrams("lan", [[b"%d" % number]]))
    world.run_until(10_000)
    b, c = set(texts(world, "b")), set(texts(world, "c"))
    assert 60 < len(b) < 140 and 60 < len(c) < 140 and b != c


# --- cuts ----------------------------------------------------------------------------------------------------------


def reach(world: World) -> set[str]:
    """Which directions work now."""
    names = list(world.nodes)
    before = {name: len(texts(world, name)) for name in names}
    for name in names:
        tell(world, name, *(send(f"{other}.1", name.encode()) for other in names if other != name))
    world.run_for(20_000)
    return {text.decode() + name for name in names for text in texts(world, name)[before[name] :]}


def test_partitions_cuts_and_healing() -> None:
    world = network(a="lan", b="lan", c="lan")
    everything = {"ab", "ba", "ac", "ca", "bc", "cb"}
    assert reach(world) == everything
    world.partition(["a", "b"], ["c"])
    assert reach(world) == {"ab", "ba"}
    world.partition(["a"], ["b"])  # replaces the first one; c is named in none and forms a side of its own
    assert reach(world) == set()
    world.partition(["a"])
    assert reach(world) == {"bc", "cb"}
    world.heal()
    world.cut("a", "b", one_way=True)
    assert reach(world) == everything - {"ab"}
    world.cut("b", "c")
    assert reach(world) == everything - {"ab", "bc", "cb"}
    world.mend("a", "b", one_way=True)
    assert reach(world) == everything - {"bc", "cb"}
    assert world.components() == (("a", "b", "c"),)  # not transitive, and yet connected over a
    world.heal()
    assert reach(world) == everything


def test_a_cut_loses_what_would_arrive_while_it_lasts() -> None:
    world = network(a="lan", b="lan")
    tell(world, "a", send("b.1", b"in flight"))
    world.run_until(50)
    world.cut("a", "b")
    world.run_until(150)
    world.heal()
    tell(world, "a", send("b.1", b"after"))
    world.run_until(1_000)
    assert texts(world, "b") == [b"after"]


def test_unknown_names_are_refused() -> None:
    world = network(a="lan", b="lan")
    with pytest.raises(LocalProtocolError, match="no node 'x'"):
        world.partition(["a"], ["x"])
    with pytest.raises(LocalProtocolError, match="stands on two sides"):
        world.partition(["a"], ["a", "b"])
    with pytest.raises(LocalProtocolError, match="no node 'x'"):
        world.cut("a", "x")
    with pytest.raises(LocalProtocolError, match="taken by a#1"):
        world.add_process("x", obedient, address="a.1")


# --- one link ------------------------------------------------------------------------------------------------------


def test_bandwidth_spaces_packets_and_the_queue_drops_at_its_tail() -> None:
    slow = LinkSettings(latency_us=100, jitter_us=0, bandwidth_bytes_per_second=1_000_000, queue_bytes_max=3_000)
    link = Link(slow, Choice(1))
    departures = [link.departure(0, 1_000) for _ in range(6)]
    # 1,000 bytes take 1 ms. A packet is taken while at most 3,000 bytes wait before it.
    assert departures == [1_000, 2_000, 3_000, 4_000, -1, -1]
    assert link.dropped == 2
    assert link.departure(1_500, 500) == 4_500


def test_loss_in_bursts_has_the_share_and_the_length_that_follow_from_the_chain() -> None:
    begin, end = 0.01, 0.2
    settings = LinkSettings(burst_begin=begin, burst_end=end, burst_loss=1.0)
    link = Link(settings, Choice(1))
    lost = [link.loses() for _ in range(100_000)]
    share = begin / (begin + end)  # the stationary probability of the bad state
    assert sum(lost) / len(lost) == pytest.approx(share, rel=0.1)
    bursts = sum(1 for before, now in zip([False, *lost], lost) if now and not before)
    assert sum(lost) / bursts == pytest.approx(1 / end, rel=0.1)


def test_a_burst_does_not_outlast_the_weather_it_came_with() -> None:
    link = Link(LinkSettings(burst_begin=1.0, burst_end=0.0, burst_loss=1.0), Choice(1))
    assert link.loses() and link.loses()
    link.change(LinkSettings())
    assert not any(link.loses() for _ in range(20))


def test_jitter_keeps_the_order_and_reordering_breaks_it() -> None:
    jittery = Link(LinkSettings(latency_us=100, jitter_us=500), Choice(1))
    arrivals = [jittery.arrival(now) for now in range(0, 1_000, 10)]
    assert arrivals == sorted(arrivals)
    world = network(LinkSettings(latency_us=100, jitter_us=0, reorder=0.2, duplicate=0.2), a="lan", b="lan")
    for number in range(300):
        tell(world, "a", send("b.1", b"%03d" % number))
        world.run_for(10)
    world.run_for(10_000)
    heard = texts(world, "b")
    assert set(heard) == {b"%03d" % number for number in range(300)}
    assert heard != sorted(heard)
    assert 330 < len(heard) < 390


def test_the_tail_of_latency_is_rare_and_long() -> None:
    link = Link(LinkSettings(latency_us=100, jitter_us=10, tail_probability=0.01, tail_us=10_000), Choice(1))
    draws = [link.latency() for _ in range(10_000)]
    late = [draw for draw in draws if draw > 110]
    assert min(draws) == 100 and max(draws) > 5_000 and 60 < len(late) < 140


# --- refusal -------------------------------------------------------------------------------------------------------


def refusals(world: World, name: str) -> list[DatagramsRefused]:
    automaton = world.automaton(name, "main")
    assert isinstance(automaton, Scripted)
    return [event for event in automaton.heard if isinstance(event, DatagramsRefused)]


def test_a_living_host_without_a_listener_refuses_after_a_round_trip() -> None:
    world = network(a="lan", b="lan")
    world.crash("b")
    tell(world, "a", send("b.1", b"anyone?"))
    world.run_until(199)
    assert not refusals(world, "a")
    world.run_until(200)
    assert [event.destination for event in refusals(world, "a")] == ["b.1"]


def test_nobody_refuses_across_a_cut_or_once_the_listener_is_back() -> None:
    world = network(a="lan", b="lan")
    world.crash("b")
    world.partition(["a"], ["b"])
    tell(world, "a", send("b.1", b"lost"))
    world.heal()
    tell(world, "a", send("b.1", b"in time"))
    world.run_until(50)
    world.restart("b")
    world.run_until(1_000)
    assert not refusals(world, "a")


def test_a_slow_link_delivers_packets_one_by_one() -> None:
    world = network(LinkSettings(latency_us=100, jitter_us=0, bandwidth_bytes_per_second=125_000), a="lan", b="lan")
    tell(world, "a", send("b.1", b"x" * 1_000, b"y" * 1_000))
    world.run_until(1_000_000)
    assert [len(event.data) for event in received(world, "b")] == [1_000, 1_000]
