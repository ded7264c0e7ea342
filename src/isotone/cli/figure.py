"""``isotone sim figure``: the papers' tables and figures, measured anew in virtual time."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.core.errors import MachineError
from isotone.sim.figures import FIGURES, Figure, figure_named, recipe_named


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
        table.add_column(name.replace("_", " "))
    for row in figure.rows:
        table.add_row(*("–" if row[name] is None else str(row[name]) for name in columns))
    console.print(table)
    for each in figure.findings:
        agrees = "agrees" if each.agrees else "differs"
        console.print(f"{agrees}: the paper: {each.paper}; ours: {each.ours}", highlight=False, markup=False)


def draw(figure: Figure, path: Path) -> None:
    """One curve for each combination of what tells curves apart; rows without a place on the x axis are lines."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MachineError("a plot needs matplotlib: pip install 'isotone[plot]'") from None
    recipe = recipe_named(figure.figure)
    curves: dict[str, list[tuple[float | None, float]]] = {}
    for row in (row for row in figure.rows if row[recipe.y] is not None):
        label = " ".join(str(row[name]) for name in recipe.curves)
        curves.setdefault(label, []).append((row[recipe.x], row[recipe.y]))
    canvas = Canvas(figsize=(8, 5))
    axes = canvas.subplots()
    for label, points in curves.items():
        placed = [(x, y) for x, y in points if x is not None]
        if placed:
            axes.plot(*zip(*placed), marker="o", label=label)
        for y in [y for x, y in points if x is None]:
            axes.axhline(y, linestyle=":", label=label)
    axes.set(title=figure.figure, xlabel=recipe.x.replace("_", " "), ylabel=recipe.y.replace("_", " "), ylim=(0, None))
    axes.legend(fontsize="small")
    try:
        canvas.savefig(path, format="svg")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from error
