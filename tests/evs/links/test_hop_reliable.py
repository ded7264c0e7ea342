"""Hop links over bad networks: every frame once, or a failed link in bounded time and memory."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Address, DatagramsReceived, SendDatagrams
from isotone.evs.links.contract import FramesOffered, frame_of
from isotone.evs.links.fragments import MESSAGE_BYTES_MAX, Reassembly, parse_fragment, split
from isotone.evs.links.hop import Hop, HopSettings
from isotone.evs.links.hop.wire import DATA, HEADER
from tests.evs.links.pair import SECOND, End, Path, World, bodies, bodies_of, hop_pair, numbered

SIZES = [0, 10, 100, 1000, 1364, 1365, 5000, 60_000]


def bad_path(choice: Choice, loss: float) -> Path:
    return Path(
        choice.derive("path"),
        delay_us=choice.between(100, 80_000),
        jitter_us=choice.pick([0, 500, 20_000]),
        loss=loss,
        duplicate=choice.pick([0.0, 0.05, 0.3]),
        burst=choice.pick([0.0, 0.0, 0.01]),
        burst_us=300_000,
    )


@pytest.mark.parametrize("group", range(10))
def test_every_frame_arrives_once(group: int) -> None:
    """200 seeds: loss up to 30 %, outages, reordering, copies, unequal delays, both directions at once."""
    for seed in range(group * 20, group * 20 + 20):
        choice = Choice(seed)
        world = World()
        loss = choice.real() * 0.3
        left, right = hop_pair(world, bad_path(choice.derive("there"), loss), bad_path(choice.derive("back"), loss))
        forth = numbered(choice.between(1, 80), SIZES, choice.derive("forth"))
        back = numbered(choice.between(0, 40), SIZES[:6], choice.derive("back"))
        world.offer(left, *forth)
        world.offer(right, *back)
        world.run_quiet(600 * SECOND)
        told = f"seed {seed}, loss {loss:.2f}"
        assert left.failed is right.failed is None, told
        assert bodies(right) == bodies_of(forth), told
        assert bodies(left) == bodies_of(back), told
        for end in (left, right):
            assert end.link.counters.malformed == end.link.counters.buffered_bytes == 0, told
            assert end.memory_peak <= end.link.memory_max, told


def test_16_mib_cross_as_fragments() -> None:
    world = World()
    left, right = hop_pair(
        world,
        Path(Choice(1), delay_us=5_000, rate=12_500_000, loss=0.001, queue_bytes=200_000),
        Path(Choice(2), delay_us=5_000),
    )
    message = b"".join(number.to_bytes(4, "big") for number in range(MESSAGE_BYTES_MAX // 4))
    world.offer(left, *[frame_of(1, piece.header(), piece.body) for piece in split(message, 65_536, number=1)])
    world.run_quiet(60 * SECOND)
    reassembly = Reassembly()
    joined = [reassembly.add("left", parse_fragment(frame.body())) for _, frame in right.arrived]
    assert joined[-1] == message and not any(joined[:-1])
    assert left.memory_peak <= left.link.memory_max


def test_same_seed_same_packets() -> None:
    def run() -> list[tuple[int, bytes]]:
        world = World()
        choice = Choice("twice")
        left, right = hop_pair(world, bad_path(choice.derive("a"), 0.2), bad_path(choice.derive("b"), 0.2))
        log: list[tuple[int, bytes]] = []
        left.paths[right.address][0].drops = lambda data: log.append((world.now, data)) or False  # type: ignore[func-returns-value]
        world.offer(left, *numbered(50, SIZES, choice.derive("frames")))
        world.run_quiet(600 * SECOND)
        return log

    assert run() == run()


def test_nothing_travels_when_nothing_is_outstanding() -> None:
    world = World()
    left, right = hop_pair(world, Path(Choice(1)), Path(Choice(2)))
    world.offer(left, frame_of(1, b"x"))
    assert world.run_quiet(60 * SECOND) < SECOND
    assert left.link.counters.packets_sent == 1 and right.link.counters.packets_sent == 1


# --- failures ------------------------------------------------------------------------------------------------------


def bound(end: End) -> int:
    assert isinstance(end.link, Hop)
    return end.link.settings.fail_bound_us(end.link.timing.timeout_us) + end.link.timing.timeout_us


def keep_busy(world: World, end: End, size: int = 60_000) -> None:
    """Offer without end whenever there is room."""

    def more() -> None:
        while end.link.room > size and not end.failed:
            world.give(end, FramesOffered(world.time(end), [frame_of(1, bytes(size))]))

    end.on_roomy = more
    more()


@pytest.mark.parametrize("fast", [True, False])
def test_a_receiver_that_stalls_for_ever_fails_the_link_in_bounded_time_and_memory(fast: bool) -> None:
    world = World()
    rate = None if fast else 187_500
    settings = HopSettings(window_max=512)
    left, right = hop_pair(world, Path(Choice(1), rate=rate), Path(Choice(2)), settings)
    keep_busy(world, left)
    stalls_at = SECOND // 20 if fast else 2 * SECOND
    world.run(stalls_at)
    assert right.arrived
    right.paused = True
    world.run(stalls_at + bound(left))
    assert left.failed is not None
    assert "no acknowledgement" in left.failed[1]
    assert left.memory_peak <= left.link.memory_max
    assert left.link.counters.buffered_bytes == left.link.room == 0


@pytest.mark.parametrize(("rate", "both"), [(2_000, False), (27_500, False), (27_500, True)])
def test_a_slow_but_live_path_never_fails_and_memory_stays_bounded(rate: int, both: bool) -> None:
    """At 16 kbit/s a packet takes most of a second and a frame half a minute."""
    world = World()
    settings = HopSettings(window_max=64)
    paths = [Path(Choice(number), delay_us=30_000, rate=rate, queue_bytes=64 * 1024) for number in (1, 2)]
    left, right = hop_pair(world, *paths, settings)
    for end in (left, right) if both else (left,):
        keep_busy(world, end)
    world.run(300 * SECOND)
    assert left.failed is right.failed is None
    assert len(right.arrived) * 60_000 > 0.7 * rate * 300
    assert max(left.memory_peak, right.memory_peak) <= settings.memory_max


def test_a_receiver_that_sleeps_most_of_the_time_is_slow_but_live() -> None:
    """It takes what comes in one second of three, and what comes meanwhile is lost."""
    world = World()
    settings = HopSettings(window_max=64)
    left, right = hop_pair(world, Path(Choice(1)), Path(Choice(2)), settings)
    for start in range(0, 60, 3):
        world.at(start * SECOND + SECOND, lambda: setattr(right, "paused", True))
        world.at(start * SECOND + 3 * SECOND, lambda: setattr(right, "paused", False))
    for at in range(0, 60 * SECOND, SECOND // 50):
        world.at(at, lambda: world.offer(left, frame_of(1, bytes(2_000))))
    world.run_quiet(300 * SECOND)
    assert left.failed is right.failed is None
    assert len(right.arrived) == 60 * 50
    assert max(left.memory_peak, right.memory_peak) <= settings.memory_max


def test_a_peer_that_never_was_there_fails_the_link() -> None:
    world = World()
    left, right = hop_pair(world, Path(Choice(1)), Path(Choice(2)))
    right.paused = True
    keep_busy(world, left)
    world.run(bound(left))
    assert left.failed is not None and left.memory_peak <= left.link.memory_max


def test_a_packet_that_someone_keeps_removing_fails_the_link_at_the_receiver() -> None:
    """Reference: [Spread 4.3], the "failure to receive" problem: a networking fault that deletes certain packets."""
    world = World()

    def fifth(data: bytes) -> bool:
        header = HEADER.unpack_from(data)
        return bool(header[1] & DATA) and header[4] == 5

    left, right = hop_pair(world, Path(Choice(1), drops=fifth), Path(Choice(2)))
    world.offer(left, *[frame_of(1, bytes([n]) * 1300) for n in range(50)])
    world.run(60 * SECOND)
    assert left.failed is not None and right.failed is not None
    first = min(left.failed, right.failed)
    assert "packet 5" in first[1]
    assert first[0] <= bound(right)
    assert len(right.arrived) == 49  # all others were forwarded


def test_a_peer_that_hears_nothing_fails_the_link_although_it_is_heard() -> None:
    """Reference: [Spread 4.3], the asymmetric situation."""
    world = World()
    left, right = hop_pair(world, Path(Choice(1), loss=1.0), Path(Choice(2)))
    world.offer(left, frame_of(1, b"x"))
    for at in range(0, 20 * SECOND, 50_000):
        world.at(at, lambda: world.offer(right, frame_of(1, b"y")))
    world.run(20 * SECOND)
    assert left.failed is not None and left.failed[0] <= bound(left)


def test_an_outage_shorter_than_the_bound_fails_nothing() -> None:
    world = World()
    outage = [False]
    left, right = hop_pair(
        world,
        Path(Choice(1), drops=lambda _: outage[0]),
        Path(Choice(2), drops=lambda _: outage[0]),
    )
    frames = numbered(200, [100, 5000], Choice(3))
    for number, frame in enumerate(frames):
        world.at(number * 10_000, lambda frame=frame: world.offer(left, frame))  # type: ignore[misc]
    world.at(500_000, lambda: outage.__setitem__(0, True))
    world.at(4_500_000, lambda: outage.__setitem__(0, False))
    world.run_quiet(60 * SECOND)
    assert left.failed is right.failed is None and bodies(right) == bodies_of(frames)


def test_a_receiver_holds_no_more_than_its_bound() -> None:
    """Many large frames in flight, each of which lacks one packet that is lost again and again for a while."""
    world = World()
    settings = HopSettings(window_max=256)
    dropping = [True]

    def some(data: bytes) -> bool:
        header = HEADER.unpack_from(data)
        return dropping[0] and bool(header[1] & DATA) and header[4] % 20 == 7

    left, right = hop_pair(world, Path(Choice(1), drops=some), Path(Choice(2)), settings)
    world.offer(left, *[frame_of(n % 200, bytes(30_000)) for n in range(40)])
    world.run(3 * SECOND)
    assert right.memory_peak > 100_000
    dropping[0] = False
    world.run_quiet(60 * SECOND)
    assert len(right.arrived) == 40
    for end in (left, right):
        assert end.memory_peak <= end.link.memory_max and end.link.counters.buffered_bytes == 0
    assert settings.held_bytes_max >= 256 * 1372


# --- malformed packets ---------------------------------------------------------------------------------------------


def test_malformed_packets_are_counted_and_nothing_else_happens() -> None:
    """20,000 random and mutated packets: no error leaves the link, no bound is passed."""
    choice = Choice("fuzz")
    settings = HopSettings(window_max=64)
    link = Hop(peer="b", address=Address("b"), link=7, settings=settings)
    peer = Hop(peer="a", address=Address("a"), link=7, settings=settings)
    good: list[bytes] = []
    at = 0
    for number in range(20_000):
        at += choice.below(200)
        if number % 200 == 0:
            link = Hop(peer="b", address=Address("b"), link=7, settings=settings)
            peer = Hop(peer="a", address=Address("a"), link=7, settings=settings)
            link.handle(FramesOffered(at, [frame_of(1, bytes(3000))]))
            good = [
                b"".join(datagram)
                for action in peer.handle(FramesOffered(at, [frame_of(1, bytes(4000)), frame_of(2, b"x" * 50)]))
                if isinstance(action, SendDatagrams)
                for datagram in action.datagrams
            ]
            good.append(HEADER.pack(1, 0, 1, 7, 2, 0, 2, 5, 0) + bytes.fromhex("000000010002"))
        data = bytearray(choice.pick(good))
        for _ in range(choice.below(6)):
            data[choice.below(min(len(data), 60))] = choice.pick([0, 1, 2, 7, 255, choice.below(256)])
        if choice.chance(0.2):
            del data[choice.below(len(data)) :]
        if choice.chance(0.1):
            data = bytearray(choice.below(256) for _ in range(choice.below(60)))
        size = choice.pick([max(1, len(data)), choice.between(1, 1500)])
        link.handle(DatagramsReceived(at, Address("b"), bytes(data), size))
        assert link.counters.buffered_bytes <= link.memory_max
    assert link.counters.malformed > 10


def test_a_malformed_body_is_not_taken_for_received() -> None:
    world = World()
    spoilt = []

    def spoil(data: bytes) -> bool:
        """Instead of the first data packet, one of the same number with a broken body arrives."""
        if spoilt or not HEADER.unpack_from(data)[1] & DATA:
            return False
        spoilt.append(data[: HEADER.size] + b"\xff" * (len(data) - HEADER.size))
        world.give(right, DatagramsReceived(world.time(right), left.address, spoilt[0], len(spoilt[0])))
        return True

    left, right = hop_pair(world, Path(Choice(1), drops=spoil), Path(Choice(2)))
    world.offer(left, frame_of(1, b"precious"))
    world.run_quiet(10 * SECOND)
    assert right.link.counters.malformed == 1
    assert bodies(right) == [(1, b"precious")]
