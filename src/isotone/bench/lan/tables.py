"""Rows and ratios as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from isotone.bench.lan.goals import Goal
from isotone.bench.lan.results import Ratio, Row
from isotone.bench.lan.summary import Found
from isotone.bench.measure import shown


def rows_table(rows: Sequence[Row]) -> Table:
    """A line for each row: medians, quartiles of the rate."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("system", "variant", "packing", "service"):
        table.add_column(title)
    for title in ("bytes", "senders"):
        table.add_column(title, justify="right")
    table.add_column("path")
    for title in ("messages/s", "quartiles", "MB/s", "µs daemons", "µs clients", "µs quartiles"):
        table.add_column(title, justify="right")
    for row in rows:
        daemons, clients = row.quartiles["cpu_us_daemons"], row.quartiles["cpu_us_clients"]
        table.add_row(
            row.system,
            row.variant,
            row.packing,
            row.service,
            f"{row.size:,}",
            str(row.senders),
            row.path,
            shown(row.rate),
            " … ".join(map(shown, row.quartiles["rate"])),
            shown(row.mb_per_s),
            shown(row.cpu_us_daemons),
            shown(row.cpu_us_clients),
            f"{shown(daemons[0])} … {shown(daemons[1])}, {shown(clients[0])} … {shown(clients[1])}",
        )
    return table


def ratios_table(ratios: Sequence[Ratio]) -> Table:
    """Ours over the better peer."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("variant", "peer's packing", "service", "bytes", "senders", "path", "peer", "its path"):
        table.add_column(title)
    table.add_column("throughput", justify="right")
    table.add_column("CPU", justify="right")
    for ratio in ratios:
        table.add_row(*ratio.case(), f"{ratio.throughput:.2f}×", f"{ratio.cpu:.3f}×")
    return table


def figures_table(figures: Sequence[Found]) -> Table:
    """A line for each value."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("of")
    table.add_column("what")
    table.add_column("median", justify="right")
    table.add_column("quartiles", justify="right")
    for found in figures:
        for name, value in found.values.items():
            table.add_row(found.name, name, shown(value.median), " … ".join(map(shown, value.quartiles)))
    return table


def goals_table(goals: Sequence[Goal]) -> Table:
    """What is to be reached, and whether it is."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("goal")
    for title in ("wanted", "found", "quartiles"):
        table.add_column(title, justify="right")
    table.add_column("verdict")
    table.add_column("against")
    for goal in goals:
        wanted = f"{'≥' if goal.at == 'least' else '≤'} {shown(goal.goal)}"
        found = "–" if goal.value is None else shown(goal.value)
        quartiles = " … ".join(map(shown, goal.quartiles or ()))
        table.add_row(goal.name, wanted, found, quartiles, goal.verdict, goal.against)
    return table
