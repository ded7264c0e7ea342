"""The tables that ``isotone pipeline`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from isotone.pipeline.sweeping import Swept

SHOWN_MAX = 200
FAILURES_SHOWN_MAX = 20
_LONG = frozenset({"time", "link"})
"""Dimensions of many keys: left to the tables and to ``--json``."""


def print_metrics(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line per run, metric and key; steps of time and links are left out."""
    shown = [row for row in rows if row["dimension"] not in _LONG]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("run", "metric", "dimension", "key", "unit"):
        table.add_column(title)
    for title in ("count", "total", "mean", "median", "p99", "most"):
        table.add_column(title, justify="right")
    for row in shown[:SHOWN_MAX]:
        values = (row["total"], row["mean"], row["p50"], row["p99"], row["most"])
        told = (escape(str(row[name] or "")) for name in ("run", "metric", "dimension", "key", "unit"))
        table.add_row(*told, f"{row['count']:,}", *(f"{value:,.1f}" for value in values))
    console.print(table)
    if len(shown) > SHOWN_MAX:
        console.print(f"… and {len(shown) - SHOWN_MAX} more; --json lists all of them")


def print_swept(console: Console, swept: Swept) -> None:
    """What a sweep found."""
    for failure in swept.failures[:FAILURES_SHOWN_MAX]:
        console.print(f"[bold red]{escape(', '.join(failure.properties))}[/]")
        console.print(f"  {escape(failure.explanation)}")
        console.print(f"  replay: {escape(failure.replay)}")
        if failure.trace:
            console.print(f"  trace: {escape(failure.trace)}")
    left = len(swept.failures) - FAILURES_SHOWN_MAX
    if left > 0:
        console.print(f"… and {left} more; --json lists all of them")
    told = f"{swept.known} simulations ({swept.run} run now), {swept.events:,} events, {len(swept.failures)} failed"
    console.print(f"[bold red]{told}[/]" if swept.failures else f"[green]{told}[/]")
