"""``isotone explain``: why is a message not delivered, why is there no view, why was a daemon excluded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from isotone.cli.admin_client import AdminClient, admin_options, clients_of
from isotone.cli.causes import (
    VIEW_SCOPE,
    Cause,
    Scope,
    Statuses,
    causes_of,
    exclusion_scope,
    message_scope,
    sender_of,
)
from isotone.cli.command_group import EXIT_VIOLATION, CommandGroup
from isotone.cli.known_daemons import neighbours_of
from isotone.cli.output import json_option, print_json, results
from isotone.cli.status import ask_all
from isotone.core.errors import MachineError

FINE = {"place": ("delivered",), "ruling": ("member", "ourselves")}
WHOLE = ("partition",)
"""Causes that no single daemon sees as its own trouble."""
NO_ANSWER = "no answer"
LAZY = {name: f"isotone.cli.replica_explain:{name}_command" for name in ("primary", "green")}


@click.group("explain", cls=CommandGroup, lazy=LAZY)
def explain_commands() -> None:
    """Why something does not happen: who waits for what, since when, and what happens next.

    Every daemon is asked: those of --address, or of `isotone up` in this directory, and by their settings the others of
    the cluster. Who could not be asked is named. Causes come first: an injected fault, a daemon that is suspected or
    does not answer, a partition, a full window, a client that does not read.

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
    neighbours = neighbours_of(clients, [status for _, status, _ in told if status is not None])
    told += [(each.name, each.status, each.why_not) for each in neighbours]
    statuses = [status for _, status, _ in told if status is not None]
    answers = _answers([*clients, *(each.client for each in neighbours)], told, question)
    scope = _scope(question, answers, statuses)
    causes = [cause for cause in causes_of(told, scope, answers) if cause.kind != NO_ANSWER]
    silent = [(where, why) for where, status, why in told if status is None]
    # An address that does not answer may be anybody's; a name is known to have to do with it or not.
    unasked = {each.name for each in neighbours if each.client is None}
    missed = [
        (where, why) for where, why in silent if ":" in where or (where not in unasked and scope.has_daemon(where))
    ]
    fine = _all_fine(question, answers) and not missed and not any(cause.kind in WHOLE for cause in causes)
    causes = [] if fine else [*(Cause(NO_ANSWER, where, why) for where, why in missed), *causes]
    if as_json:
        first = next(iter(answers.values())) if len(clients) == 1 else {}
        several = [{"daemon": name, "answer": answer} for name, answer in answers.items()]
        not_asked = [{"daemon": where, "why": why} for where, why in silent]
        print_json({**first, "daemons": several, "causes": causes, "not_asked": not_asked})
        return 0 if fine else EXIT_VIOLATION
    for cause in causes:
        results().print(f"cause: {cause.text}", markup=False)
    for name, answer in answers.items():
        if len(answers) > 1:
            results().print(f"{name}:", markup=False)
        _show(answer)
    for _, why in silent:
        results().print(f"not asked: {why}", markup=False)
    return 0 if fine else EXIT_VIOLATION


def _answers(
    clients: Sequence[AdminClient | None], told: Statuses, question: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """What each daemon that told its status says; who went in between is left out, as long as one is there."""
    answers: dict[str, dict[str, Any]] = {}
    reason: MachineError | None = None
    for client, (_, status, _) in zip(clients, told, strict=True):
        if client is None or status is None:
            continue
        try:
            answers[status["name"]] = client.get("/explain", **question)
        except MachineError as error:
            reason = error
    if not answers and reason is not None:
        raise reason
    return answers


def _scope(question: dict[str, str], answers: dict[str, dict[str, Any]], statuses: Sequence[dict[str, Any]]) -> Scope:
    if question["question"] == "message":
        return message_scope(question["message"], answers, statuses)
    if question["question"] == "exclusion":
        return exclusion_scope(question["daemon"].partition("#")[0], answers)
    return VIEW_SCOPE


def _all_fine(question: dict[str, str], answers: dict[str, dict[str, Any]]) -> bool:
    """Whether every daemon says so, or need not, because that of the sender knows that everybody has the message."""
    if question["question"] == "message":
        at_sender = answers.get(sender_of(question["message"]))
        if at_sender is not None and is_fine(at_sender) and not at_sender.get("blockers"):
            answers = {
                name: answer
                for name, answer in answers.items()
                if answer["place"] != "unknown" or answer["daemon_view"] != at_sender["daemon_view"]
            }
    return all(map(is_fine, answers.values()))


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
