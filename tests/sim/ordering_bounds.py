"""What the figures of [Spread 5.2] must show: ``python -m tests.sim.ordering_bounds``.

Exits with 1 and says what is violated, with 0 otherwise: latency by service with 200 probes, and latency beside a
message of 16 MiB. No chance is involved, so one run says all.
"""

from __future__ import annotations

import sys

from isotone.core.services import Service
from isotone.sim.figures import Figure, figure_named

WEAK = (Service.RELIABLE.name, Service.FIFO.name, Service.CAUSAL.name)
WEAK_MAX = 1.05
DELTA_MAX = 0.25
ALL_MAX = {Service.AGREED.name: 1.35, Service.SAFE.name: 2.35}


def service_violations(figure: Figure) -> list[str]:
    """Every row against its bound, in diameters."""
    used = figure.parameters
    delta = used["delta_us"] / used["diameter_us"]
    packets = (used["sites"] - 1) * used["packet_us"] / used["diameter_us"]
    unloaded = {row["service"]: row["latency_over_diameter"] for row in figure.rows if row["load"] == 0.0}
    out = [] if delta <= DELTA_MAX else [f"delta is {delta:.3f} D"]
    for row in figure.rows:
        service, senders, load, value = (row[name] for name in ("service", "senders", "load", "latency_over_diameter"))
        if service in WEAK:
            bound = WEAK_MAX if load == 0.0 else min(WEAK_MAX, unloaded[service]) + packets
        elif senders == "all":
            bound = ALL_MAX[service]
        else:
            bound = 2 + delta if service == Service.AGREED.name else 3 + 2 * delta
        if value > bound:
            out.append(f"{service} takes {value} D with {senders} at load {load}, the bound is {bound:.3f} D")
    return out


def bulk_violations(figure: Figure) -> list[str]:
    """Others' median rises by at most a packet time a hop."""
    return [
        f"{row['senders']}: the median rose by {row['raised_ms']} ms"
        for row in figure.rows
        if row["raised_ms"] > row["bound_ms"]
    ]


def main() -> int:
    """Measure and judge."""
    found = service_violations(figure_named("spread-figure-5.4"))
    found += bulk_violations(figure_named("latency-beside-bulk"))
    print("\n".join(found) or "all bounds hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
