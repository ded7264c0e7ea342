"""``isotone site status`` and ``suspects``: how data centres stand, and what speaks for a disaster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text, results
from isotone.cli.site_asking import ask_everybody, file_argument, read_file

COLUMNS = ("centre", "process", "role", "number", "leader", "delivered", "confirmed", "end")


@click.command("status")
@file_argument
@json_option
def status_command(*, file: Path, as_json: bool) -> int:
    """How the processes of the data centres in FILE stand.

    \b
    Examples:
      isotone site status centres.toml
      isotone site status centres.toml --json

    Exit codes: 0 one data centre leads and all processes follow it, 1 not so, 2 wrong usage, 3 nobody answers.
    """
    told, silent = ask_everybody(read_file(file))
    if as_json:
        print_json({"processes": list(told.values()), "silent": silent})
    else:
        _show(told, silent)
    leaders = {each["leader"] for each in told.values()}
    roles = {each["role"] for each in told.values()}
    fine = not silent and len(leaders) == 1 and roles <= {"primary", "backup"} and "primary" in roles
    return 0 if fine else EXIT_VIOLATION


def _show(told: dict[str, dict[str, Any]], silent: dict[str, str]) -> None:
    console = results()
    table = Table(box=None, pad_edge=False)
    for title in COLUMNS:
        table.add_column(title)
    for each in told.values():
        mark = " *" if each["coordinator"] == each["process"] else ""
        table.add_row(*(str(each[key]) + (mark if key == "process" else "") for key in COLUMNS))
    console.print(table)
    for line in dict.fromkeys(line for each in told.values() for line in _remarks(each)):
        console.print(line, markup=False)
    for name, reason in silent.items():
        console.print(f"{name}: {reason}", markup=False)


def _remarks(status: dict[str, Any]) -> list[str]:
    here = status["centre"]
    lines = []
    for seen in status["centres"]:
        if seen["lost"]:
            who = f", wanted by {', '.join(seen['operators'])}" if seen["operators"] else ""
            how = (
                "is lost" if seen["lost"] == "lost" else f"is declared lost, without the {status['majority']} it needs"
            )
            lines.append(f"{here}: {seen['name']} {how}: recorded by {', '.join(seen['recorders'])}{who}")
        elif not seen["number"] and status["role"] != "out":
            lines.append(f"{here}: {seen['name']} takes no part")
    for petition in status["petitions"]:
        names, risky = petition["operators"], petition["overriding"]
        want = f"{' and '.join(names)} {'want' if len(names) > 1 else 'wants'}"
        how = f" ({' and '.join(risky)} by an override)" if risky else ""
        lines.append(f"{here}: {want} {petition['centre']} declared lost{how}: not confirmed yet")
    if status["unsafe_after_ms"]:
        lines.append(
            f"{here} declares a silent data centre lost by itself, after {status['unsafe_after_ms'] / 1_000:g} s"
        )
    if status["role"] == "out":
        wish = "it asked to come back" if status["joining"] else "isotone site rejoin asks back"
        lines.append(f"{here} was declared lost, or has no state: {wish}")
    return lines


@click.command("suspects")
@file_argument
@json_option
def suspects_command(*, file: Path, as_json: bool) -> int:
    """Which data centres seem to be lost: who is unreachable, since when, and for whom.

    Silence is no disaster: a broken line between two centres looks the same. People find out, and declare.

    \b
    Examples:
      isotone site suspects centres.toml

    Exit codes: 0 no suspicion, 1 there is one, 2 wrong usage, 3 nobody answers.
    """
    centres = read_file(file)
    told, silent = ask_everybody(centres)
    found = [_suspicion(centres.centre_of(c.process[0].name), told, silent) for c in centres.centre]
    suspects = [each for each in found if each["suspect"]]
    if as_json:
        print_json({"suspects": suspects})
        return EXIT_VIOLATION if suspects else 0
    for each in suspects:
        print_text(f"{each['centre']}: {each['silent_processes']} of {each['processes']} processes do not answer here")
        for line in each["evidence"]:
            print_text(f"  {line}")
    if not suspects:
        print_text("no data centre is suspected")
    return EXIT_VIOLATION if suspects else 0


def _suspicion(centre: Any, told: dict[str, dict[str, Any]], silent: dict[str, str]) -> dict[str, Any]:
    """What is known of one centre: whom it does not answer, and for how long."""
    names = [each.name for each in centre.process]
    gone = [name for name in names if name in silent]
    evidence = []
    for status in told.values():
        for seen in status["centres"]:
            if seen["name"] == centre.name and seen["suspect"]:
                seconds = seen["silent_ms"] / 1_000
                evidence.append(f"{status['process']} of {status['centre']} has not heard it for {seconds:.1f} s")
    return {
        "centre": centre.name,
        "suspect": bool(evidence) or len(gone) > len(names) // 2,
        "processes": len(names),
        "silent_processes": len(gone),
        "evidence": evidence,
    }
