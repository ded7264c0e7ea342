"""Views over time, as a picture: a lane for each node, a bar for each view that it was in, with crashes and cuts.

Nodes that are in one view at a time have one colour there, so a partition is where the colours part.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from isotone.pipeline.report.drawing import INK, colour, drawn
from isotone.trace.events import STOPPED
from isotone.trace.story import natural_order

Rows = Sequence[dict[str, Any]]
OF_GROUPS = ("view", "selfleave")
"""Rows that are drawn only where no views of daemons are recorded."""
DRAWN = ("sview", "crash", "recover", "linkfailed", "faults", "truncated", "last")
LANES_MAX = 40
MOMENTS_MAX = 200
BARS_MAX = 1500
"""Of more bars than that, or marks of a kind, the shorter or later ones are left out: the page is to stay readable."""
LABELS_MAX = 60
LABEL_SHARE_MIN = 0.07
_CUT = "#c44e52"


class Bar(NamedTuple):
    """A node in a view, from when to when."""

    node: str
    begin: float
    end: float
    view: str
    members: int


class Lanes(NamedTuple):
    """What is drawn: times in seconds since the first row."""

    nodes: list[str]
    bars: list[Bar]
    crashes: list[tuple[str, float]]
    stops: list[tuple[str, float]]
    starts: list[tuple[str, float]]
    failures: list[tuple[str, float]]
    cuts: list[tuple[str, float, float]]
    of: str
    """Of what the views are: of the daemons, or of a group."""
    left: str
    """What there is besides, in words; empty if all is drawn."""


def lanes(rows: Rows) -> Lanes:
    """From the timeline of one run, in order of time."""
    known = [row for row in rows if row["node"]]
    begin = min((row["at"] for row in known), default=0)
    last = max((row["at"] for row in known), default=0)
    kind, group = _subject(known)
    at = {id(row): (row["at"] - begin) / 1e6 for row in known}
    names = sorted({row["node"] for row in known}, key=natural_order)
    chosen = set(names[:LANES_MAX])
    shown = [row for row in known if row["node"] in chosen]
    bars = _bars([row for row in shown if _matters(row, kind, group)], at, (last - begin) / 1e6)
    marks = {
        mark: [(row["node"], at[id(row)]) for row in shown if _mark_of(row) == mark]
        for mark in ("crash", "stop", "recover", "linkfailed")
    }
    cuts = _cuts([row for row in shown if row["kind"] == "faults"], at, (last - begin) / 1e6)
    return Lanes(
        nodes=names[:LANES_MAX],
        bars=_longest(bars),
        crashes=marks["crash"][:BARS_MAX],
        stops=marks["stop"][:BARS_MAX],
        starts=marks["recover"][:BARS_MAX],
        failures=marks["linkfailed"][:BARS_MAX],
        cuts=cuts[:BARS_MAX],
        of="the daemons" if kind == "sview" else f"the group {group}",
        left=_left(len(names) - LANES_MAX, len(bars) - BARS_MAX, [*map(len, marks.values()), len(cuts)]),
    )


def _mark_of(row: dict[str, Any]) -> str:
    """Which mark a row is; of no mark its kind."""
    return "stop" if row["kind"] == "crash" and row["reason"] == STOPPED else str(row["kind"])


def _longest(bars: list[Bar]) -> list[Bar]:
    """In their order."""
    if len(bars) <= BARS_MAX:
        return bars
    kept = sorted(range(len(bars)), key=lambda place: bars[place].begin - bars[place].end)[:BARS_MAX]
    return [bars[place] for place in sorted(kept)]


def _left(nodes: int, bars: int, marks: list[int]) -> str:
    told = [f"{nodes} of the nodes"] if nodes > 0 else []
    told += [f"{bars} of the bars, the shortest"] if bars > 0 else []
    late = sum(max(0, count - BARS_MAX) for count in marks)
    told += [f"{late} of the marks, the last"] if late > 0 else []
    return "; ".join(told)


def _subject(rows: Rows) -> tuple[str, str | None]:
    """Daemon views where they are recorded; else those of the group that changes most."""
    if any(row["kind"] == "sview" for row in rows):
        return "sview", None
    counts = Counter(row["group"] for row in rows if row["kind"] == "view")
    return "view", max(sorted(counts), key=lambda group: counts[group]) if counts else None


def _matters(row: dict[str, Any], kind: str, group: str | None) -> bool:
    if row["kind"] in ("crash", "last", "truncated", "recover"):
        return True
    own = kind == "sview" or row["group"] == group
    return own and row["kind"] in (kind, "selfleave" if kind == "view" else kind)


def _bars(rows: Rows, at: dict[int, float], end: float) -> list[Bar]:
    """A view lasts until the next one, or until its node crashes or its record ends."""
    bars: list[Bar] = []
    open_views: dict[str, tuple[float, str, int]] = {}
    for row in rows:
        node, time = row["node"], at[id(row)]
        began = open_views.pop(node, None)
        if began is not None:
            bars.append(Bar(node, began[0], time, began[1], began[2]))
        if row["kind"] in ("view", "sview"):
            open_views[node] = (time, row["view"], len(row["members"] or ()))
        elif row["kind"] == "last" and began is not None:
            open_views[node] = (time, began[1], began[2])
    for node, (begin, view, members) in sorted(open_views.items()):
        bars.append(Bar(node, begin, end, view, members))
    return [bar for bar in bars if bar.end > bar.begin]


def _cuts(rows: Rows, at: dict[int, float], end: float) -> list[tuple[str, float, float]]:
    """From when to when a daemon was told to treat others' traffic badly."""
    found: list[tuple[str, float, float]] = []
    since: dict[str, float] = {}
    for row in rows:
        if row["reason"]:
            since.setdefault(row["node"], at[id(row)])
        elif row["node"] in since:
            found.append((row["node"], since.pop(row["node"]), at[id(row)]))
    return found + [(node, begin, end) for node, begin in sorted(since.items())]


