"""``isotone replica status``: how the servers of a log stand, and why they do not order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, results
from isotone.cli.replica_ask import ask_all, places, server_options, with_remedy
from isotone.core.errors import IsotoneError, MachineError

COLUMNS = {
    "server": "server",
    "standing": "standing",
    "primary": "primary",
    "here": "here",
    "green_position": "green",
    "white_position": "white",
    "yellow_messages": "yellow",
    "red_messages": "red",
    "sync": "sync",
}


@click.command("status")
@server_options
@json_option
def status_command(
    *, file: Path | None, name: str, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """How the servers of FILE stand, or those at the addresses.

    \b
    Examples:
      isotone replica status isotone.toml
      isotone replica status --address 127.0.0.1:4816 --json

    Exit codes: 0 there is a primary component and all answer, 1 not so, 2 wrong usage, 3 nobody answers.
    """
    told = ask_all(places(file, name, addresses), credential_file, lambda log: log.status())
    found = {each: answer for each, answer in told.items() if not isinstance(answer, IsotoneError)}
    silent = {each: str(answer) for each, answer in told.items() if isinstance(answer, IsotoneError)}
    if not found:
        raise MachineError(with_remedy("; ".join(dict.fromkeys(silent.values()))))
    if as_json:
        print_json({"servers": list(found.values()), "silent": silent})
    else:
        _show(found, silent)
    fine = not silent and all(answer["is_primary"] for answer in found.values())
    return 0 if fine else EXIT_VIOLATION


def _show(found: dict[str, dict[str, Any]], silent: dict[str, str]) -> None:
    console = results()
    table = Table(box=None, pad_edge=False)
    for title in COLUMNS.values():
        table.add_column(title)
    for status in found.values():
        table.add_row(*(_cell(status, key) for key in COLUMNS))
    console.print(table)
    for status in found.values():
        lines = (status["why_no_primary"], status["disk"], status.get("archive") and f"archive: {status['archive']}")
        for line in (*lines, *(each["why"] for each in status["not_green"])):
            if line:
                console.print(f"{status['server']}: {line}", markup=False)
    for each, reason in silent.items():
        console.print(f"{each}: {reason}", markup=False)


def _cell(status: dict[str, Any], key: str) -> str:
    value = status[key]
    if key == "primary":
        return f"{value}, now" if status["is_primary"] else f"{value}, over" if value else "none yet"
    return ", ".join(value) if isinstance(value, list) else str(value)
