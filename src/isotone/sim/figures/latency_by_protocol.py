"""Latency of Hop and of TCP, on one link and over a chain of five lossy ones, as background load grows.

Probe and background are RELIABLE messages of 1,024 bytes from one end, evenly spaced; latency is from the send to the
delivery at the other end, one way. Each value is taken over several runs, since with losses of 1 % a single run is much
of an accident. Implements: [Spread Table 4.2, Figure 4.5].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

import msgspec

from isotone.core.services import Service
from isotone.evs.overlay.topology import LinkProtocol
from isotone.sim.figures.chain import Chain, ChainSettings, wire_bytes

LOADS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
SEEDS = (1, 2, 3, 4, 5)
START_US = 1_000_000
SECOND = 1_000_000
PROBE_EVERY_US = 100_000
WARM_US = 3 * SECOND


def one_link(*, probes: int = 1_000, seeds: Sequence[int] = SEEDS) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Table 4.2."""
    return _measure(2, dict.fromkeys(LinkProtocol, (0.0,)), probes, seeds)


def chain_under_load(
    *,
    probes: int = 200,
    loads: Sequence[float] = LOADS,
    tcp_loads: Sequence[float] | None = None,
    seeds: Sequence[int] = SEEDS,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figure 4.5."""
    wanted = {LinkProtocol.HOP: loads, LinkProtocol.TCP: loads if tcp_loads is None else tcp_loads}
    return _measure(6, wanted, probes, seeds)


def _measure(
    sites: int, loads: Mapping[LinkProtocol, Sequence[float]], probes: int, seeds: Sequence[int]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    settings = ChainSettings(sites=sites, loss=0.01, payload_bytes=1_024)
    seeds = seeds[:probes]
    each = -(-probes // len(seeds))
    rows = []
    for protocol, of_protocol in loads.items():
        with_protocol = msgspec.structs.replace(settings, protocol=protocol)
        for load in of_protocol:
            runs = [_latencies(with_protocol, load, each, seed=seed) for seed in seeds]
            rows.append(_row(protocol, load, [latency_us for run in runs for latency_us in run]))
    used = {
        "hops": sites - 1,
        "bits_per_second": settings.bits_per_second,
        "latency_us": settings.latency_us,
        "loss": settings.loss,
        "payload_bytes": settings.payload_bytes,
        "probes": each * len(seeds),
        "seeds": list(seeds),
    }
    return used, rows


def _latencies(settings: ChainSettings, load: float, probes: int, *, seed: int) -> list[int]:
    """One run: microseconds from end to end of so many probes, of which the background is a multiple."""
    chain = Chain(settings, seed=seed)
    chain.world.run_until(START_US)
    gap = PROBE_EVERY_US * 5.0
    every = 1
    if load:
        hop = msgspec.structs.replace(settings, protocol=LinkProtocol.HOP)  # the same messages for both
        gap = wire_bytes(hop, Service.RELIABLE) * SECOND / (load * settings.bits_per_second / 8)
        every = max(1, round(PROBE_EVERY_US / gap))
    warm = round(WARM_US / gap) if load else 0
    count = warm + probes * every
    sent = [chain.send_at(2 * START_US + round(place * gap), 0, Service.RELIABLE) for place in range(count)]
    chain.finish()
    return [chain.latency_us(number, settings.sites - 1) for number in sent[warm::every]]


def _row(protocol: LinkProtocol, load: float, latencies: list[int]) -> dict[str, Any]:
    ordered = sorted(latencies)
    values = {
        "median_ms": median(ordered),
        "p99_ms": ordered[len(ordered) * 99 // 100],
        "min_ms": ordered[0],
        "mean_ms": mean(ordered),
        "max_ms": ordered[-1],
    }
    return {"protocol": protocol.value, "load": load} | {
        name: round(value / 1_000, 2) for name, value in values.items()
    }
