"""Pictures as text: matplotlib's SVG, cut out of its file, so that a page needs nothing but itself.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from isotone.core.errors import MachineError

INK, FAINT = "#1f2933", "#cbd2d9"
_OF_THE_PAGE = {INK: "ink", FAINT: "faint", "#52606d": "soft", "#e8ecf0": "grid"}
"""Colours that the page chooses, in light and dark, by the names that it has for them."""
COLOURS = ("#2f6fb0", "#d9822b", "#3d9a5f", "#8e5ea8", "#c44e52", "#4c9aa8", "#a58b2c", "#7a7f87", "#b5679a", "#5a6ec4")
WIDTH, HEIGHT = 9.2, 3.4
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e8ecf0",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": "#52606d",
    "ytick.color": "#52606d",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
}


def drawn(id: str, draw: Callable[[Any], None], *, height: float = HEIGHT) -> str:
    """What ``draw`` puts on axes, as an ``<svg>`` element; the same input gives the same text.

    ``id`` is of this picture alone on its page.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MachineError("the report needs matplotlib: pip install 'isotone[pipeline]'") from None
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": id}):
        canvas = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(canvas.subplots())
        file = io.StringIO()
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return _element(file.getvalue(), id)


def _element(text: str, prefix: str) -> str:
    """The element alone, its ids told apart from those of other pictures, as wide as the page lets it be."""
    svg = text[text.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'((?:xlink:)?href)="#([^"]+)"', rf'\1="#{prefix}-\2"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r": (#[0-9a-f]{6})", lambda found: f": {_by_name(found[1])}", svg)
    return re.sub(r'<svg([^>]*?) width="[^"]+" height="[^"]+"|<svg([^>]*?) height="[^"]+"', r"<svg\1\2", svg, count=1)


def _by_name(written: str) -> str:
    return f"var(--{_OF_THE_PAGE[written]})" if written in _OF_THE_PAGE else written


def colour(place: int) -> str:
    """The colours in turn."""
    return COLOURS[place % len(COLOURS)]


def logarithmic(axes: Any) -> None:
    """A logarithmic x axis with plain numbers; those between powers of ten only where there is room for them."""
    from matplotlib.ticker import LogFormatter

    class Between(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(Between(minor_thresholds=(1, 0.4)))


def outside_legend(axes: Any) -> None:
    """A legend on the right of the axes, where it hides nothing."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.005, 1.0), borderaxespad=0.0)


def curves(axes: Any, lines: Sequence[tuple[str, Sequence[float], Sequence[float]]], *, marker: str = "") -> None:
    """Lines by name, in colours of their own."""
    for place, (label, xs, ys) in enumerate(lines):
        axes.plot(xs, ys, label=label, color=colour(place), marker=marker or None, markersize=4)
    axes.margins(x=0.01)