def moments_of(shown: Lanes) -> list[tuple[float, str]]:
    """What is drawn, as sentences in the order of time; the first `MOMENTS_MAX`."""
    told: list[tuple[float, str]] = []
    for view in dict.fromkeys(bar.view for bar in shown.bars):
        bars = [bar for bar in shown.bars if bar.view == view]
        nodes = ", ".join(sorted({bar.node for bar in bars}, key=natural_order))
        members = f"{bars[0].members} member{'' if bars[0].members == 1 else 's'}"
        told.append((min(bar.begin for bar in bars), f"{nodes}: view {view} with {members}"))
    told += [(moment, f"{node} crashes") for node, moment in shown.crashes]
    told += [(moment, f"{node} stops") for node, moment in shown.stops]
    told += [(moment, f"{node} starts") for node, moment in shown.starts]
    told += [(moment, f"a link of {node} failed") for node, moment in shown.failures]
    for node, begin, end in shown.cuts:
        told += [(begin, f"faults are injected at {node}"), (end, f"the injected faults at {node} end")]
    return sorted(told)[:MOMENTS_MAX]


def picture(id: str, shown: Lanes) -> str:
    """The picture of one run."""
    return drawn(id, lambda axes: _draw(axes, shown), height=0.9 + 0.42 * max(2, len(shown.nodes)))


def _draw(axes: Any, shown: Lanes) -> None:
    places = {node: place for place, node in enumerate(shown.nodes)}
    colours = {view: place for place, view in enumerate(dict.fromkeys(bar.view for bar in shown.bars))}
    length = max((bar.end for bar in shown.bars), default=1.0)
    for bar in shown.bars:
        if bar.node in places:
            _draw_bar(axes, bar, places[bar.node], colour(colours[bar.view]))
            if len(shown.bars) <= LABELS_MAX:
                _label_bar(axes, bar, places[bar.node], (bar.end - bar.begin) / length)
    for node, begin, end in shown.cuts:
        if node in places:
            axes.barh(places[node] + 0.42, end - begin, left=begin, height=0.1, color=_CUT)
    _marks(axes, shown, places)
    axes.set_yticks(range(len(shown.nodes)), shown.nodes)
    axes.set_ylim(len(shown.nodes) - 0.4, -0.6)
    axes.set_xlim(0, length)
    axes.set_xlabel("seconds")
    axes.grid(visible=False, axis="y")


def _draw_bar(axes: Any, bar: Bar, place: int, fill: str) -> None:
    axes.barh(place, bar.end - bar.begin, left=bar.begin, height=0.62, color=fill, edgecolor="white", linewidth=1.0)


def _label_bar(axes: Any, bar: Bar, place: int, share: float) -> None:
    """As much as there is room for."""
    if share > LABEL_SHARE_MIN:
        label = f"{bar.view}  ({bar.members})" if share > 2 * LABEL_SHARE_MIN else f"({bar.members})"
        axes.text((bar.begin + bar.end) / 2, place, label, ha="center", va="center", color="white", fontsize=8)


def _marks(axes: Any, shown: Lanes, places: dict[str, int]) -> None:
    kinds = (
        (shown.crashes, "X", "#8a1c1c", "crash", 60),
        (shown.stops, "s", INK, "stop", 30),
        (shown.starts, ">", INK, "start", 30),
        (shown.failures, "|", INK, "link failed", 110),
    )
    for moments, marker, fill, label, size in kinds:
        known = [(time, places[node]) for node, time in moments if node in places]
        if known:
            edge = {"edgecolors": "white", "linewidths": 0.8} if marker in "X>s" else {}
            times, lanes_at = zip(*known, strict=True)
            axes.scatter(
                times, lanes_at, marker=marker, color=fill, s=size, label=label, zorder=3, clip_on=False, **edge
            )
    if shown.cuts:
        axes.plot([], [], color=_CUT, linewidth=4, label="cut on purpose")
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, borderaxespad=0.2)
