"""``isotone explain primary`` and ``isotone explain green``: why a replicated log does not order."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.cli.replica_ask import ask_all, places, server_options, with_remedy
from isotone.core.errors import IsotoneError, MachineError


@click.command("primary")
@server_options
@json_option
def primary_command(
    *, file: Path | None, name: str, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Why the servers of a replicated log are in no primary component: who is missing, what is awaited.

    \b
    Examples:
      isotone explain primary isotone.toml
      isotone explain primary --address 127.0.0.1:4816

    Exit codes: 0 there is one, 1 there is none, 2 wrong usage, 3 nobody answers.
    """
    return _explain(places(file, name, addresses), credential_file, "", as_json)


@click.command("green")
@click.argument("message")
@server_options
@json_option
def green_command(
    *,
    message: str,
    file: Path | None,
    name: str,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    as_json: bool,
) -> int:
    """Why MESSAGE of a replicated log is not green: who did not acknowledge it, or why nothing is ordered.

    MESSAGE is what an answer of "maybe" and `isotone replica status` name, such as a.1:17.

    \b
    Examples:
      isotone explain green a.1:17 isotone.toml

    Exit codes: 0 it is green everywhere, 1 it is not, 2 wrong usage, 3 nobody answers.
    """
    from isotone.host.naming import named_message

    named_message(message)  # or it says what is wrong with it
    return _explain(places(file, name, addresses), credential_file, message, as_json)


def _explain(asked: dict[str, str], credential_file: Path | None, message: str, as_json: bool) -> int:
    told = ask_all(asked, credential_file, lambda log: log.explain(message))
    why = {each: answer for each, answer in told.items() if isinstance(answer, str)}
    silent = {each: str(answer) for each, answer in told.items() if isinstance(answer, IsotoneError)}
    if not why:
        raise MachineError(with_remedy("; ".join(dict.fromkeys(silent.values()))))
    if as_json:
        print_json({"why": why, "silent": silent})
    else:
        fine = f"{message} is green" if message else "in a primary component"
        for each, text in (why | silent).items():
            print_text(f"{each}: {text or fine}")
    return EXIT_VIOLATION if any(why.values()) else 0
