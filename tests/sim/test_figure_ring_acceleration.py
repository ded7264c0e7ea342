"""Acceleration of the ring on daemons that take time: what it gains, and that the time is charged rightly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isotone.bench.ring import RECEIVED_PACKET, SENT_PACKET, TOKEN
from isotone.core.contract import Action, Address, DatagramsReceived, Event, SetTimer, TimerFired
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.ring.token import PACKET, PacketKind
from isotone.sim.figures import figure_named
from isotone.sim.figures.ring_acceleration import CPU_TIMER, MEASURED, TICKS, Costs, Lan, Processor

RESULTS = Path(__file__).resolve().parents[2] / "results"


def packet(kind: PacketKind, length: int = 40) -> bytes:
    return PACKET.pack(kind, 0, 1, 9, 1).ljust(length, b".")


class Noting:
    """An automaton that notes what it was handed, and answers each event with a timer."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def handle(self, event: Event) -> list[Action]:
        self.events.append(event)
        return [SetTimer("its own", 5)]


def busy(costs: Costs) -> tuple[Noting, Processor]:
    inner = Noting()
    return inner, Processor(inner, costs, [], None)  # type: ignore[arg-type]


def test_acceleration_carries_a_quarter_more_at_lower_latency() -> None:
    figure = figure_named("ring-acceleration", probes=3_000, loads=(0.9,), factors=(1.0,))
    off, on = figure.rows
    assert (off["acceleration"], on["acceleration"]) == ("off", "on")
    assert on["most_mbit_per_second"] >= 1.25 * off["most_mbit_per_second"]
    assert on["throughput_mbit_per_second"] >= 1.25 * off["throughput_mbit_per_second"]
    assert on["median_us"] <= off["median_us"] and on["p99_us"] <= off["p99_us"]


def test_the_costs_are_those_that_the_bench_measured() -> None:
    report = json.loads((RESULTS / "bench-ring.json").read_text())
    measured = {figure["name"]: figure["value"] for figure in report["figures"]}
    charged = (MEASURED.sent_packet_us, MEASURED.received_packet_us, MEASURED.token_us)
    for value, name in zip(charged, (SENT_PACKET, RECEIVED_PACKET, TOKEN)):
        assert value == pytest.approx(measured[name], rel=0.02), name


def test_a_buffer_costs_by_its_packets_and_tokens() -> None:
    costs = Costs(sent_packet_us=100.0, received_packet_us=3.0, token_us=10.0)
    data = packet(PacketKind.DATA) * 4 + packet(PacketKind.DATA, 30)
    assert costs.of(DatagramsReceived(0, Address("a"), data, 40), []) == 15.0
    assert costs.of(DatagramsReceived(0, Address("a"), packet(PacketKind.TOKEN), 40), []) == 10.0
    assert costs.times(2).of(TimerFired(0, "x"), []) == 0


def test_who_is_busy_handles_nothing_and_says_nothing() -> None:
    inner, processor = busy(Costs(0.0, 2.0, 0.0))
    first = DatagramsReceived(7, Address("a"), packet(PacketKind.DATA), 40)
    assert processor.handle(first) == [SetTimer(CPU_TIMER, 2 * TICKS)]
    assert processor.handle(first) == [] and len(inner.events) == 1
    done = processor.handle(TimerFired(30, CPU_TIMER))
    assert done == [SetTimer("its own", 5), SetTimer(CPU_TIMER, 2 * TICKS)]
    assert [event.at for event in inner.events] == [7, 30], "it sees the time at which it begins"


def test_a_timer_that_is_replaced_while_it_waits_does_not_fire() -> None:
    inner, processor = busy(Costs(0.0, 2.0, 0.0))
    processor.handle(DatagramsReceived(0, Address("a"), packet(PacketKind.DATA), 40))
    processor.handle(TimerFired(1, "its own"))
    processor.handle(TimerFired(2, "another"))
    processor.handle(TimerFired(20, CPU_TIMER))
    assert [getattr(event, "key", None) for event in inner.events] == [None, "another"]


def test_fractions_of_a_tick_are_charged_in_the_end() -> None:
    _, processor = busy(Costs(0.0, 0.025, 0.0))
    charged = 0
    for _ in range(8):
        out = processor.handle(DatagramsReceived(0, Address("a"), packet(PacketKind.DATA), 40))
        timers = [action for action in out if isinstance(action, SetTimer) and action.key == CPU_TIMER]
        charged += sum(action.after_us for action in timers)
        if timers:
            processor.handle(TimerFired(0, CPU_TIMER))
    assert charged == 8 * TICKS * 0.025


def test_an_idle_ring_of_slow_daemons_delivers() -> None:
    lan = Lan(MEASURED.times(10), RingSettings(), 8)
    for number in range(8):
        lan.send_at(number * 100_000 * TICKS, number)
    latencies = [last - sent for last, sent in zip(lan.finish(), lan.sent_at)]
    assert all(0 < latency < 5_000 * TICKS for latency in latencies)
