"""``isotone status``: how daemons stand, once or live."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from isotone.cli.admin_client import AdminClient, admin_options, clients_of
from isotone.cli.causes import causes_of
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, live_display, print_json, print_shown, print_text, results
from isotone.cli.status_tables import COLUMNS_EXPLAINED, links_view, status_view, together_view
from isotone.core.errors import MachineError


@click.command("status")
@admin_options
@click.option("--links", is_flag=True, help="Also sites, links, other daemons and timeouts, with where they come from.")
@click.option("--watch", is_flag=True, help="Show it anew every --every seconds until interrupted.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: how often.",
)
@json_option
def status_command(
    *, addresses: tuple[str, ...], credential_file: Path | None, links: bool, watch: bool, every: float, as_json: bool
) -> int:
    """Show which daemons see each other, groups, clients, slow readers, and what is wrong.

    With one daemon its groups and clients in tables; with several a line for each. In the directory of `isotone up` all
    its daemons are asked. JSON has everything, also what --links shows. With --watch and --json, one JSON object on a
    line each time.

    \b
    Examples:
      isotone status
      isotone status --watch
      isotone status --links
      isotone status --address 127.0.0.1:4810 --address 127.0.0.1:4820 --json

    Exit codes: 0 all ready, 1 one is not, 2 wrong usage or no credential, 3 none answers.
    """
    clients = clients_of(addresses, credential_file)
    if watch:
        return _watch(clients, every, links=links, as_json=as_json)
    told = ask_all(clients)
    if as_json:
        print_json(_json(told))
    else:
        results().print(_shown(told, links))
    return exit_code(told)


Answered = list[tuple[str, dict[str, Any] | None, str]]
"""Address, status or none, and why none, of each daemon that was asked."""


def ask_all(clients: Sequence[AdminClient], *, needed: bool = True) -> Answered:
    """Address, status or none, and why none; none at all is an error where one is ``needed``."""
    told: Answered = []
    for client in clients:
        try:
            told.append((client.address, client.get("/status"), ""))
        except MachineError as error:
            told.append((client.address, None, str(error)))
    if needed and all(status is None for _, status, _ in told):
        raise MachineError(told[0][2])
    return told


def exit_code(told: Answered) -> int:
    """0 when all are ready."""
    return 0 if all(status is not None and status["ready"] for _, status, _ in told) else EXIT_VIOLATION


def _json(told: Answered) -> object:
    if len(told) == 1 and told[0][1] is not None:
        return told[0][1]
    return {"daemons": [{"address": address, "status": status, "error": why} for address, status, why in told]}


def _shown(told: Answered, links: bool) -> RenderableType:
    known = [status for _, status, _ in told if status is not None]
    if len(told) == 1 and known:
        parts = [status_view(known[0])]
    else:
        rows = [(status["name"] if status else where, status, "" if status else why) for where, status, why in told]
        parts = [together_view(rows, [cause.text for cause in causes_of(told) if cause.kind != "no answer"])]
    if links:
        parts += [*(links_view(status) for status in known), Text(COLUMNS_EXPLAINED, style="dim")]
    return Group(*parts)


def _watch(clients: Sequence[AdminClient], every: float, *, links: bool, as_json: bool) -> int:
    """Until interrupted or nobody reads it, also while none answers; only the first time one has to."""
    told = ask_all(clients)
    with live_display() if not as_json and sys.stdout.isatty() else nullcontext() as live:
        while True:
            if live is not None:
                live.update(_shown(told, links), refresh=True)
            elif not (print_text(json.dumps(_json(told))) if as_json else print_shown(_shown(told, links))):
                return exit_code(told)
            time.sleep(every)
            told = ask_all(clients, needed=False)
