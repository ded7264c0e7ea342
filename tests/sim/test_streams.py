"""Byte streams: what arrives is what was written, and how fast, as with TCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

import pytest

from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CloseStream,
    Event,
    OpenStream,
    Started,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.sim import Boot, LinkSettings, NetworkSettings, RunFailed, StreamSettings, World
from isotone.sim.congestion import Congestion, RetransmitTimeout
from tests.sim.automata import Scripted, Told, obey

SEGMENT = StreamSettings().segment_bytes
LOSSY = LinkSettings(latency_us=1_000, jitter_us=500, loss=0.05, reorder=0.02, duplicate=0.02)


@dataclass
class Collector:
    """Keeps the bytes and the ends of all its streams, and does what it is told."""

    data: dict[int, bytearray] = field(default_factory=dict)
    opened: list[tuple[int, str, bool]] = field(default_factory=list)
    closed: dict[int, str] = field(default_factory=dict)
    writable: int = 0

    def handle(self, event: Event) -> list[Action]:
        match event:
            case StreamOpened(stream=stream, peer=peer, accepted=accepted):
                self.opened.append((stream, peer, accepted))
                self.data[stream] = bytearray()
            case StreamReceived(stream=stream, data=data):
                assert stream not in self.closed, "an event after the end"
                self.data[stream] += data
            case StreamWritable():
                self.writable += 1
            case StreamClosed(stream=stream, reason=reason):
                assert stream not in self.closed, "closed twice"
                self.closed[stream] = reason
        return list(obey(event))


def collecting(boot: Boot) -> Mapping[str, Automaton]:
    return {"main": Collector()}


def stream_world(link: LinkSettings | None = None, streams: StreamSettings | None = None, seed: int = 1) -> World:
    settings = NetworkSettings(
        lan=link or LinkSettings(latency_us=1_000, jitter_us=0), streams=streams or StreamSettings()
    )
    world = World(seed=seed, network=settings)
    world.add_process("a", collecting)
    world.add_process("b", collecting)
    return world


def tell(world: World, name: str, *actions: Action) -> None:
    world.tell(name, "main", Told(0, actions))


def end(world: World, name: str) -> Collector:
    automaton = world.automaton(name, "main")
    assert isinstance(automaton, Collector)
    return automaton


def text(length: int) -> bytes:
    return b"".join(b"%08d" % number for number in range(length // 8 + 1))[:length]


# --- life of a stream ----------------------------------------------------------------------------------------------


def test_open_write_close() -> None:
    world = stream_world()
    tell(world, "a", OpenStream(5, Address("b.1")), WriteStream(5, [b"hello ", memoryview(b"world")]))
    world.run_until(10_000)
    a, b = end(world, "a"), end(world, "b")
    assert a.opened == [(5, "b.1", False)] and b.opened == [(-1, "a.1", True)]
    assert b.data == {-1: b"hello world"} and a.writable == 1
    tell(world, "b", WriteStream(-1, [b"answer"]), CloseStream(-1))
    world.run_until(20_000)
    assert a.data == {5: b"answer"}
    assert (a.closed, b.closed) == ({5: "closed by peer"}, {-1: "closed"})
    assert world.run_until_quiet(2_000_000)


def test_both_may_close_at_once() -> None:
    world = stream_world()
    tell(world, "a", OpenStream(1, Address("b.1")))
    world.run_until(10_000)
    tell(world, "a", CloseStream(1))
    tell(world, "b", CloseStream(-1))
    world.run_until(100_000)
    assert list(end(world, "a").closed) == [1] and list(end(world, "b").closed) == [-1]


def test_a_number_may_be_used_again_after_the_end() -> None:
    world = stream_world()
    for _ in range(3):
        tell(world, "a", OpenStream(1, Address("b.1")), WriteStream(1, [b"x"]), CloseStream(1))
        world.run_for(100_000)
        end(world, "a").closed.clear()
    assert [stream for stream, _, _ in end(world, "b").opened] == [-1, -2, -3]
    tell(world, "a", OpenStream(1, Address("b.1")), OpenStream(1, Address("b.1")))
    with pytest.raises(RunFailed, match="in use"):
        world.run_for(1)


def test_nobody_at_the_address() -> None:
    world = stream_world(streams=StreamSettings(connect_timeout_us=5_000_000))
    world.crash("b")
    tell(world, "a", OpenStream(1, Address("nowhere")), OpenStream(2, Address("b.1")))
    world.run_until(10_000)
    assert end(world, "a").closed == {2: "connection refused"}
    world.run_until(20_000_000)
    assert end(world, "a").closed[1] == "connect timed out"
    assert world.run_until_quiet(0)


def test_a_crash_resets_the_peer() -> None:
    world = stream_world()
    tell(world, "a", OpenStream(1, Address("b.1")), WriteStream(1, [b"x"]))
    world.run_until(10_000)
    world.crash("b")
    world.run_until(20_000)
    assert end(world, "a").closed == {1: "reset by peer"}


def test_a_crash_behind_a_cut_is_found_when_something_is_sent_after_it() -> None:
    world = stream_world()
    tell(world, "a", OpenStream(1, Address("b.1")))
    world.run_until(10_000)
    world.cut("a", "b")
    world.crash("b")
    world.run_until(50_000)
    world.heal()
    world.restart("b")
    world.run_until(60_000)
    assert not end(world, "a").closed
    tell(world, "a", WriteStream(1, [b"anybody?"]))
    world.run_until(2_000_000)
    assert end(world, "a").closed == {1: "reset by peer"}


def test_a_machine_that_dies_is_found_by_silence() -> None:
    world = stream_world(streams=StreamSettings(crash_resets=False, silence_timeout_us=5_000_000))
    tell(world, "a", OpenStream(1, Address("b.1")))
    world.run_until(10_000)
    world.crash("b")
    tell(world, "a", WriteStream(1, [b"anybody?"]))
    world.run_until(4_000_000)
    assert not end(world, "a").closed
    world.run_until(30_000_000)
    assert end(world, "a").closed == {1: "timed out"}
    assert world.run_until_quiet(0)


# --- content -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_loss_reordering_and_duplication_change_nothing_but_time(seed: int) -> None:
    world = stream_world(LOSSY, seed=seed)
    there, back = text(200_000), text(60_000)[::-1]
    tell(world, "a", OpenStream(1, Address("b.1")), WriteStream(1, [there]), CloseStream(1))
    world.run_until(100_000_000)
    tell(world, "b", OpenStream(2, Address("a.1")), WriteStream(2, [back]), CloseStream(2))
    assert world.run_until_quiet(100_000_000)
    a, b = end(world, "a"), end(world, "b")
    assert bytes(b.data[-1]) == there and bytes(a.data[-1]) == back
    assert (a.closed, b.closed) == ({1: "closed", -1: "closed by peer"}, {-1: "closed by peer", 2: "closed"})


def test_a_cut_that_heals_costs_time_only() -> None:
    world = stream_world()
    tell(world, "a", OpenStream(1, Address("b.1")), WriteStream(1, [text(2_000_000)]))
    world.run_until(5_000)
    world.cut("a", "b")
    world.run_until(3_000_000)
    arrived = len(end(world, "b").data[-1])
    assert 0 < arrived < 2_000_000
    world.heal()
    assert world.run_until_quiet(60_000_000)
    assert bytes(end(world, "b").data[-1]) == text(2_000_000)


def test_a_lost_segment_holds_up_all_behind_it() -> None:
    """Head-of-line blocking: the bytes behind a hole wait for its repair."""
    world = stream_world()
    tell(world, "a", OpenStream(1, Address("b.1")))
    world.run_until(10_000)
    world.network.link("a", "b").change(LinkSettings(latency_us=1_000, jitter_us=0, loss=1.0))
    tell(world, "a", WriteStream(1, [bytes(100)]))
    world.run_until(10_100)
    world.network.link("a", "b").change(LinkSettings(latency_us=1_000, jitter_us=0))
    tell(world, "a", WriteStream(1, [b"behind"]))
    world.run_until(150_000)
    assert not end(world, "b").data[-1]
    world.run_until(300_000)
    assert end(world, "b").data[-1] == bytes(100) + b"behind"


def test_the_writer_waits_while_the_buffers_are_full() -> None:
    streams = StreamSettings(send_buffer_bytes=20_000, receive_buffer_bytes=50_000)
    world = stream_world(streams=streams)
    tell(world, "a", OpenStream(1, Address("b.1")))
    world.run_until(10_000)
    world.pause("b")
    for _ in range(3):
        tell(world, "a", WriteStream(1, [text(30_000)]))
    world.run_until(5_000_000)
    assert end(world, "a").writable <= 2  # 90,000 bytes do not fit into 20,000 + 50,000
    paused = end(world, "a").writable
    world.run_until(60_000_000)
    assert end(world, "a").writable == paused and not end(world, "a").closed  # probes are answered, so it is no silence
    world.resume("b")
    world.run_until(200_000_000)
    assert bytes(end(world, "b").data[-1]) == text(30_000) * 3


# --- speed ---------------------------------------------------------------------------------------------------------


@dataclass
class Pump:
    """Keeps the stream full."""

    peer: str

    def handle(self, event: Event) -> list[Action]:
        match event:
            case Started():
                return [OpenStream(1, Address(self.peer))]
            case StreamOpened() | StreamWritable():
                return [WriteStream(1, [bytes(100_000)])]
        return []


@dataclass
class Meter:
    """Counts bytes."""

    received: int = 0

    def handle(self, event: Event) -> list[Action]:
        if isinstance(event, StreamReceived):
            self.received += len(event.data)
        return []


def throughput(forth: LinkSettings, back: LinkSettings, seconds: int, seed: int = 1) -> float:
    """Bytes per virtual second of one stream, after ten seconds to settle."""
    world = World(seed=seed)
    world.add_process("b", lambda boot: {"main": Meter()})
    world.add_process("a", lambda boot: {"main": Pump("b.1")})
    world.network.link("a", "b").change(forth)
    world.network.link("b", "a").change(back)
    meter = world.automaton("b", "main")
    assert isinstance(meter, Meter)
    world.run_until(10_000_000)
    before = meter.received
    world.run_for(seconds * 1_000_000)
    return (meter.received - before) / seconds


@pytest.mark.parametrize(
    ("loss", "round_trip_ms", "seconds"),
    [(0.001, 50, 150), (0.003, 50, 200), (0.01, 20, 60), (0.01, 100, 300), (0.03, 50, 200)],
)
def test_the_square_root_law(loss: float, round_trip_ms: int, seconds: int) -> None:
    """Throughput is (segment / round trip) · √(3/2) / √p, within a factor of 0.6 to 1.5.

    Each loss halves the window and each round trip adds a segment, so the window saws between W/2 and W with one loss
    per 3/8·W² segments. Beyond a few per cent the timeouts, which the law leaves out, take over.
    """
    one_way = round_trip_ms * 500
    forth = LinkSettings(latency_us=one_way, jitter_us=0, loss=loss)
    rate = throughput(forth, LinkSettings(latency_us=one_way, jitter_us=0), seconds)
    law = SEGMENT / (round_trip_ms / 1000) * sqrt(3 / 2) / sqrt(loss)
    assert 0.6 * law < rate < 1.5 * law, f"{rate / law:.2f} of the law"


def test_without_loss_the_bandwidth_is_used() -> None:
    bottleneck = LinkSettings(
        latency_us=10_000, jitter_us=0, bandwidth_bytes_per_second=500_000, queue_bytes_max=20_000
    )
    rate = throughput(bottleneck, LinkSettings(latency_us=10_000, jitter_us=0), 60)
    assert 0.85 * 500_000 < rate <= 500_000


def test_the_window_of_the_receiver_bounds_the_rate() -> None:
    world = World(
        seed=1,
        network=NetworkSettings(
            lan=LinkSettings(latency_us=50_000, jitter_us=0), streams=StreamSettings(receive_buffer_bytes=50_000)
        ),
    )
    world.add_process("b", lambda boot: {"main": Meter()})
    world.add_process("a", lambda boot: {"main": Pump("b.1")})
    world.run_until(20_000_000)
    meter = world.automaton("b", "main")
    assert isinstance(meter, Meter)
    # One window per round trip of 100 ms, in whole segments.
    assert meter.received / 20 == pytest.approx(50_000 // SEGMENT * SEGMENT * 10, rel=0.05)


# --- the arithmetic ------------------------------------------------------------------------------------------------


def test_timeout_follows_rfc_6298() -> None:
    timeout = RetransmitTimeout(1, 60_000_000)
    assert timeout.value_us == 1_000_000
    timeout.measured(100_000)
    assert timeout.value_us == 100_000 + 4 * 50_000
    timeout.measured(100_000)
    assert timeout.value_us == 100_000 + 4 * 37_500
    timeout.expired()
    timeout.expired()
    assert timeout.value_us == 4 * 250_000
    timeout.progressed()
    assert timeout.value_us == 250_000


def test_window_grows_by_the_segment_and_then_by_the_round() -> None:
    window = Congestion(1_000)
    assert window.window == 10_000
    for reached in range(1_000, 11_000, 1_000):
        assert not window.acknowledged(1_000, reached)
    assert window.window == 20_000  # slow start: doubled in one round
    assert [window.duplicated(10_000, 30_000) for _ in range(3)] == [False, False, True]
    assert window.recovering and window.window == 10_000 + 3_000
    assert window.acknowledged(5_000, 15_000)  # a partial one: the next hole is repaired at once
    assert not window.acknowledged(15_000, 30_000)
    assert not window.recovering and window.window == 10_000
    for reached in range(31_000, 41_000, 1_000):
        window.acknowledged(1_000, reached)
    assert 10_900 < window.window <= 11_000  # congestion avoidance: one segment in one round
    window.expired(41_000, 52_000)
    assert window.window == 1_000


def test_a_stream_that_is_gone_swallows_what_is_written_to_it() -> None:
    def write_early(event: Event) -> Sequence[Action]:
        return [WriteStream(9, [b"no such stream"]), CloseStream(9)] if isinstance(event, Started) else []

    world = World(seed=1)
    world.add_process("a", lambda boot: {"main": Scripted(write_early)})
    assert world.run_until_quiet(1_000)
