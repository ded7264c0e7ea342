"""Latency by service over a chain of four sites, against its diameter D.

Implements: [Spread Table 5.1, Figure 5.4]. Latency is from the send to the last delivery over all sites, the sender's
included; of the sources the worst one counts; each value is a median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from isotone.core.services import Service
from isotone.sim.figures.chain import Chain, ChainSettings, diameter_us, wire_bytes

SERVICES = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
LOADS = (0.0, 0.25, 0.5, 0.8)
START_US = 1_000_000
ALL_PER_SECOND = 50
UNEQUAL_PER_SECOND = (50, 25, 10, 5)
SECOND = 1_000_000

Row = dict[str, Any]


def latency_by_service(
    *,
    probes: int = 200,
    loads: Sequence[float] = LOADS,
    services: Iterable[Service] = SERVICES,
    senders: Sequence[str] = ("one", "all", "unequal"),
) -> tuple[dict[str, Any], list[Row]]:
    """The parameters that were used, and the rows."""
    settings = ChainSettings()
    diameter = diameter_us(settings)
    delta = Chain(settings, seed=0).transport(0).gateway.publisher.delta_us  # type: ignore[union-attr]
    rows: list[Row] = []
    for service in services:
        if "one" in senders:
            rows += [_row(service, load, "one", _one(settings, service, load, probes), diameter) for load in loads]
        if "all" in senders:
            rates = (ALL_PER_SECOND,) * settings.sites
            rows.append(_row(service, None, "all", _several(settings, service, rates, probes), diameter))
        if "unequal" in senders:
            rows.append(
                _row(service, None, "unequal", _several(settings, service, UNEQUAL_PER_SECOND, probes), diameter)
            )
    used = {
        "sites": settings.sites,
        "bits_per_second": settings.bits_per_second,
        "latency_us": settings.latency_us,
        "payload_bytes": settings.payload_bytes,
        "probes": probes,
        "diameter_us": diameter,
        "delta_us": delta,
        "packet_us": 1400 * 8 * SECOND // settings.bits_per_second,
    }
    return used, rows


Measured = list[tuple[Chain, list[int]]]
"""One entry for each source: a run, and the numbers of its probes in it."""


def _one(settings: ChainSettings, service: Service, load: float, probes: int) -> Measured:
    """Each source in turn sends probes amid its own background; the others are silent. The chain is symmetric."""
    return [_one_from(settings, service, load, probes, source) for source in range((settings.sites + 1) // 2)]


def _one_from(
    settings: ChainSettings, service: Service, load: float, probes: int, source: int
) -> tuple[Chain, list[int]]:
    chain = Chain(settings, seed=source)
    if not load:
        numbers = [chain.send_at(START_US + place * SECOND, source, service) for place in range(probes)]
    else:
        bytes_per_second = load * settings.bits_per_second / 8
        gap = wire_bytes(settings, service) * SECOND / bytes_per_second
        every = max(1, round(40_000 / gap))  # every so many messages one is a probe
        sent = [chain.send_at(START_US + round(place * gap), source, service) for place in range(probes * every)]
        numbers = sent[::every]
    chain.finish()
    return chain, numbers


def _several(settings: ChainSettings, service: Service, per_second: Sequence[int], probes: int) -> Measured:
    """Every site sends at its rate, evenly spaced, from a common idle start; every message is a probe."""
    chain = Chain(settings, seed=0)
    length_us = probes * SECOND // max(per_second)
    numbers = [
        [chain.send_at(START_US + at, source, service) for at in range(0, length_us, SECOND // rate)]
        for source, rate in enumerate(per_second)
    ]
    chain.finish()
    return [(chain, sent) for sent in numbers]


def _row(service: Service, load: float | None, senders: str, measured: Measured, diameter: int) -> Row:
    def over_diameter(chain: Chain, numbers: list[int], value: Callable[[int], int]) -> float:
        return round(median(value(number) for number in numbers) / diameter, 4)

    overall = [over_diameter(chain, numbers, chain.last_us) for chain, numbers in measured]
    worst = max(range(len(overall)), key=overall.__getitem__)
    chain, numbers = measured[worst]
    return {
        "service": service.name,
        "load": load,
        "senders": senders,
        "latency_over_diameter": overall[worst],
        "source": worst,
        "receivers": {
            f"s{site + 1}": over_diameter(chain, numbers, lambda number, site=site: chain.latency_us(number, site))  # type: ignore[misc]
            for site in range(chain.settings.sites)
        },
    }
