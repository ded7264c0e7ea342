"""What the figures are meant to reach, and whether they do. A goal is missed only when the quartiles lie beyond it.

Ratios are taken repetition by repetition, as systems were measured beside each other, and then their median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.measuring import Sample
from isotone.bench.lan.results import OURS, Row, peer_row, rows_of, spread_of

BASE = {64: 5.0, 1024: 3.0, 8192: 2.0, 65_536: 2.0}
FRAMES = {64: 3.0, 1024: 2.0, 8192: 1.2, 65_536: 1.2}
SMALL = (64, 1024)
Figures = Mapping[str, Sequence[Mapping[str, float]]]
Of = Callable[[Sample], float]


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    name: str
    at: Literal["least", "most"]
    goal: float
    value: float
    quartiles: tuple[float, float]
    verdict: Literal["met", "within the quartiles", "missed"]


def goal_of(name: str, at: Literal["least", "most"], goal: float, values: Sequence[float]) -> Goal:
    """The median against the goal."""
    value, (low, high) = median(values), spread_of(values)
    met = value >= goal if at == "least" else value <= goal
    beyond = high < goal if at == "least" else low > goal
    verdict: Literal["met", "within the quartiles", "missed"] = "within the quartiles"
    if met or beyond:
        verdict = "met" if met else "missed"
    return Goal(name=name, at=at, goal=goal, value=value, quartiles=(low, high), verdict=verdict)


def goals_of(cells: Sequence[Cell], samples: Mapping[str, Sequence[Sample]], figures: Figures) -> list[Goal]:
    """Those for which there are figures."""
    board = Board(cells, samples)
    return [*_rates(board), *_packed(board), *_own(board), *_latencies(figures), *_changes(figures), *_scales(board)]


class Board:
    """Samples, found by what they are of."""

    def __init__(self, cells: Sequence[Cell], samples: Mapping[str, Sequence[Sample]]) -> None:
        self.rows = rows_of(cells, samples)
        self._samples = samples
        self._keys = {_identity(row): cell.key for row, cell in zip(self.rows, self._measured(cells))}

    def _measured(self, cells: Sequence[Cell]) -> list[Cell]:
        return [cell for cell in cells if self._samples.get(cell.key)]

    def ours(self, variant: str, size: int, path: str = "loopback") -> Row | None:
        """Our row."""
        for row in self.rows:
            if (row.system, row.variant, row.size, row.path) == (OURS, variant, size, path):
                return row
        return None

    def better(self, ours: Row, packings: Sequence[str]) -> Row | None:
        """The fastest peer with one of these packings."""
        systems = sorted({row.system for row in self.rows if row.system != OURS})
        found = [
            row
            for system in systems
            for packing in packings
            if (row := peer_row(ours, self.rows, system, packing)) is not None
        ]
        return max(found, key=lambda row: row.rate, default=None)

    def values(self, row: Row, of: Of) -> list[float]:
        """Of each repetition."""
        return [of(sample) for sample in self._samples[self._keys[_identity(row)]]]

    def ratios(self, one: Row, other: Row, of: Of) -> list[float]:
        """One over the other, repetition by repetition."""
        return [mine / theirs for mine, theirs in zip(self.values(one, of), self.values(other, of))]


def _identity(row: Row) -> tuple[object, ...]:
    return row.system, row.variant, row.packing, row.service, row.size, row.senders, row.path


def _rate(sample: Sample) -> float:
    return sample.rate


def _cpu(sample: Sample) -> float:
    return sample.cpu_us_daemons + sample.cpu_us_clients


# --- throughput ----------------------------------------------------------------------------------------------------


def _rates(board: Board) -> Iterator[Goal]:
    for size, factor in BASE.items():
        yield from _against(board, "base", size, factor, with_cpu=True)
    for variant in ("send-one", "receive-one", "one-by-one"):
        yield from _against(board, variant, 64, 2.0)
    for size, factor in FRAMES.items():
        yield from _against(board, "base", size, factor, path="bridge-frames")


def _against(
    board: Board, variant: str, size: int, factor: float, *, path: str = "loopback", with_cpu: bool = False
) -> Iterator[Goal]:
    ours = board.ours(variant, size, path)
    peer = None if ours is None else board.better(ours, ("none",))
    if ours is None or peer is None:
        return
    name = f"{variant} {size} B {path}, ours over {peer.system} on {peer.path}"
    yield goal_of(f"{name}: messages/s", "least", factor, board.ratios(ours, peer, _rate))
    if with_cpu:
        yield goal_of(f"{name}: CPU per message", "most", 1 / factor, board.ratios(ours, peer, _cpu))


def _packed(board: Board) -> Iterator[Goal]:
    packings = sorted({row.packing for row in board.rows} - {"none"})
    for size in SMALL:
        ours = board.ours("base", size)
        peer = None if ours is None else board.better(ours, packings)
        if ours is not None and peer is not None:
            name = f"base {size} B, ours over {peer.system} packed to {peer.packing}: messages/s"
            yield goal_of(name, "least", 1.0, board.ratios(ours, peer, _rate))


def _own(board: Board) -> Iterator[Goal]:
    for size in SMALL:
        base = board.ours("base", size)
        if base is None:
            continue
        for variant, part in (("safe", 0.7), ("senders-3", 0.9)):
            row = board.ours(variant, size)
            if row is not None:
                yield goal_of(
                    f"{variant} over base, {size} B: messages/s", "least", part, board.ratios(row, base, _rate)
                )
        yield from _against(board, "encryption", size, 1.0)


# --- latency, changes ----------------------------------------------------------------------------------------------


def _latencies(figures: Figures) -> Iterator[Goal]:
    ours = figures.get("latency/gap-1ms/isotone/none/agreed/64/loopback", [])
    peers = [found for name, found in figures.items() if _is_gap_of_peer(name)]
    if ours and peers:
        for key, factor in (("p50", 1.0), ("p99", 1.5)):
            best = min(peers, key=lambda found: median(each[key] for each in found))
            values = [mine[key] / theirs[key] for mine, theirs in zip(ours, best)]
            yield goal_of(f"latency {key}, 64 B, gap of 1 ms: ours over the better peer", "most", factor, values)
    for name, found in figures.items():
        load, system, rest = _parts(name)
        if load.startswith("common:") and system == OURS:
            peer = load.split(":")[1]
            other = [each for key, each in figures.items() if key.startswith(f"latency/{load}/{peer}/") and rest in key]
            for key in ("p50", "p99") if other else ():
                values = [mine[key] / theirs[key] for mine, theirs in zip(found, other[0])]
                yield goal_of(f"latency {key}, {load}, {rest.strip('/')} B", "most", 1.0, values)


def _is_gap_of_peer(name: str) -> bool:
    return name.startswith("latency/gap-1ms/") and not name.startswith("latency/gap-1ms/isotone/")


def _parts(name: str) -> tuple[str, str, str]:
    """Load, system, and the size between slashes."""
    parts = name.split("/")
    return (parts[1], parts[2], f"/{parts[5]}/") if len(parts) == 7 else ("", "", "")


CHANGES = (
    ("kill-loaded/isotone/loopback", "view_ms", "SIGKILL to view, ms", 100.0),
    ("drop-loaded/isotone/loopback", "view_ms", "dropped traffic to view, ms", 1000.0),
    ("kill-loaded/isotone/loopback", "silence_ms", "longest silence at a SIGKILL, ms", 300.0),
    ("drop-loaded/isotone/loopback", "silence_ms", "longest silence at dropped traffic, ms", 1200.0),
    ("join/isotone/loopback", "silence_ms", "longest silence when a client joins, ms", 20.0),
    ("kill-loaded/isotone/loopback", "return_silence_ms", "longest silence when a daemon joins, ms", 200.0),
)


def _changes(figures: Figures) -> Iterator[Goal]:
    for name, key, title, most in CHANGES:
        values = [each[key] for each in figures.get(name, []) if key in each]
        if values:
            yield goal_of(title, "most", most, values)


# --- scale ---------------------------------------------------------------------------------------------------------


def _scales(board: Board) -> Iterator[Goal]:
    for size in SMALL:
        for what, counts, most in (
            ("daemons", (2, 3, 5, 8), 1.2),
            ("groups", (1, 10, 100, 1000), 1.1),
            ("clients", (1, 10, 100, 1000), 1.1),
        ):
            rows = [board.ours(f"offered-{what}-{count}", size) for count in counts]
            found = [(row, count) for row, count in zip(rows, counts) if row is not None]
            if len(found) < 2:
                continue
            each = [_per_daemon(board, row, count if what == "daemons" else 1) for row, count in found]
            values = [max(costs) / min(costs) for costs in zip(*each)]
            name = f"CPU per message and daemon, {found[0][1]} to {found[-1][1]} {what}, {size} B: most over least"
            yield goal_of(name, "most", most, values)


def _per_daemon(board: Board, row: Row, daemons: int) -> list[float]:
    return board.values(row, lambda sample: sample.cpu_us_daemons / daemons)
