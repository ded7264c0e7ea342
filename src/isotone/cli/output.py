"""Where output goes: results to standard output, progress to standard error, to a terminal or by lines where asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast

import click
import msgspec
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from isotone.core.errors import MachineError

PLAIN_WIDTH = 120

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


class ResultStream:
    """Standard output. A reader that has gone is no error: the command ends with the code that it would have had."""

    def __init__(self) -> None:
        self.is_read = True  # until somebody is found to have gone

    @property
    def encoding(self) -> str:
        """As rich asks for it."""
        return getattr(_stdout(), "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write, or raise a `MachineError`."""
        with self._told():
            _stdout().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or raise a `MachineError`."""
        with self._told():
            _stdout().flush()

    def isatty(self) -> bool:
        """Whether somebody looks at it."""
        return _stdout().isatty()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.is_read = False
            drop_output()
        except OSError as error:
            drop_output()
            raise MachineError(f"cannot write to standard output: {error.strerror}") from error


def results(stream: ResultStream | None = None) -> Console:
    """Standard output, in colour on a terminal and as plain text elsewhere."""
    stream = stream or ResultStream()
    terminal = stream.isatty()
    width = None if terminal else PLAIN_WIDTH
    return Console(file=cast("IO[str]", stream), width=width, highlight=False, soft_wrap=not terminal)


def live_display() -> Live:
    """What is shown anew in its place. It must not redirect standard output: that is what it is itself written to."""
    return Live(console=results(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


def print_text(text: str) -> bool:
    """One line or more, as they are; False when the reader has gone, so that what would print for ever can end."""
    stream = ResultStream()
    stream.write(f"{text}\n")
    stream.flush()
    return stream.is_read


def print_shown(what: RenderableType) -> bool:
    """A table or the like, as `results` shows it; False when the reader has gone."""
    stream = ResultStream()
    console = results(stream)
    console.print(what)
    stream.flush()
    return stream.is_read


def print_json(value: object) -> bool:
    """Exactly one object, indented, with an end of line; False when the reader has gone."""
    return print_text(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def drop_output() -> None:
    """Let what is still to be written to standard output go nowhere, at the end of the process too."""
    _drop(sys.stdout)


def drop_errors() -> None:
    """The same for standard error."""
    _drop(sys.stderr)


def _drop(stream: IO[str] | None) -> None:
    with suppress(AttributeError, OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
        os.close(nowhere)


def _stdout() -> IO[str]:
    if sys.stdout is None or sys.stdout.closed:
        raise MachineError("standard output is closed")
    return sys.stdout


@contextmanager
def progress_bar(title: str, total: int | None, *, in_lines: bool = False) -> Iterator[Callable[[str], None]]:
    """A bar that is advanced by calling it with what to show beside it; without a terminal nothing, or a line each."""
    if not sys.stderr.isatty():
        yield (lambda note: click.echo(f"{title}: {note}", err=True)) if in_lines else (lambda note: None)
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
