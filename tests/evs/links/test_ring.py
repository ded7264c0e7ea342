"""The token ring: every frame once at every other member, the lines, the resting token, its loss, its bounds."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.ring.packets import PacketStore
from isotone.evs.links.ring.token import NOBODY, Token, decode_token, encode_token, lower_or_raise
from tests.evs.links.ring_pair import Lan, lan_of


def stamps(lan: Lan) -> list[tuple[int, int, int]]:
    return sorted(stamp for origin in lan.origins.values() for stamp in origin.stamped)


def assert_complete(lan: Lan, count: int) -> None:
    everything = stamps(lan)
    assert len(everything) == count
    assert [each[0] for each in everything] == list(range(1, count + 1)), "site sequences are dense"
    assert [each[1] for each in everything] == sorted({each[1] for each in everything}), "times grow with them"
    for member in lan.rings:
        mine = lan.origins[member].stamped
        others = lan.arrived.get(member, [])
        assert sorted([*mine, *others]) == everything, f"member {member}: each frame once"


@pytest.mark.parametrize("seed", range(40))
def test_every_frame_reaches_everyone_once_through_loss_reordering_and_duplication(seed: int) -> None:
    choice = Choice(f"test/{seed}")
    count = choice.between(1, 8)
    acceleration = choice.pick([0, 2, 60])
    settings = RingSettings(late_window=acceleration, token_retries_max=60)
    lan = lan_of(count, seed, settings=settings, loss=choice.pick([0.0, 0.1, 0.3]), duplication=0.1)
    sent = 0
    for _ in range(30):
        for _ in range(choice.between(1, 4)):
            lan.submit(choice.below(count), b"x" * choice.pick([0, 10, 900, 5_000]))
            sent += 1
        lan.run(lan.now + choice.between(0, 4_000))
    assert lan.run(lan.now + 20_000_000), "the token comes to rest"
    assert not lan.failed
    assert_complete(lan, sent)
    top = stamps(lan)[-1][1]
    assert set(lan.lines.values()) == {top} and len(lan.lines) == count, "all know that all have everything"
    assert all(len(ring._packets) == 0 for ring in lan.rings.values()), "nothing is kept that all have"


def test_a_lone_message_needs_no_timer() -> None:
    """The resting token goes to whoever asks; who has it sends at once."""
    lan = lan_of(3, 1)
    lan.run(1_000_000)
    start = lan.now
    lan.submit(2, b"hello")
    while not lan.origins[2].stamped:
        lan.run(lan.now + 10)
    assert lan.now - start <= 2 * (lan.latency_us + lan.jitter_us) + 10, "request and token, no more"
    lan.run(lan.now + 1_000_000)
    lan.submit(2, b"again")
    assert len(lan.origins[2].stamped) == 2, "it rests with who sent last"


def test_at_rest_nothing_travels() -> None:
    lan = lan_of(5, 2)
    assert lan.run(10_000_000)


def test_a_member_that_stalls_fails_the_ring_within_the_bound() -> None:
    settings = RingSettings()
    lan = lan_of(4, 3, settings=settings)
    lan.run(100_000)
    lan.stalled.add(2)
    start = lan.now
    lan.submit(0, b"x")
    lan.run(start + settings.failure_bound_us() + 100_000)
    assert lan.failed == {1: "the token was lost on its way to daemon 2"}


def test_memory_stays_under_its_bound_behind_a_deaf_member() -> None:
    """A member that hears the token but no data holds the packet line down; new packets stop at the window."""
    settings = RingSettings(unsettled_max=50, personal_window=20, global_window=40)
    lan = lan_of(3, 4, settings=settings)
    lan.run(100_000)
    lan.deaf.add(2)
    for _ in range(300):
        lan.submit(0, b"x" * 1_000)
        lan.run(lan.now + 1_000)
    assert len(lan.rings[0]._packets) <= settings.unsettled_max + settings.global_window
    assert lan.origins[0].is_waiting(), "the rest waits above"


def test_acceleration_asks_only_for_what_the_previous_token_promised() -> None:
    """Reference: D-accelerated. With no loss nothing is ever asked for, though packets overtake the token."""
    lan = lan_of(4, 5, settings=RingSettings(late_window=60))
    lan.jitter_us = 0
    for round_ in range(50):
        for member in lan.rings:
            lan.submit(member, b"x" * 3_000)
        lan.run(lan.now + 500 * (round_ % 3))
    lan.run(lan.now + 5_000_000)
    assert [ring.counters.requests_sent for ring in lan.rings.values()] == [0, 0, 0, 0]


def test_lines_on_the_token() -> None:
    """Reference: [Spread 4.1], the computation of link_aru and site_aru."""
    assert lower_or_raise(9, NOBODY, mine=5, top=9, me=1) == (5, 1), "lowered, and I hold it down"
    assert lower_or_raise(5, 1, mine=7, top=9, me=2) == (5, 1), "another holds it down"
    assert lower_or_raise(5, 1, mine=7, top=9, me=1) == (7, 1), "raised, and I still hold it down"
    assert lower_or_raise(5, 1, mine=9, top=9, me=1) == (9, NOBODY), "released"


def test_tokens_survive_the_wire_and_bad_ones_are_refused() -> None:
    token = Token(9, 8, 7, NOBODY, 6, 5, 4, 3, 2, 1, 9, 2, (8,))
    assert decode_token(memoryview(encode_token(token))) == token
    for bad in (b"", encode_token(token)[:-1], encode_token(token) + b"x"):
        with pytest.raises(RemoteProtocolError):
            decode_token(memoryview(bad))


def test_packet_store_knows_its_holes() -> None:
    store = PacketStore()
    assert store.add(1, [b"1"]) and store.add(4, [b"4"]) and not store.add(4, [b"4"])
    assert store.through == 1
    assert store.missing(3, 10) == [2, 3]
    assert store.missing(5, 1) == [2]
    store.settle(1)
    assert len(store) == 1 and not store.add(1, [b"1"])


def test_a_ring_of_one_keeps_nothing_back() -> None:
    """Its frames go nowhere, so a frame of more packets than a visit allows does not stand in the way of the next."""
    lan = lan_of(1, 6, settings=RingSettings(personal_window=2))
    for _ in range(5):
        lan.submit(0, b"x" * 50_000)
    assert len(lan.origins[0].stamped) == 5
    assert lan.rings[0].room == RingSettings().queue_bytes_max and len(lan.rings[0]._packets) == 0


def test_a_member_that_never_gets_the_token_fails_the_ring_within_the_bound() -> None:
    """Whoever had it at rest is gone, and nobody else waits for a sign of life."""
    settings = RingSettings()
    lan = lan_of(3, 7, settings=settings)
    lan.run(100_000)
    lan.submit(0, b"x")
    lan.run(lan.now + 1_000_000)
    lan.stalled.add(0)
    start = lan.now
    lan.submit(1, b"x")
    lan.run(start + settings.wait_bound_us() + 10_000)
    assert lan.failed == {1: "the token did not come after 200 requests"}
    assert lan.run(lan.now + 10_000_000), "and then it is silent"
