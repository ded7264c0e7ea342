"""Flow and congestion control of hop links, latency under load, and laziness. Reference: [Spread 4.3, 4.4.2]."""

from __future__ import annotations

from statistics import median

import pytest

from isotone.core.choice import Choice
from isotone.evs.links.contract import Frame, FramesOffered, frame_of
from isotone.evs.links.hop import Hop, HopSettings
from tests.evs.links.pair import DATAGRAM_OVERHEAD, SECOND, End, Path, World, hop_pair
from tests.evs.links.reno import Reno

SLOW = 187_500  # 1.5 Mbit/s
FAST = 1_250_000  # 10 Mbit/s
PACKET_TIME_US = (1400 + DATAGRAM_OVERHEAD) * SECOND // SLOW
PROBE, BACKGROUND, BULK = 1, 2, 3


def flood(world: World, end: End, size: int, until: int) -> None:
    """Bulk: offer a large frame whenever there is room."""
    frame = frame_of(BULK, bytes(size))

    def more() -> None:
        while end.link.room >= frame.size and world.now < until:
            world.give(end, FramesOffered(world.time(end), [frame]))

    end.on_roomy = more
    more()


def probe_latency(
    seconds: int = 40,
    *,
    load: float = 0.0,
    bulk: bool = False,
    loss: float = 0.01,
    settings: HopSettings | None = None,
) -> float:
    """Median latency of 1,024-byte probes over 1.5 Mbit/s, 30 ms, with evenly spaced or bulk traffic beside them."""
    world = World()
    choice = Choice("latency")
    left, right = hop_pair(
        world,
        Path(choice.derive("there"), delay_us=30_000, loss=loss, rate=SLOW),
        Path(choice.derive("back"), delay_us=30_000, loss=loss, rate=SLOW),
        settings,
    )
    sent: dict[int, int] = {}
    latencies: list[int] = []

    def note(frame: Frame, at: int) -> None:
        if frame.kind == PROBE:
            latencies.append(at - sent[int.from_bytes(bytes(frame.body()[:4]), "big")])

    def probe(number: int) -> None:
        sent[number] = world.now
        world.offer(left, frame_of(PROBE, number.to_bytes(4, "big") + bytes(1020)))

    right.on_frame = note
    for number in range(seconds * 5):
        world.at(number * 200_000 + 17, lambda number=number: probe(number))  # type: ignore[misc]
    if load:
        size = 1024 + 8 + 28 + DATAGRAM_OVERHEAD
        gap = int(size * SECOND / (SLOW * load - 5 * size))  # with the probes it makes this load
        for at in range(0, seconds * SECOND, gap):
            world.at(at, lambda: world.offer(left, frame_of(BACKGROUND, bytes(1024))))
    if bulk:
        world.at(0, lambda: flood(world, left, 64 * 1024, seconds * SECOND))
    world.run(seconds * SECOND)
    assert left.failed is None and len(latencies) > 0.95 * len(sent)
    return median(latencies)


def test_latency_hardly_rises_with_load() -> None:
    """Reference: [Spread 4.4.2, Figure 4.5]: almost constant latency as the background load increases."""
    unloaded = probe_latency()
    assert unloaded == pytest.approx(30_000 + (1060 + DATAGRAM_OVERHEAD) * SECOND / SLOW, rel=0.01)
    for load in (0.2, 0.5, 0.8, 0.9, 0.95):
        assert probe_latency(load=load) <= 1.15 * unloaded, f"load {load}"


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_bulk_delays_fresh_messages_by_at_most_one_packet(loss: float) -> None:
    assert probe_latency(bulk=True, loss=loss) <= probe_latency(loss=loss) + PACKET_TIME_US


@pytest.mark.parametrize(("burst_bytes", "packets"), [(None, 1), (1_400, 2), (11_200, 1)])
@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_bulk_behind_a_leaky_bucket_at_the_rate_of_the_path_leaves_no_queue(
    loss: float, burst_bytes: int | None, packets: int
) -> None:
    """The path also carries the headers of datagrams, so that the bucket lets through more than it can take."""
    settings = HopSettings(rate_bytes_per_second=SLOW, burst_bytes=burst_bytes)
    assert probe_latency(bulk=True, loss=loss, settings=settings) <= probe_latency(loss=loss) + packets * PACKET_TIME_US


# --- sharing -------------------------------------------------------------------------------------------------------


