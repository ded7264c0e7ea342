"""``isotone replica add`` and ``remove``: the servers of a log change, one at a time, by an ordered message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.cli.replica_ask import ask_all, places, server_options, with_remedy
from isotone.core.errors import IsotoneError, MachineError

WITHIN_S = 8.0


@click.command("add")
@click.argument("server")
@server_options
@json_option
def add_command(*, server: str, as_json: bool, **asked: Any) -> int:
    """Let SERVER vote: it runs already, with ``joins = true``, and has caught up.

    \b
    Examples:
      isotone replica add d isotone.toml

    Exit codes: 0 it votes, 1 refused (it has not caught up, another change is under way), 3 nobody answers.
    """
    return _change(as_json, add=server, **asked)


@click.command("remove")
@click.argument("server")
@server_options
@json_option
def remove_command(*, server: str, as_json: bool, **asked: Any) -> int:
    """Take SERVER out: the others go on without it, and it never comes back under this name.

    \b
    Examples:
      isotone replica remove c isotone.toml

    Exit codes: 0 it is out, 1 refused (the rest would be no quorum), 3 nobody answers.
    """
    return _change(as_json, remove=server, **asked)


def _change(as_json: bool, *, add: str = "", remove: str = "", **asked: Any) -> int:
    done = f"{add} votes now" if add else f"{remove} is out"
    return ask_for_change(as_json, {"add": add, "remove": remove}, done, add=add, remove=remove, **asked)


def ask_for_change(
    as_json: bool,
    told: dict[str, Any],
    done: str,
    *,
    file: Path | None,
    name: str,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    **change: Any,
) -> int:
    """Ask one after another until one says what came of it; ``told`` describes the change, ``done`` its success."""
    refused = ""
    silent: list[str] = []
    for each, address in places(file, name, addresses).items():
        if each == change.get("add"):
            continue  # it has no say in it yet
        question = lambda log: log.reconfigure(**change, within_s=WITHIN_S)  # noqa: E731
        (answer,) = ask_all({each: address}, credential_file, question).values()
        if answer is None:
            return _told(as_json, told, done, "")
        assert isinstance(answer, IsotoneError)
        if isinstance(answer, MachineError):
            silent.append(str(answer))
        else:
            refused = with_remedy(str(answer))
            if "no primary" not in refused:
                break
    if not refused:
        raise MachineError(with_remedy("; ".join(silent)) or "there is nobody to ask")
    return _told(as_json, told, done, refused)


def _told(as_json: bool, told: dict[str, Any], done: str, refused: str) -> int:
    if as_json:
        print_json({**told, "done": not refused, "reason": refused})
    else:
        print_text(refused or done)
    return EXIT_VIOLATION if refused else 0
