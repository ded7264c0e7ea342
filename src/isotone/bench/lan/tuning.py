"""Corosync's documented settings against each other, so that it is measured with those that serve it best."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.corosync import CorosyncCluster, Knobs
from isotone.bench.lan.measuring import Effort, measure
from isotone.bench.lan.network import Network

SIZES = (64, 1024, 65_536)
TRIED = (
    Knobs(window_size=50, max_messages=17, sched_rr=True),
    Knobs(window_size=50, max_messages=17),
    Knobs(window_size=300, max_messages=17),
    Knobs(window_size=300, max_messages=100),
    Knobs(window_size=300, max_messages=100, sched_rr=True),
)


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """What it does with some settings."""

    settings: str
    size: int
    rate: float
    cpu_us: float


def tune(effort: Effort, repetitions: int, say: Callable[[str], None]) -> list[Tuned]:
    """All of them, interleaved repetition by repetition; the fastest first."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for repetition in range(repetitions):
        for knobs in TRIED:
            say(f"repetition {repetition + 1} of {repetitions}: {knobs.told}")
            with Network(3, frames=False) as network:
                running = CorosyncCluster(Cell(system="corosync", path="bridge").cluster, network, knobs=knobs)
                try:
                    running.start()
                    for size in SIZES:
                        cell = Cell(system="corosync", size=size, path="bridge")
                        sample, _ = measure(cell, running, effort)
                        cost = sample.cpu_us_daemons + sample.cpu_us_clients
                        found.setdefault((knobs.told, size), []).append((sample.rate, cost))
                finally:
                    running.stop()
    rows = [
        Tuned(
            settings=told,
            size=size,
            rate=median(rate for rate, _ in samples),
            cpu_us=median(cost for _, cost in samples),
        )
        for (told, size), samples in found.items()
    ]
    return sorted(rows, key=lambda row: (row.size, -row.rate))