def shares(hops: int, renos: int, *, queue_bytes: int, seconds: int = 30) -> list[float]:
    """Fractions of one 10 Mbit/s, 40 ms bottleneck that flows got in the last two thirds of the time."""
    world = World()
    choice = Choice("sharing")
    there = Path(choice.derive("there"), delay_us=20_000, rate=FAST, queue_bytes=queue_bytes)
    back = Path(choice.derive("back"), delay_us=20_000)
    ends: list[End] = []
    for number in range(hops):
        left, right = hop_pair(world, there, back)
        world.at(number * 2 * SECOND, lambda left=left: flood(world, left, 20_000, seconds * SECOND))  # type: ignore[misc]
        ends.append(right)
    others = [Reno(world, there, back) for _ in range(renos)]
    for other in others:
        world.at(SECOND, other.start)

    def received() -> list[int]:
        return [end.link.counters.bytes_received for end in ends] + [other.received_bytes for other in others]

    world.run(seconds * SECOND // 3)
    before = received()
    world.run(seconds * SECOND)
    return [(now - then) / (FAST * seconds * 2 / 3) for now, then in zip(received(), before)]


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / len(values) / sum(value * value for value in values)


def test_one_flow_uses_the_path() -> None:
    (share,) = shares(1, 0, queue_bytes=50_000)
    assert share > 0.8


@pytest.mark.parametrize("flows", [2, 4])
@pytest.mark.parametrize("queue_bytes", [50_000, 200_000])
def test_hop_flows_leave_each_other_no_queue(flows: int, queue_bytes: int) -> None:
    """Nobody takes the others for flows that fill the queue."""
    world = World()
    there = Path(Choice(1), delay_us=20_000, rate=FAST, queue_bytes=queue_bytes)
    for number in range(flows):
        left, _ = hop_pair(world, there, Path(Choice(2), delay_us=20_000))
        world.at(number * 2 * SECOND, lambda left=left: flood(world, left, 20_000, 40 * SECOND))  # type: ignore[misc]
    waits = []
    for at in range(15 * SECOND, 20 * SECOND, 10_000):
        world.run(at)
        waits.append(there.wait_us(at))
    assert median(waits) <= 5_000


@pytest.mark.parametrize("flows", [2, 4])
def test_hop_flows_share_fairly(flows: int) -> None:
    got = shares(flows, 0, queue_bytes=50_000)
    assert jain(got) > 0.95 and sum(got) > 0.8


@pytest.mark.parametrize(
    ("queue_bytes", "least"), [(6_000, 0.35), (12_500, 0.4), (25_000, 0.4), (50_000, 0.4), (100_000, 0.4)]
)
def test_hop_is_fair_to_tcp_and_is_not_starved_by_it(queue_bytes: int, least: float) -> None:
    """Reference: [Spread 4.3], "fair behavior with competing TCP flows"."""
    hop, tcp = shares(1, 1, queue_bytes=queue_bytes, seconds=60)
    assert tcp > least and hop > 0.25 and hop + tcp > 0.8


def test_the_leaky_bucket_of_the_settings_is_never_passed() -> None:
    """Reference: [Spread 4.3], a maximum burst size and an average rate limitation, set per link."""
    world = World()
    settings = HopSettings(rate_bytes_per_second=100_000, burst_bytes=7_000)
    departures: list[tuple[int, int]] = []
    there = Path(Choice(1), drops=lambda data: departures.append((world.now, len(data))) or False)  # type: ignore[func-returns-value]
    left, _ = hop_pair(world, there, Path(Choice(2)), settings)
    flood(world, left, 60_000, 10 * SECOND)
    world.run(10 * SECOND)
    total = sum(size for _, size in departures)
    assert 0.97 * 1_000_000 < total <= 1_000_000 + 7_000
    sums = [0]
    for _, size in departures:
        sums.append(sums[-1] + size)
    for first in range(0, len(departures), 7):
        for last in range(first, min(first + 60, len(departures))):
            allowed = 7_000 + 1_400 + (departures[last][0] - departures[first][0]) * 100_000 / SECOND
            assert sums[last + 1] - sums[first] <= allowed


# --- laziness ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay_us", "jitter_us"), [(10_000, 3_000), (10_000, 10_000), (30_000, 20_000), (1_000, 5_000)]
)
def test_reordering_alone_causes_no_copies_once_it_is_known(delay_us: int, jitter_us: int) -> None:
    """Reference: [Spread 4.3], lazy selective retransmits: a false indication of loss is avoided by the delay."""
    world = World()
    choice = Choice(f"{delay_us} {jitter_us}")
    left, right = hop_pair(
        world,
        Path(choice.derive("there"), delay_us=delay_us, jitter_us=jitter_us),
        Path(choice.derive("back"), delay_us=delay_us, jitter_us=jitter_us),
    )
    for number in range(1500):
        world.at(number * 1000, lambda: world.offer(left, frame_of(PROBE, bytes(200))))
    world.run(SECOND // 2)
    learning = left.link.counters.packets_resent
    world.run_quiet(60 * SECOND)
    assert len(right.arrived) == 1500
    assert left.link.counters.packets_resent == learning <= 10


def test_a_lost_packet_is_recovered_in_little_more_than_a_round_trip() -> None:
    world = World()
    lose: list[bool] = []

    def once(data: bytes) -> bool:
        return bool(lose) and lose.pop()

    left, right = hop_pair(world, Path(Choice(1), delay_us=30_000, drops=once), Path(Choice(2), delay_us=30_000))
    for number in range(200):
        world.at(number * 5_000, lambda number=number: world.offer(left, frame_of(PROBE, bytes([number]))))  # type: ignore[misc]
    world.at(499_999, lambda: lose.append(True))
    world.run_quiet(10 * SECOND)
    arrived = {bytes(frame.body())[0]: at for at, frame in right.arrived}
    late = arrived[100] - 500_000
    assert isinstance(right.link, Hop)
    assert late <= 5_000 + 3 * 30_000 + right.link.timing.settle_us + 2_000
    assert all(arrived[number] == number * 5_000 + 30_000 for number in range(200) if number != 100)  # none waited


def test_the_window_grows_only_when_it_is_used_and_shrinks_once_in_a_round_trip() -> None:
    from isotone.evs.links.hop.congestion import Congestion
    from isotone.evs.links.hop.pacing import Timing

    settings = HopSettings()
    timing = Timing(settings)
    timing.take(50_000, 0)
    congestion = Congestion(settings, timing)
    start = congestion.window
    for sequence in range(1, 50):
        congestion.sent(1400)
        congestion.progressed(1400, 0, highest_known=sequence, highest_sent=sequence, at=sequence)
    assert congestion.window == start
    congestion.sent(int(congestion.window))
    congestion.progressed(1400, 0, highest_known=50, highest_sent=60, at=50)
    assert congestion.window > start
    window = congestion.window
    congestion.lost(55, 60, 60)
    congestion.lost(58, 60, 60)
    assert congestion.window == window * 0.5
    congestion.lost(61, 70, 60)
    assert congestion.window == window * 0.25
