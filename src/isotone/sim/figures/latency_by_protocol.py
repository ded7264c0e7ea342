"""Latency of Hop and of TCP, on one link and over a chain of five lossy ones, as background load grows.

Probe and background are RELIABLE messages of 1,024 bytes from one end, evenly spaced; latency is from the send to the
delivery at the other end, one way. Implements: [Spread Table 4.2, Figure 4.5].
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from isotone.core.services import Service
from isotone.evs.overlay.topology import LinkProtocol
from isotone.sim.figures.chain import Chain, ChainSettings, wire_bytes

LOADS = (0.0, 0.2, 0.4, 0.6, 0.8)
START_US = 1_000_000
SECOND = 1_000_000
PROBE_EVERY_US = 100_000


def one_link(*, probes: int = 200) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Table 4.2."""
    return _measure(2, (0.0,), probes)


def chain_under_load(
    *, probes: int = 200, loads: Sequence[float] = LOADS
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figure 4.5."""
    return _measure(6, loads, probes)


def _measure(sites: int, loads: Sequence[float], probes: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    settings = ChainSettings(sites=sites, loss=0.01, payload_bytes=1_024)
    rows = [_row(settings, protocol, load, probes) for protocol in LinkProtocol for load in loads]
    used = {
        "hops": sites - 1,
        "bits_per_second": settings.bits_per_second,
        "latency_us": settings.latency_us,
        "loss": settings.loss,
        "payload_bytes": settings.payload_bytes,
        "probes": probes,
    }
    return used, rows


def _row(settings: ChainSettings, protocol: LinkProtocol, load: float, probes: int) -> dict[str, Any]:
    chain = Chain(ChainSettings(**{**_fields(settings), "protocol": protocol}), seed=7)
    chain.world.run_until(START_US)
    gap = PROBE_EVERY_US * 5.0
    every = 1
    if load:
        gap = wire_bytes(settings, Service.RELIABLE) * SECOND / (load * settings.bits_per_second / 8)
        every = max(1, round(PROBE_EVERY_US / gap))
    warm = round(3 * SECOND / gap) if load else 0
    sent = [
        chain.send_at(2 * START_US + round(place * gap), 0, Service.RELIABLE) for place in range(warm + probes * every)
    ]
    chain.finish()
    latencies = sorted(chain.latency_us(number, settings.sites - 1) for number in sent[warm::every])
    return {
        "protocol": protocol.value,
        "load": load,
        "median_ms": round(median(latencies) / 1000, 2),
        "p99_ms": round(latencies[len(latencies) * 99 // 100] / 1000, 2),
    }


def _fields(settings: ChainSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}
