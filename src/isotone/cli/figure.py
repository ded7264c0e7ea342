"""``isotone sim figure``: the papers' tables and figures, measured anew in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.core.errors import MachineError
from isotone.sim.figures import FIGURES, Figure, Recipe, figure_named, recipe_named

HEADROOM = 1.15
"""Above the highest point of a plot."""


@click.command("figure")
@click.argument("name", metavar="NAME")
@click.option("--probes", type=click.IntRange(1), default=None, help="Messages that are measured for each value.")
@click.option("--daemons", type=click.IntRange(2), default=None, help="How many daemons, where a figure is about that.")
@click.option("--sites", type=click.IntRange(1), default=None, help="In how many sites.")
@click.option("--groups", type=click.IntRange(1), default=None, help="How many groups, where a figure is about that.")
@click.option("--clients", type=click.IntRange(1), default=None, help="How many clients.")
@click.option("--seed", type=click.IntRange(0), default=None, help="Of what is left to chance.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw it into this SVG file.")
@json_option
def figure_command(*, name: str, plot: Path | None, as_json: bool, **parameters: int | None) -> None:
    """Measure what a table or figure shows, of the papers or our own, with the classes that the daemon runs.

    \b
    Examples:
      isotone sim figure spread-figure-5.4
      isotone sim figure spread-figure-4.5 --plot figure.svg
    """
    recipe_named(name)
    with progress_bar(f"measuring {name}, for a minute or more", total=None):
        figure = figure_named(name, **{each: value for each, value in parameters.items() if value is not None})
    if plot is not None:
        draw(figure, plot)
    if as_json:
        print_json(figure)
    else:
        print_figure(results(), figure)


figure_command.help = f"{figure_command.help}\n\nNames: {', '.join(FIGURES)}."


def print_figure(console: Console, figure: Figure) -> None:
    """Parameters in one line, then the rows; what is nested is left to the JSON."""
    console.print(", ".join(f"{name} {value}" for name, value in figure.parameters.items()))
    columns = [name for name, value in figure.rows[0].items() if not isinstance(value, dict | list)]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(_words(name))
    for row in figure.rows:
        table.add_row(*("–" if row[name] is None else str(row[name]) for name in columns))
    console.print(table)
    for each in figure.findings:
        agrees = "agrees" if each.agrees else "differs"
        console.print(f"{agrees}: the paper: {each.paper}; ours: {each.ours}", highlight=False, markup=False)


def draw(figure: Figure, path: Path) -> None:
    """One curve for each combination of what tells curves apart; rows without a place on the x axis are lines. What has
    an axis of its own, at the right, is dashed."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MachineError("a plot needs matplotlib: pip install 'isotone[plot]'") from None
    recipe = recipe_named(figure.figure)
    canvas = Canvas(figsize=(8, 5))
    axes = canvas.subplots()
    axes.set(title=figure.figure, xlabel=_words(recipe.x))
    if recipe.log_x:
        places = sorted({row[recipe.x] for row in figure.rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{each:,}" for each in places])
    _draw_curves(axes, figure, recipe, recipe.y, "-")
    if recipe.right:
        _draw_curves(axes.twinx(), figure, recipe, recipe.right, "--")
    if recipe.curves:
        axes.legend(fontsize="small")
    try:
        canvas.savefig(path, format="svg")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from error


def _draw_curves(axes: Any, figure: Figure, recipe: Recipe, y: str, style: str) -> None:
    curves: dict[str, list[tuple[float | None, float]]] = {}
    for row in figure.rows:
        if row[y] is not None:
            label = ", ".join(f"{_words(name)} {row[name]}" for name in recipe.curves)
            curves.setdefault(label, []).append((row[recipe.x], row[y]))
    for label, points in curves.items():
        placed = [(x, height) for x, height in points if x is not None]
        if placed:
            axes.plot(*zip(*placed), marker="o", linestyle=style, label=label)
        for height in [height for x, height in points if x is None]:
            axes.axhline(height, linestyle=":", label=label)
    top = max((height for points in curves.values() for _, height in points), default=0)
    axes.set(ylabel=_words(y) + (" (dashed)" if style == "--" else ""), ylim=(0, HEADROOM * top or None))


def _words(name: str) -> str:
    return name.replace("_", " ")
