"""Latency by the number of groups, and of groups and connections: two figures of the thesis, each as a file of text.

Two daemons, as there. Where the thesis has ten messages for each point, these are those of a gap of a millisecond.

Implements: [Spread 3.4], Figures 3.4 and 3.5. Deviations: loopback on one machine instead of an Ethernet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from isotone.bench.lan.cells import Cell
from isotone.bench.measure import Machine

COUNTS = (1, 10, 100, 1000)
GROUPS, CONNECTIONS = "figure-3.4", "figure-3.5"
COLUMNS = {GROUPS: "groups", CONNECTIONS: "groups and connections"}
"""The first of each; it is what the other columns are drawn over."""
DAEMONS = 2
Figures = Mapping[str, Mapping[int, Mapping[str, float]]]


def exhibit_cells() -> dict[str, Cell]:
    """What is measured for each point, by the name of its figure."""
    cells: dict[str, Cell] = {}
    for count in COUNTS:
        common = Cell(variant=GROUPS, daemons=DAEMONS, service="reliable", groups=count)
        cells[_name(GROUPS, count)] = common
        alone = Cell(variant=CONNECTIONS, daemons=DAEMONS, service="reliable", idle_clients=count)
        cells[_name(CONNECTIONS, count)] = alone
    return cells


def _name(exhibit: str, count: int) -> str:
    return f"{exhibit}/{count}"


def exhibit_files(command: str, machine: Machine, figures: Figures) -> dict[str, str]:
    """The text of each figure of which all points were measured, by the name of its file."""
    files = {}
    for exhibit, column in COLUMNS.items():
        points = {count: figures.get(_name(exhibit, count), {}) for count in COUNTS}
        if all(points.values()):
            files[f"{exhibit}.txt"] = _text(command, machine, column, points)
    return files


def _text(command: str, machine: Machine, column: str, points: Mapping[int, Mapping[int, Mapping[str, float]]]) -> str:
    repetitions = min(map(len, points.values()))
    lines = [[column, "p50 us", "p99 us"]]
    for count, found in points.items():
        lines.append([str(count), *(f"{median(each[key] for each in found.values()):.1f}" for key in ("p50", "p99"))])
    return "\n".join(
        [
            command,
            f"commit {machine.commit}; {machine.processor}, {machine.cores} cores, {machine.system}, {machine.python}",
            "",
            f"daemons {DAEMONS}, service RELIABLE, payload_bytes {Cell().size}, gap_ms 1, repetitions {repetitions}",
            *_aligned(lines),
            "",
        ]
    )


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(f"{field:<{width}}" for field, width in zip(line, widths)).rstrip() for line in lines]
