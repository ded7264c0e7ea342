"""A run as one JSON object: rows, ratios, what was found beside them, and the goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.goals import Goal, goals_of
from isotone.bench.lan.results import Ratio, Row, ratios_of, rows_of, spread_of
from isotone.bench.lan.run import Measured
from isotone.bench.measure import Machine

MINUTES_MOST = 75.0


class Value(msgspec.Struct, frozen=True):
    """A median."""

    median: float
    quartiles: tuple[float, float]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a step found, over all repetitions."""

    name: str
    repetitions: int
    values: dict[str, Value]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    command: str
    machine: Machine
    peers: dict[str, str]
    """With their versions."""
    minutes: float
    repetitions: int
    """The least that any row has."""
    rows: list[Row]
    ratios: list[Ratio]
    figures: list[Found]
    goals: list[Goal]
    notes: list[str]


def summary_of(measured: Measured, cells: Sequence[Cell]) -> Summary:
    """From what was measured."""
    rows = rows_of(cells, measured.samples)
    counts = [len(measured.samples.get(cell.key, {})) for cell in cells]
    figures = [found_of(name, [*found.values()]) for name, found in sorted(measured.figures.items()) if found]
    minutes = round(measured.seconds / 60, 1)
    return Summary(
        command=measured.command,
        machine=measured.machine,
        peers=measured.peers,
        minutes=minutes,
        repetitions=min(counts, default=0),
        rows=rows,
        ratios=ratios_of(rows),
        figures=[*figures, *_derived(measured, cells)],
        goals=goals_of(cells, measured.samples, measured.figures),
        notes=list(dict.fromkeys([*measured.notes, *_too_long(minutes)])),
    )


def _too_long(minutes: float) -> list[str]:
    told = f"the run took {minutes:g} minutes; a whole one may take {MINUTES_MOST:g}"
    return [told] if minutes > MINUTES_MOST else []


def found_of(name: str, found: Sequence[dict[str, float]]) -> Found:
    """The medians of what each repetition found."""
    keys = dict.fromkeys(key for each in found for key in each)
    values = {key: _value([each[key] for each in found if key in each]) for key in keys}
    return Found(name=name, repetitions=len(found), values=values)


def _value(values: Sequence[float]) -> Value:
    low, high = spread_of(values)
    return Value(round(median(values), 4), (round(low, 4), round(high, 4)))


def _derived(measured: Measured, cells: Sequence[Cell]) -> Iterator[Found]:
    """Packets that crossed the links, and what a megabyte costs the daemons."""
    for cell in cells:
        samples = [*measured.samples.get(cell.key, {}).values()]
        if not samples:
            continue
        values = {"daemons_cpu_ms_per_mb": _value([each.cpu_us_daemons / cell.size * 1e3 for each in samples])}
        if cell.path != "loopback":
            values["packets_per_message"] = _value([each.packets_per_message for each in samples])
            values["packets_per_s"] = _value([each.packets_per_message * each.rate for each in samples])
        yield Found(name=f"link/{cell.key}", repetitions=len(samples), values=values)
