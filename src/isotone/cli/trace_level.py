"""``isotone trace``: what a running daemon writes down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from isotone.cli.admin_client import admin_options, clients_of
from isotone.cli.command_group import EXIT_VIOLATION, CommandGroup
from isotone.cli.output import json_option, print_json, results
from isotone.cli.status_tables import size

ON = ("buffered", "full")


@click.group("trace", cls=CommandGroup)
def trace_commands() -> None:
    """See or change what running daemons write down; `isotone check` judges it.

    \b
    Examples:
      isotone trace status
      isotone trace on --level full
      isotone trace off
    """


@trace_commands.command("on")
@click.option(
    "--level",
    type=click.Choice(ON),
    help="full: each row is with the kernel before its effect leaves. (default: as it is, or buffered)",
)
@admin_options
@json_option
def on_command(level: str | None, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Write the trace from now on, until the daemon ends or its settings are read again.

    \b
    Examples:
      isotone trace on
      isotone trace on --level full --address 127.0.0.1:4820
    """
    told = []
    for client in clients_of(addresses, credential_file):
        trace = client.get("/trace")
        if level is not None or trace["level"] == "off":
            trace = client.post("/trace", {"level": level or ON[0]})
        told.append((client.address, trace))
    return _tell(told, as_json)


@trace_commands.command("off")
@admin_options
@json_option
def off_command(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Write nothing from now on.

    \b
    Examples:
      isotone trace off
    """
    clients = clients_of(addresses, credential_file)
    return _tell([(each.address, each.post("/trace", {"level": "off"})) for each in clients], as_json)


@trace_commands.command("status")
@admin_options
@json_option
def status_command(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Level, directory, rows written and lost.

    \b
    Examples:
      isotone trace status --json

    Exit codes: 0 fine, 1 the trace cannot be written, 2 wrong usage, 3 no daemon answers.
    """
    told = [(each.address, each.get("/trace")) for each in clients_of(addresses, credential_file)]
    return _tell(told, as_json)


def _tell(told: list[tuple[str, dict[str, Any]]], as_json: bool) -> int:
    if as_json:
        print_json(told[0][1] if len(told) == 1 else {"daemons": [{"address": a, "trace": t} for a, t in told]})
    else:
        for address, trace in told:
            line = f"{address}: {trace['level']}, {trace['rows']} rows, {trace['lost']} lost, {size(trace['bytes'])}"
            where = f" in {trace['directory']}" if trace["directory"] else ""
            results().print(f"{line}{where} {trace['failed']}".rstrip(), markup=False)
    return EXIT_VIOLATION if any(trace["failed"] for _, trace in told) else 0
