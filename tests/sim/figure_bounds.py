"""What the figures of [Spread 4.4] must show, on seeds of one's choice: ``python -m tests.sim.figure_bounds``.

Exits with 1 and says what is violated, with 0 otherwise. The seeds are the runs over which each value is taken. Routing
involves no chance, so it is measured along with seed 1 alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from isotone.evs.overlay.topology import LinkProtocol
from isotone.sim.figures import Figure, figure_named

LOADS = (0.0, 0.2, 0.4, 0.6, 0.8)
FLAT = 1.15
MANY_TIMES = 3.0
RUNS_MIN = 5
PROBES = 200


def chain_violations(figure: Figure) -> list[str]:
    """Hop's median stays within 15 % of its unloaded value up to 80 % load, while TCP's grows many times over."""
    medians = {(row["protocol"], row["load"]): row["median_ms"] for row in figure.rows}
    hop, tcp = medians["hop", 0.0], medians["tcp", 0.0]
    out = [
        f"hop's median is {value} ms at load {load}, {hop} ms without"
        for (protocol, load), value in medians.items()
        if protocol == "hop" and load <= 0.8 and value > FLAT * hop
    ]
    if medians["tcp", 0.8] < MANY_TIMES * tcp:
        out.append(f"tcp's median is {medians['tcp', 0.8]} ms at load 0.8, {tcp} ms without")
    return out


def one_link_violations(figure: Figure) -> list[str]:
    """Both are as fast as the wire at the median; what hop loses costs it little in the mean."""
    used = figure.parameters
    wire_ms = used["latency_us"] / 1_000 + used["payload_bytes"] * 8_000 / used["bits_per_second"]
    bounds = {("hop", "median_ms"): 1.05, ("tcp", "median_ms"): 1.05, ("hop", "mean_ms"): 1.15}
    values = {(row["protocol"], name): row[name] for row in figure.rows for name in ("median_ms", "mean_ms")}
    return [
        f"{protocol}: {name} is {values[protocol, name]}, the wire takes {wire_ms:.2f}"
        for (protocol, name), bound in bounds.items()
        if values[protocol, name] > bound * wire_ms
    ]


def routing_violations(figure: Figure) -> list[str]:
    """Fanout is better from the best connected site, the tree from those behind slow links."""

    def fanout_wins(row: dict[str, Any]) -> bool:
        return bool(row["fanout_kbit_per_second"] > row["tree_kbit_per_second"])

    better = {"cnds": True, "rutgers": False, "ucsb": False}
    return [
        f"{row['protocol']} from {row['source']}: {row}"
        for row in figure.rows
        if row["source"] in better and fanout_wins(row) is not better[row["source"]]
    ]


def violations(first: int, count: int) -> list[str]:
    """All of them over these seeds, or over a few more if they are few."""
    seeds = range(first, first + max(count, RUNS_MIN))
    chain = figure_named("spread-figure-4.5", probes=PROBES, loads=LOADS, tcp_loads=(0.0, 0.8), seeds=seeds)
    out = chain_violations(chain) + one_link_violations(figure_named("spread-table-4.2", seeds=seeds))
    if first <= 1 < first + count:
        out += routing_violations(figure_named("spread-table-4.1", protocols=tuple(LinkProtocol)))
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="seed; default: 1")
    parser.add_argument("--count", type=int, default=RUNS_MIN, help=f"of seeds; default: {RUNS_MIN}")
    parsed = parser.parse_args(arguments)
    found = violations(parsed.first, parsed.count)
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
