"""What a large message does to the latency of everybody else on a slow chain.

The first site of the chain of [Spread Figure 5.3] sends 16 MiB; meanwhile the others send small AGREED messages, few or
many. Latency is from the send to the last delivery; a row has the median of the worst of the other senders, with the
large message and without it. The bound is one full packet time per hop more.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from isotone.core.services import Service
from isotone.evs.links.fragments import MESSAGE_BYTES_MAX
from isotone.sim.figures.chain import PACKET_BYTES, Chain, ChainSettings

SECOND = 1_000_000
START_US = 2 * SECOND
SENDERS = {"sparse": (0, 4, 4, 4), "all": (50, 50, 50, 50)}  # messages in a second of each site
CALM_SECONDS = 4  # without bulk every second is like the one before

Row = dict[str, Any]


def latency_beside_bulk(
    *, probes: int | None = None, bulk_bytes: int = MESSAGE_BYTES_MAX, senders: Sequence[str] = tuple(SENDERS)
) -> tuple[dict[str, Any], list[Row]]:
    """The parameters used, and the rows; ``probes``: of each sender at most, while the large message is on its way."""
    settings = ChainSettings()
    packet_us = PACKET_BYTES * 8 * SECOND // settings.bits_per_second
    bound_us = packet_us * (settings.sites - 1)
    rows = [_row(settings, name, bulk_bytes, probes, bound_us) for name in senders]
    fragment_bytes = Chain(settings, seed=0).view.fragment_bytes()
    used = {"sites": settings.sites, "bulk_bytes": bulk_bytes, "fragment_bytes": fragment_bytes, "packet_us": packet_us}
    return used, rows


def _row(settings: ChainSettings, name: str, bulk_bytes: int, probes: int | None, bound_us: int) -> Row:
    calm, _ = _measure(settings, SENDERS[name], 0, CALM_SECONDS)
    seconds = None if probes is None else -(-probes // max(SENDERS[name]))
    beside, took_us = _measure(settings, SENDERS[name], bulk_bytes, seconds)
    raised = [with_bulk - without for with_bulk, without in zip(beside, calm)]
    worst = max(range(len(raised)), key=raised.__getitem__)
    return {
        "senders": name,
        "median_ms": round(calm[worst] / 1000, 2),
        "median_ms_beside_bulk": round(beside[worst] / 1000, 2),
        "raised_ms": round(raised[worst] / 1000, 2),
        "bound_ms": round(bound_us / 1000, 2),
        "bulk_kbyte_per_second": None if took_us is None else round(bulk_bytes / (took_us / SECOND) / 1000, 1),
    }


def _measure(
    settings: ChainSettings, rates: Sequence[int], bulk_bytes: int, seconds: int | None
) -> tuple[list[float], int | None]:
    """The medians of all sites but the first, in microseconds; how long the large message took, if it ended."""
    chain = Chain(settings, seed=1)
    if bulk_bytes:
        chain.send_bulk_at(START_US - SECOND, 0, bulk_bytes)
    sent: list[list[int]] = [[] for _ in rates]
    start, took_us = START_US, None
    while took_us is None and (seconds is None or start < START_US + seconds * SECOND):
        for site, rate in enumerate(rates):
            sent[site] += [chain.send_at(start + place * SECOND // rate, site, Service.AGREED) for place in range(rate)]
        start += SECOND
        chain.world.run_until(start)
        if bulk_bytes and not chain.bulk_left and not chain.transport(0).stamper.waiting_bytes:
            took_us = start - (START_US - SECOND)
    assert took_us is None or start - START_US > SECOND, "the large message was too small to measure anything"
    chain.world.run_until(start + SECOND)
    return [median(map(chain.last_us, numbers)) for numbers in sent[1:]], took_us
