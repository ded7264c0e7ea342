"""[Spread]'s tables and figures from our own results, beside what the thesis states.

A result is a file ``figure-X.json`` (what ``isotone sim figure --json`` prints) or ``figure-X.txt`` (what it prints
without); one that is not there is *not yet measured*, and the page says by which command it would be. So it does of a
file of that name that is something else.

Implements: [Spread 3.4, 4.4, 5.2], the report of [DESIGN 5]. Deviations: see `thesis`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from isotone.pipeline.report.drawing import FAINT, colour, drawn, logarithmic, outside_legend
from isotone.pipeline.report.markup import figure, number, section, table, text
from isotone.pipeline.report.thesis import (
    DIAMETER_5_4_MS,
    EXHIBITS,
    FIGURE_5_4_MS,
    TABLE_4_1,
    TABLE_4_2,
    TABLE_5_1,
    Exhibit,
)

Rows = list[dict[str, Any]]


class Exhibited(NamedTuple):
    """All of them as HTML, and the names of those that have no result."""

    markup: str
    missing: tuple[str, ...]


def exhibits(results: Path | None) -> Exhibited:
    """Each with its result, or with the command for it."""
    shown, missing = "", []
    for exhibit in EXHIBITS:
        try:
            rows = _rows(results, exhibit.file)
            found = _BODIES[exhibit.file](rows) + _source(exhibit) if rows else ""
            why = "Not yet measured."
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # any file may have that name
            found, why = "", f"{results}/{exhibit.file} is not a result of this: {type(error).__name__}: {error}."
        if not found:
            missing.append(exhibit.name)
        body = f"<p>{text(exhibit.said)}</p>" + (found or _missing(why, exhibit))
        shown += section(exhibit.name.lower().replace(" ", "-"), f"{exhibit.name}: {exhibit.title}", body)
    return Exhibited(shown, tuple(missing))


def _source(exhibit: Exhibit) -> str:
    return f'<p class="source">Ours: <code>{text(exhibit.command)}</code>, results/{text(exhibit.file)}</p>'


def _missing(why: str, exhibit: Exhibit) -> str:
    return f'<p class="missing">{text(why)} <code>{text(exhibit.command)}</code> measures it.</p>'


# --- results -------------------------------------------------------------------------------------------------------


def _rows(results: Path | None, name: str) -> Rows:
    if results is None:
        return []
    if (results / f"{name}.json").is_file():
        return list(json.loads((results / f"{name}.json").read_text("utf-8"))["rows"])
    if (results / f"{name}.txt").is_file():
        return read_rows((results / f"{name}.txt").read_text("utf-8"))
    return []


def read_rows(printed: str) -> Rows:
    """The table that ``isotone sim figure`` prints: columns apart by two spaces, numbers as numbers."""
    body = printed.rpartition("\n\n")[2].splitlines()[1:]
    head = _cells(body[0])
    return [dict(zip(head, map(_value, _cells(line)), strict=True)) for line in body[1:] if line.strip()]


def _cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def _value(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return None if cell == "–" else cell


def _get(row: Mapping[str, Any], name: str) -> Any:
    """The column, as the JSON or as the printed table names it."""
    return row[name] if name in row else row[name.replace("_", " ")]


# --- bodies --------------------------------------------------------------------------------------------------------


def _routing(rows: Rows) -> str:
    head = ("source", "links", "ours, fanout", "ours, tree", "thesis, fanout", "thesis, tree")
    lines = []
    for row in rows:
        stated = TABLE_4_1.get(row["source"]) if row["protocol"] == "tcp" else None
        ours = (_get(row, "fanout_kbit_per_second"), _get(row, "tree_kbit_per_second"))
        lines.append([row["source"], row["protocol"], *map(number, ours), *map(number, stated or (None, None))])
    return table(head, lines, numbers_from=2)


def _one_link(rows: Rows) -> str:
    head = ("", "least, ms", "mean, ms", "most, ms")
    lines = [
        [f"ours, {row['protocol']} (one way)", *(number(_get(row, name)) for name in ("min_ms", "mean_ms", "max_ms"))]
        for row in rows
    ]
    lines += [[f"thesis, {name} (round trip)", *map(number, values)] for name, values in TABLE_4_2.items()]
    return table(head, lines, numbers_from=1)


def _under_load(rows: Rows) -> str:
    def draw(axes: Any) -> None:
        for place, protocol in enumerate(dict.fromkeys(row["protocol"] for row in rows)):
            mine = [row for row in rows if row["protocol"] == protocol]
            loads = [100 * row["load"] for row in mine]
            axes.plot(loads, [_get(row, "mean_ms") for row in mine], label=f"{protocol}, mean", color=colour(place),
                      marker="o", markersize=4)  # fmt: skip
            axes.plot(loads, [_get(row, "median_ms") for row in mine], label=f"{protocol}, median", color=colour(place),
                      linestyle=":", marker="o", markersize=3)  # fmt: skip
        axes.set(xlabel="load, % of the bottleneck", ylabel="ms, one way", ylim=(0, None))
        outside_legend(axes)

    return figure("figure-4-5", drawn("figure-4-5", draw), "Latency over five hops, 1 % loss, 1.5 Mbit/s, 1,024 bytes.")


def _agreed(rows: Rows) -> str:
    mine = [row for row in rows if row["service"] == "AGREED"]
    told = {"one": "one sends", "all": "all send", "unequal": "all send, unequally"}
    lines = []
    for row in mine:
        load = "" if row["load"] is None else f", load {100 * row['load']:.0f} %"
        lines.append([f"ours: {told.get(row['senders'], row['senders'])}{load}",
                      f"{_get(row, 'latency_over_diameter'):.2f} D"])  # fmt: skip
    lines += [[f"thesis: {case}", value] for case, value in TABLE_5_1]
    return table(("AGREED", "latency"), lines, numbers_from=1)


def _by_service(rows: Rows) -> str:
    loaded = [row for row in rows if row["load"] is not None]

    def draw(axes: Any) -> None:
        for place, service in enumerate(dict.fromkeys(row["service"] for row in loaded)):
            mine = [row for row in loaded if row["service"] == service]
            axes.plot([100 * row["load"] for row in mine], [_get(row, "latency_over_diameter") for row in mine],
                      label=f"{service}, ours", color=colour(place), marker="o", markersize=4)  # fmt: skip
            if service in FIGURE_5_4_MS:
                axes.axhline(FIGURE_5_4_MS[service] / DIAMETER_5_4_MS, color=colour(place), linestyle="--",
                             linewidth=1.0, label=f"{service}, thesis")  # fmt: skip
        axes.axhline(0, color=FAINT, linewidth=0.6)
        axes.set(xlabel="load, % of the bottleneck", ylabel="latency in diameters", ylim=(0, None))
        outside_legend(axes)

    return figure(
        "figure-5-4", drawn("figure-5-4", draw),
        "A chain of four sites. The thesis' delta was 100 ms, about its diameter; ours is measured, so SAFE and AGREED "
        "pay less for it.",
    )  # fmt: skip


def _by_groups(id: str, rows: Rows) -> str:
    """Figures 3.4 and 3.5: the first column is the number of groups or connections; columns of times are curves."""
    x, *others = rows[0]
    measured = [name for name in others if name.replace("_", " ").endswith((" ms", " us"))]

    def draw(axes: Any) -> None:
        for place, name in enumerate(measured):
            axes.plot([row[x] for row in rows], [row[name] for row in rows], label=name.replace("_", " "),
                      color=colour(place), marker="o", markersize=4)  # fmt: skip
        logarithmic(axes)
        axes.set(xlabel=x.replace("_", " "), ylabel="latency", ylim=(0, None))
        outside_legend(axes)

    if not measured:
        raise LookupError("no column of times")
    return figure(id, drawn(id, draw), "Two daemons; RELIABLE.")


_BODIES: Mapping[str, Callable[[Rows], str]] = {
    "figure-3.4": partial(_by_groups, "figure-3-4"),
    "figure-3.5": partial(_by_groups, "figure-3-5"),
    "figure-4.1": _routing,
    "figure-4.2": _one_link,
    "figure-4.5": _under_load,
    "figure-5.1": _agreed,
    "figure-5.4": _by_service,
}
