"""What the figures are meant to reach, and whether they do. A goal is missed only when the quartiles lie beyond it.

The list is the same for every run: what has no figures, or those of fewer than five repetitions, is *not measured*, and
that is said. Ratios are taken repetition by repetition, as systems were measured beside each other, and then their
median; a repetition that one of the two lacks is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.measuring import Sample
from isotone.bench.lan.results import OURS, Row, Samples, peer_row, rows_of, spread_of

BASE = {64: 5.0, 1024: 3.0, 8192: 2.0, 65_536: 2.0}
FRAMES = {64: 3.0, 1024: 2.0, 8192: 1.2, 65_536: 1.2}
SMALL = (64, 1024)
PATHS = ("loopback", "bridge")
REPETITIONS_LEAST = 5
Figures = Mapping[str, Mapping[int, Mapping[str, float]]]
Of = Callable[[Sample], float]
Verdict = Literal["met", "within the quartiles", "missed", "not measured"]


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    name: str
    at: Literal["least", "most"]
    goal: float
    value: float | None = None
    """The median; None where there is nothing."""
    quartiles: tuple[float, float] | None = None
    repetitions: int = 0
    against: str = ""
    """The peer that it is over, and its path."""
    verdict: Verdict


def goal_of(name: str, at: Literal["least", "most"], goal: float, values: Sequence[float], against: str = "") -> Goal:
    """The median against the goal."""
    if not values:
        return Goal(name=name, at=at, goal=goal, against=against, verdict="not measured")
    value, quartiles = median(values), spread_of(values)
    return Goal(
        name=name,
        at=at,
        goal=goal,
        value=value,
        quartiles=quartiles,
        repetitions=len(values),
        against=against,
        verdict="not measured" if len(values) < REPETITIONS_LEAST else _verdict(at, goal, value, quartiles),
    )


def _verdict(at: Literal["least", "most"], goal: float, value: float, quartiles: tuple[float, float]) -> Verdict:
    if value >= goal if at == "least" else value <= goal:
        return "met"
    beyond = quartiles[1] < goal if at == "least" else quartiles[0] > goal
    return "missed" if beyond else "within the quartiles"


def goals_of(cells: Sequence[Cell], samples: Samples, figures: Figures) -> list[Goal]:
    """All of them, whatever was measured."""
    board = Board(cells, samples)
    latencies = [*_commons(board, figures), *_gaps(figures)]
    return [*_rates(board), *_packed(board), *_own(board), *latencies, *_changes(figures), *_scales(board)]


class Board:
    """Samples, found by what they are of."""

    def __init__(self, cells: Sequence[Cell], samples: Samples) -> None:
        self.rows = rows_of(cells, samples)
        self._samples = samples
        measured = [cell for cell in cells if samples.get(cell.key)]
        self._keys = {_identity(row): cell.key for row, cell in zip(self.rows, measured, strict=True)}

    def ours(self, variant: str, size: int, path: str = "loopback") -> Row | None:
        """Our row."""
        for row in self.rows:
            if (row.system, row.variant, row.size, row.path) == (OURS, variant, size, path):
                return row
        return None

    def peers(self, ours: Row | None, packings: Sequence[str] = ("none",)) -> list[Row]:
        """What stands against ours of every peer, with each of these packings."""
        if ours is None:
            return []
        systems = sorted({row.system for row in self.rows if row.system != OURS})
        found = (peer_row(ours, self.rows, system, packing) for system in systems for packing in packings)
        return [row for row in found if row is not None]

    def values(self, row: Row, of: Of) -> dict[int, float]:
        """By repetition."""
        found = self._samples[self._keys[_identity(row)]]
        return {repetition: of(found[repetition]) for repetition in sorted(found)}

    def ratios(self, one: Row | None, other: Row | None, of: Of) -> list[float]:
        """One over the other, repetition by repetition; nothing where one is missing."""
        return [] if one is None or other is None else _paired(self.values(one, of), self.values(other, of))

    @property
    def packings(self) -> list[str]:
        """That peers were measured with."""
        return sorted({row.packing for row in self.rows} - {"none"})


def _paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    return [ours[repetition] / theirs[repetition] for repetition in sorted(ours.keys() & theirs.keys())]


def _identity(row: Row) -> tuple[object, ...]:
    return row.system, row.variant, row.packing, row.service, row.size, row.senders, row.path


def _rate(sample: Sample) -> float:
    return sample.rate


def _cpu(sample: Sample) -> float:
    return sample.cpu_us_daemons + sample.cpu_us_clients


def _fastest(rows: Sequence[Row]) -> Row | None:
    return max(rows, key=lambda row: row.rate, default=None)


def _named(peer: Row | None) -> str:
    if peer is None:
        return ""
    packing = "" if peer.packing == "none" else f" packed to {peer.packing}"
    return f"{peer.system}{packing} on {peer.path}, {peer.variant}"


# --- throughput ----------------------------------------------------------------------------------------------------


def _rates(board: Board) -> Iterator[Goal]:
    for size, factor in BASE.items():
        yield _against(board, "base", size, factor)
        ours = board.ours("base", size)
        cheapest = min(board.peers(ours), key=lambda row: row.cpu_us, default=None)
        name = f"base {size} B loopback, ours over the cheapest peer: CPU per message"
        yield goal_of(name, "most", 1 / factor, board.ratios(ours, cheapest, _cpu), _named(cheapest))
    for variant in ("send-one", "receive-one", "one-by-one"):
        yield _against(board, variant, 64, 2.0)
    for size, factor in FRAMES.items():
        yield _against(board, "base", size, factor, path="bridge-frames")


def _against(board: Board, variant: str, size: int, factor: float, *, path: str = "loopback") -> Goal:
    ours = board.ours(variant, size, path)
    peer = _fastest(board.peers(ours))
    name = f"{variant} {size} B {path}, ours over the better peer: messages/s"
    return goal_of(name, "least", factor, board.ratios(ours, peer, _rate), _named(peer))


def _packed(board: Board) -> Iterator[Goal]:
    for size in SMALL:
        ours = board.ours("base", size)
        peer = _fastest(board.peers(ours, board.packings))
        name = f"base {size} B loopback, ours over the better packed peer: messages/s"
        yield goal_of(name, "least", 1.0, board.ratios(ours, peer, _rate), _named(peer))


def _own(board: Board) -> Iterator[Goal]:
    for size in SMALL:
        base = board.ours("base", size)
        for variant, part in (("safe", 0.7), ("senders-3", 0.9)):
            values = board.ratios(board.ours(variant, size), base, _rate)
            yield goal_of(f"{variant} over base, {size} B: messages/s", "least", part, values)
        yield _against(board, "encryption", size, 1.0)


# --- latency -------------------------------------------------------------------------------------------------------


def _commons(board: Board, figures: Figures) -> Iterator[Goal]:
    """Ourselves and the better packed peer at one offered rate."""
    for path in PATHS:
        for size in SMALL:
            ours = board.ours("base", size, path)
            peer = _fastest(board.peers(ours, board.packings))
            mine: Mapping[int, Mapping[str, float]] = {}
            theirs = mine
            if peer is not None:
                load = f"latency/common:{peer.system}:{peer.packing}:{path}"
                mine = figures.get(f"{load}/{OURS}/none/agreed/{size}/{path}", {})
                theirs = figures.get(f"{load}/{peer.system}/{peer.packing}/agreed/{size}/{peer.path}", {})
            for key in ("p50", "p99"):
                name = f"latency {key}, {size} B {path}, one offered rate: ours over the better packed peer"
                yield goal_of(name, "most", 1.0, _paired(_of(mine, key), _of(theirs, key)), _named(peer))


def _gaps(figures: Figures) -> Iterator[Goal]:
    for path in PATHS:
        ours = figures.get(f"latency/gap-1ms/{OURS}/none/agreed/64/{path}", {})
        peers = _gaps_of_peers(figures, path)
        for key, factor in (("p50", 1.0), ("p99", 1.5)):
            medians = {peer: median(_of(figures[name], key).values()) for peer, name in peers.items()}
            best = min(medians, key=lambda peer: (medians[peer], peer), default="")
            theirs = figures[peers[best]] if best else {}
            name = f"latency {key}, 64 B {path}, gap of 1 ms: ours over the better peer"
            yield goal_of(name, "most", factor, _paired(_of(ours, key), _of(theirs, key)), best)


def _gaps_of_peers(figures: Figures, path: str) -> dict[str, str]:
    """The figure of each peer, by its name and path; on the bridge where it has none on loopback."""
    found: dict[str, str] = {}
    for name in sorted(name for name, each in figures.items() if name.startswith("latency/gap-1ms/") and each):
        _, _, system, packing, service, size, place = name.split("/")
        if system == OURS or (packing, service, size) != ("none", "agreed", "64"):
            continue
        elsewhere = path == "loopback" and place == "bridge" and name.replace("/bridge", "/loopback") not in figures
        if place == path or elsewhere:
            found[f"{system} on {place}"] = name
    return found


def _of(figure: Mapping[int, Mapping[str, float]], key: str) -> dict[int, float]:
    return {repetition: each[key] for repetition, each in figure.items() if key in each}


# --- changes, scale ------------------------------------------------------------------------------------------------

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
        yield goal_of(title, "most", most, list(_of(figures.get(name, {}), key).values()))


def _scales(board: Board) -> Iterator[Goal]:
    for size in SMALL:
        for what, counts, most in (
            ("daemons", (2, 3, 5, 8), 1.2),
            ("groups", (1, 10, 100, 1000), 1.1),
            ("clients", (1, 10, 100, 1000), 1.1),
        ):
            rows = [board.ours(f"offered-{what}-{count}", size) for count in counts]
            each = [
                board.values(row, _per_daemon(count if what == "daemons" else 1))
                for row, count in zip(rows, counts, strict=True)
                if row is not None
            ]
            values = _most_over_least(each) if len(each) == len(counts) else []
            name = f"CPU per message and daemon, {counts[0]} to {counts[-1]} {what}, {size} B: most over least"
            yield goal_of(name, "most", most, values)


def _per_daemon(daemons: int) -> Of:
    return lambda sample: sample.cpu_us_daemons / daemons


def _most_over_least(each: Sequence[Mapping[int, float]]) -> list[float]:
    """Of the repetitions that all of them have."""
    common = set.intersection(*({*values} for values in each))
    return [
        max(values[repetition] for values in each) / min(values[repetition] for values in each)
        for repetition in sorted(common)
    ]
