"""Where output goes: results to standard output, progress to standard error and only to a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_WIDTH = 120

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


def results() -> Console:
    """Standard output, in colour on a terminal and as plain text elsewhere."""
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else PLAIN_WIDTH, highlight=False, soft_wrap=not terminal)


def print_json(value: object) -> None:
    """Exactly one object, indented, with an end of line."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[Callable[[str], None]]:
    """A bar that is advanced by calling it with what to show beside it; nothing at all without a terminal."""
    if not sys.stderr.isatty():
        yield lambda note: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda note: bar.update(task, advance=1, note=note)
