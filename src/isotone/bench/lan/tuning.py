"""Corosync's documented settings against each other, so that it is measured with those that serve it best."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.corosync import CorosyncCluster, Knobs
from isotone.bench.lan.measuring import Effort, measure
from isotone.bench.lan.network import Network
from isotone.core.errors import MachineError

CASES = ((64, 0), (64, 65_536), (1024, 0), (8192, 0), (65_536, 0))
"""Bytes of messages, and of containers of the application that packs."""
TRIED = (
    Knobs(window_size=50, max_messages=17, sched_rr=True),
    Knobs(window_size=50, max_messages=17),
    Knobs(window_size=300, max_messages=17),
    Knobs(window_size=300, max_messages=100),
    Knobs(window_size=300, max_messages=170),  # the limit that the manual names, with frames of 1,500 bytes
    Knobs(window_size=300, max_messages=100, sched_rr=True),
    Knobs(window_size=300, max_messages=100, transport="udpu"),
    Knobs(window_size=170, max_messages=170, transport="udpu"),
)


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """What it does with some settings."""

    settings: str
    size: int
    packing: int
    rate: float
    cpu_us: float


def tune(effort: Effort, repetitions: int, say: Callable[[str], None]) -> list[Tuned]:
    """All of them, interleaved repetition by repetition; the fastest first."""
    found: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for repetition in range(repetitions):
        for knobs in TRIED:
            say(f"repetition {repetition + 1} of {repetitions}: {knobs.told}")
            with Network(3, frames=False) as network:
                running = CorosyncCluster(Cell(system="corosync", path="bridge").cluster, network, knobs=knobs)
                try:
                    running.start()
                    for size, packing in CASES:
                        cell = Cell(system="corosync", size=size, packing=packing, path="bridge")
                        try:
                            sample, _ = measure(cell, running, effort)
                        except MachineError as error:  # settings that it does not bear are no settings to be tuned to
                            say(f"  not taken: {error}")
                            break
                        cost = sample.cpu_us_daemons + sample.cpu_us_clients
                        found.setdefault((knobs.told, size, packing), []).append((sample.rate, cost))
                finally:
                    running.stop()
    rows = [
        Tuned(
            settings=told,
            size=size,
            packing=packing,
            rate=median(rate for rate, _ in samples),
            cpu_us=median(cost for _, cost in samples),
        )
        for (told, size, packing), samples in found.items()
    ]
    return sorted(rows, key=lambda row: (row.size, row.packing, -row.rate))
