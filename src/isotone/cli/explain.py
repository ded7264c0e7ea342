"""``isotone explain``: why is a message not delivered, why is there no view, why was a daemon excluded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from isotone.cli.admin_client import admin_options, clients_of
from isotone.cli.causes import causes_of
from isotone.cli.command_group import EXIT_VIOLATION, CommandGroup
from isotone.cli.output import json_option, print_json, results
from isotone.cli.status import ask_all

FINE = {"place": ("delivered",), "ruling": ("member", "ourselves")}
WHOLE = ("no answer", "partition")
"""Causes that no single daemon sees as its own trouble."""
LAZY = {name: f"isotone.cli.replica_explain:{name}_command" for name in ("primary", "green")}


@click.group("explain", cls=CommandGroup, lazy=LAZY)
def explain_commands() -> None:
    """Why something does not happen: who waits for what, since when, and what happens next.

    Every daemon that is known is asked: those of --address, or of `isotone up` in this directory. Causes come first: an
    injected fault, a daemon that is suspected or does not answer, a partition, a client that does not read.

    \b
    Examples:
      isotone explain view
      isotone explain message '120!d1#3'
      isotone explain message '#alice#d1#3#17:5'
      isotone explain exclusion d2
      isotone explain primary isotone.toml

    Exit codes: 0 nothing is wrong, 1 something waits or is excluded, 2 wrong usage, 3 no daemon answers.
    """


@explain_commands.command("view")
@admin_options
@json_option
def view_command(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Why there is no new daemon view, or no views of groups.

    \b
    Examples:
      isotone explain view --address 127.0.0.1:4820
    """
    return _explain(addresses, credential_file, as_json, question="view")


@explain_commands.command("message")
@click.argument("message")
@admin_options
@json_option
def message_command(message: str, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Why MESSAGE is not delivered, at each daemon that is asked.

    MESSAGE is a stamp, 120!d1#3, or a client's id and the message's number in its session, #alice#d1#3#17:5.

    \b
    Examples:
      isotone explain message '120!d1#3' --json
    """
    return _explain(addresses, credential_file, as_json, question="message", message=message)


@explain_commands.command("exclusion")
@click.argument("daemon")
@admin_options
@json_option
def exclusion_command(daemon: str, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Why DAEMON is not in the daemon view, with the evidence.

    \b
    Examples:
      isotone explain exclusion d2
    """
    return _explain(addresses, credential_file, as_json, question="exclusion", daemon=daemon)


def _explain(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool, **question: str) -> int:
    clients = clients_of(addresses, credential_file)
    told = ask_all(clients)
    answers = {
        status["name"]: client.get("/explain", **question)
        for client, (_, status, _) in zip(clients, told, strict=True)
        if status is not None
    }
    causes = causes_of(told)
    fine = all(map(is_fine, answers.values())) and not any(cause.kind in WHOLE for cause in causes)
    causes = [] if fine else causes
    if as_json:
        (only,) = answers.values() if len(answers) == 1 else (None,)
        several = {"daemons": [{"daemon": name, "answer": answer} for name, answer in answers.items()]}
        print_json({**(only or several), "causes": causes})
        return 0 if fine else EXIT_VIOLATION
    for cause in causes:
        results().print(f"cause: {cause.text}", markup=False)
    for name, answer in answers.items():
        if len(clients) > 1:
            results().print(f"{name}:", markup=False)
        _show(answer)
    return 0 if fine else EXIT_VIOLATION


def is_fine(answer: dict[str, Any]) -> bool:
    """Whether nothing is wrong."""
    if "is_working" in answer:
        return bool(answer["is_working"]) and answer["groups_state"] == "GOP"
    return any(answer[field] in values for field, values in FINE.items() if field in answer)


def _show(answer: dict[str, Any]) -> None:
    console = results()
    for line in str(answer["text"]).split("; "):
        console.print(line, markup=False)
    for blocker in (*answer.get("blockers", ()), *answer.get("waiting_for", ())):
        console.print(f"  waits for {blocker['wait']}: {blocker['text']}", markup=False)
    for evidence in answer.get("evidence", ()):
        console.print(
            f"  evidence: {evidence['reason']} {evidence['reporter']} {evidence['detail']}".rstrip(), markup=False
        )
