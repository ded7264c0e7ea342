"""[Spread 4], clause by clause: what each says, on the classes that the daemon runs."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.evs.links.contract import frame_of
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.packing import Packer
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.ring.token import NOBODY, lower_or_raise
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import LinkProtocol, fanout, make_link, make_site, make_topology, shared_tree
from isotone.sim.speaker_groups import pack
from tests.evs.links.pair import Path, World, bodies, hop_pair
from tests.evs.links.ring_pair import Lan, lan_of
from tests.evs.transport.cluster import Cluster

SECOND = 1_000_000


def hop(loss: float = 0.0, settings: HopSettings | None = None, **there: object):  # type: ignore[no-untyped-def]
    world = World()
    forth = Path(Choice("forth"), loss=loss, **there)  # type: ignore[arg-type]
    return world, forth, *hop_pair(world, forth, Path(Choice("back"), loss=loss), settings)


# --- the introduction of the chapter -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_a_message_sent_anywhere_is_forwarded_to_all_others(protocol: LinkProtocol) -> None:
    cluster = Cluster("a b c d e", "a-b b-c c-d d-e", protocol=protocol)
    for name in cluster.names:
        cluster.send(name, Service.RELIABLE)
    cluster.run()
    assert all(len(cluster.speaker(name).heard) == 5 for name in cluster.names)


def test_packets_are_received_or_the_link_is_declared_failed() -> None:
    for loss in (0.0, 0.3, 1.0):
        world, _, left, right = hop(loss)
        world.offer(left, frame_of(1, b"frame"))
        world.run_quiet(120 * SECOND)
        assert (len(right.arrived) == 1) != (left.failed is not None)


def test_a_whole_lan_is_one_node_of_the_overlay() -> None:
    """Only the gateway of a site has links to other sites."""
    cluster = Cluster("abc def", "a-d")
    for name in cluster.names:
        cluster.send(name, Service.AGREED)
    cluster.run()
    assert all(len(cluster.speaker(name).heard) == 6 for name in cluster.names)
    assert [name for name in cluster.names if cluster.transport(name).gateway] == ["a", "d"]


def test_packets_are_filled_with_as_many_messages_as_possible() -> None:
    packer = Packer(1_352)
    packer.offer([frame_of(1, bytes(92))] * 13 + [frame_of(2, bytes(26))])
    _, size = packer.next_body()
    assert size == 13 * 100 + 34 and not packer, "data and control in one packet"


# --- 4.1 -----------------------------------------------------------------------------------------------------------


def ring_after(*submissions: tuple[int, int], settings: RingSettings | None = None) -> Lan:
    lan = lan_of(3, 1, settings=settings)
    for member, size in submissions:
        lan.submit(member, b"x" * size)
    lan.run(5 * SECOND)
    return lan


def resting_token(lan: Lan):  # type: ignore[no-untyped-def]
    (token,) = [ring._custody.at_rest for ring in lan.rings.values() if ring._custody.at_rest is not None]
    return token


def test_the_token_counts_packets_messages_and_time() -> None:
    """link_seq, link_aru, site_seq, site_lts."""
    token = resting_token(ring_after((0, 10), (1, 5_000), (2, 10)))
    assert token.site_sequence == 3 and token.site_lamport == 3
    assert token.link_sequence >= 5, "five thousand bytes are four packets"
    assert token.received == token.link_sequence and token.missing == ()


def test_a_unique_sequence_is_assigned_to_every_message_and_every_packet() -> None:
    lan = lan_of(4, 2, loss=0.2)
    for place in range(40):
        lan.submit(place % 4, b"x" * 700)
        lan.run(lan.now + 300)
    lan.run(lan.now + 10 * SECOND)
    stamps = sorted(stamp for origin in lan.origins.values() for stamp in origin.stamped)
    assert [stamp[0] for stamp in stamps] == list(range(1, 41))
    assert [stamp[1] for stamp in stamps] == sorted({stamp[1] for stamp in stamps})


def test_what_is_missing_is_asked_for_on_the_token_and_sent_again() -> None:
    """The rtr list."""
    lan = lan_of(4, 3, loss=0.3)
    for place in range(50):
        lan.submit(place % 4, b"x" * 1_000)
    lan.run(lan.now + 20 * SECOND)
    assert all(len(lan.arrived[member]) + len(lan.origins[member].stamped) == 50 for member in lan.rings)
    assert sum(ring.counters.requests_sent for ring in lan.rings.values()) > 0
    assert sum(ring.counters.packets_resent for ring in lan.rings.values()) > 0


def test_who_has_less_lowers_the_line_and_who_lowered_it_raises_it() -> None:
    assert lower_or_raise(9, NOBODY, mine=5, top=9, me=1) == (5, 1)
    assert lower_or_raise(5, 1, mine=8, top=9, me=2) == (5, 1), "another one holds it down"
    assert lower_or_raise(5, 1, mine=9, top=9, me=1) == (9, NOBODY)
    assert lower_or_raise(5, NOBODY, mine=9, top=9, me=2) == (9, NOBODY), "nobody lowered it"


def test_a_line_that_a_member_uses_is_one_that_everybody_has() -> None:
    """The lesser of this round's value and the previous one's: checked after every event of a lossy run."""
    lan = lan_of(3, 4, loss=0.25)
    for place in range(60):
        lan.submit(place % 3, b"x" * 500)
        for _ in range(4):
            lan.run(lan.now + 150)
            everywhere = min(origin.line for origin in lan.origins.values())
            assert all(line <= everywhere for line in lan.lines.values())


def test_a_member_sends_within_its_own_limit_and_what_the_total_leaves() -> None:
    settings = RingSettings(personal_window=3, global_window=5, late_window=0)
    lan = lan_of(3, 5, settings=settings)
    lan.run(SECOND)
    for member in lan.rings:
        lan.submit(member, *[b"x" * 1_300] * 30)
    before = {member: ring._custody.visit for member, ring in lan.rings.items()}
    lan.run(lan.now + SECOND)
    rotations = (max(ring._custody.visit for ring in lan.rings.values()) - max(before.values())) / 3
    assert rotations >= 90 / settings.global_window, "five packets in a rotation at most"


# --- 4.2 -----------------------------------------------------------------------------------------------------------


def test_over_tcp_messages_keep_their_bounds() -> None:
    """A length stands before every message, so what was written apart arrives apart."""
    cluster = Cluster("a b", "a-b", protocol=LinkProtocol.TCP)
    for length in (0, 1, 5_000, 40_000):
        cluster.send("a", Service.FIFO, length)
    cluster.run()
    head = len(pack(1, (0,)))
    assert [len(unit.body) - head for unit in cluster.speaker("b").heard] == [0, 1, 5_000, 40_000]


def test_a_connection_that_closes_fails_the_link() -> None:
    cluster = Cluster("a b", "a-b", protocol=LinkProtocol.TCP)
    cluster.send("a", Service.AGREED)
    cluster.run()
    cluster.world.crash("b")
    cluster.send("a", Service.AGREED)
    cluster.world.run_for(40 * SECOND)
    assert "stream closed" in cluster.speaker("a").failed


# --- 4.3 -----------------------------------------------------------------------------------------------------------


def test_packets_are_handed_up_despite_the_loss_of_earlier_ones() -> None:
    """Non-blocking."""
    world, forth, left, right = hop()
    for number in range(3):
        forth.loss = 1.0 if number == 1 else 0.0
        world.offer(left, frame_of(1, b"%d" % number))
    world.run(1_500)
    assert bodies(right) == [(1, b"0"), (1, b"2")]
    world.run_quiet(10 * SECOND)
    assert bodies(right) == [(1, b"0"), (1, b"1"), (1, b"2")]


def test_a_request_waits_for_packets_that_are_merely_late() -> None:
    """Lazy selective retransmits."""
    world, forth, left, right = hop()
    for number in range(2):
        forth.delay_us = 1_800 if number == 0 else 1_000
        world.offer(left, frame_of(1, b"%d" % number))
    world.run_quiet(10 * SECOND)
    assert len(right.arrived) == 2 and left.link.counters.packets_resent == 0
    assert right.link.counters.requests_sent == 0


def test_the_loss_of_the_last_packet_is_found_by_announcing_the_highest() -> None:
    world, forth, left, right = hop()
    forth.loss = 1.0
    world.offer(left, frame_of(1, b"last"))
    forth.loss = 0.0
    world.run_quiet(10 * SECOND)
    assert bodies(right) == [(1, b"last")]


def test_both_kinds_of_failure_are_detected() -> None:
    """Who never gets a packet that it asks for, and who is asked for a packet again and again."""
    world, forth, left, right = hop()
    world.offer(left, frame_of(1, b"before"))
    world.run(SECOND)
    forth.drops = lambda data: b"poison" in data
    world.offer(left, frame_of(1, b"poison"))
    world.offer(left, frame_of(1, b"after"))
    world.run_quiet(120 * SECOND)
    assert left.failed is not None or right.failed is not None
    assert b"poison" not in [body for _, body in bodies(right)]


def test_duplicates_are_discarded() -> None:
    world, _, left, right = hop(duplicate=1.0)
    for number in range(20):
        world.offer(left, frame_of(1, b"%d" % number))
        world.run(world.now + 3_000)
    world.run_quiet(10 * SECOND)
    assert len(right.arrived) == 20 and right.link.counters.duplicates >= 20


def test_copies_are_released_when_they_are_acknowledged() -> None:
    world, _, left, _ = hop(loss=0.2)
    for _ in range(200):
        world.offer(left, frame_of(1, bytes(1_000)))
        world.run(world.now + 1_000)
    world.run_quiet(60 * SECOND)
    assert left.link.counters.buffered_bytes == 0


def test_the_rate_of_a_link_is_limited_by_a_leaky_bucket() -> None:
    settings = HopSettings(rate_bytes_per_second=50_000, burst_bytes=3_000)
    world, _, left, right = hop(settings=settings)
    for _ in range(100):
        world.offer(left, frame_of(1, bytes(1_000)))
    world.run(SECOND)
    assert sum(frame.size for _, frame in right.arrived) <= 53_000


# --- 4.4 -----------------------------------------------------------------------------------------------------------


def test_fanout_and_shared_tree_are_weightings_of_one_overlay() -> None:
    names = "abcd"
    links = [make_link(one, other, 10 * abs(ord(one) - ord(other))) for one in names for other in names if one < other]
    topology = make_topology([make_site(name, [name]) for name in names], links)
    direct, tree = Routes(fanout(topology)), Routes(shared_tree(topology))
    assert all(set(direct.children(name, name)) == set(names) - {name} for name in names)
    assert {link.name for name in names for link in tree.links_used(name)} == {"a~b", "b~c", "c~d"}
