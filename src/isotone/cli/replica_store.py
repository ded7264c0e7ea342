"""``isotone replica log``: is a server's log sound, and what does it hold? Read only; the server may run meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from isotone.cli.command_group import EXIT_VIOLATION, CommandGroup
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import InputError

TEXT_MAX = 60

Command = TypeVar("Command", bound=Callable[..., Any])


def store_options(command: Command) -> Command:
    """Whose store: a server of a settings file, or a directory."""
    for option in (
        click.option(
            "--directory",
            type=click.Path(path_type=Path, file_okay=False),
            help="The directory of a server's log, instead of FILE.",
        ),
        click.option("--name", default="", help="Which server of FILE; optional if the file names only one."),
        click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False)),
    ):
        command = option(command)
    return command


def store_path(file: Path | None, name: str, directory: Path | None) -> Path:
    """Where the store is; raises `InputError`."""
    if (file is None) == (directory is None):
        raise InputError("name a settings file, or a directory with --directory")
    if directory is not None:
        return directory
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import chosen_server, log_directory

    assert file is not None
    settings = load(file)
    return log_directory(settings, chosen_server(settings, name))


@click.group("log", cls=CommandGroup)
def log_commands() -> None:
    """Look at a server's log on disk, without changing it; the server may run meanwhile.

    \b
    Examples:
      isotone replica log verify isotone.toml --name a
      isotone replica log dump isotone.toml --name a --first 100 --last 120
    """


@log_commands.command("verify")
@store_options
@json_option
def verify_command(*, file: Path | None, name: str, directory: Path | None, as_json: bool) -> int:
    """Read everything and compare every checksum; say what is damaged and what to do.

    \b
    Examples:
      isotone replica log verify --directory /var/lib/isotone/a.replica --json

    Exit codes: 0 sound, 1 damaged.
    """
    from isotone.host.inspect import verify

    report = verify(store_path(file, name, directory))
    if as_json:
        print_json(report)
        return 0 if report.is_sound else EXIT_VIOLATION
    for log in report.logs:
        torn = f", a torn end of {log.torn_bytes} bytes {_promised(file)}" if log.torn_bytes else ""
        print_text(f"{log.log}: records {log.first} to {log.next - 1} in {log.segments} files, {log.bytes} bytes{torn}")
    for problem in report.problems:
        print_text(problem)
    print_text("sound" if report.is_sound else "damaged: isotone replica scrub repairs what it can from others")
    return 0 if report.is_sound else EXIT_VIOLATION


def _promised(file: Path | None) -> str:
    """What a torn end means, as far as the settings tell; a directory does not say how it was written."""
    from isotone.daemon.settings import load

    if file is not None and load(file).replica.sync != "every-commit":
        return "that may have been acknowledged: its sync is left to the system"
    return "that nobody was promised, unless its sync was left to the system"


@log_commands.command("dump")
@store_options
@click.option("--first", type=click.IntRange(1), default=1, help="From this position on.")
@click.option("--last", type=click.IntRange(1), help="Up to this position.")
@click.option("--steps", is_flag=True, help="What was written, step by step, instead of the order that it makes.")
@json_option
def dump_command(
    *,
    file: Path | None,
    name: str,
    directory: Path | None,
    first: int,
    last: int | None,
    steps: bool,
    as_json: bool,
) -> int:
    """The order that a log holds: position, colour, message and record; what is not green has no position.

    With --json one object for each line.

    \b
    Examples:
      isotone replica log dump isotone.toml --name a --last 10
      isotone replica log dump isotone.toml --name a --steps --json
    """
    from isotone.host.dumping import order_in, steps_in, text_of

    path = store_path(file, name, directory)
    rows = steps_in(path, first, last) if steps else order_in(path, first, last)
    for row in rows:
        line = json_line(row) if as_json else text_of(row, TEXT_MAX)
        if not print_text(line):
            break
    return 0


def json_line(row: object) -> str:
    """One line; bytes in base64, as JSON has none."""
    import msgspec

    return msgspec.json.encode(row).decode()
