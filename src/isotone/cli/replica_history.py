"""``isotone replica history``: recorded histories of clients in the forms that Knossos and Elle read."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.output import print_text
from isotone.core.errors import InputError, LocalProtocolError

FORMS = ("knossos", "elle-register", "elle-list-append")


@click.command("history")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="HISTORY…")
@click.option("--form", type=click.Choice(FORMS), required=True, help="For which checker.")
@click.option("--object", "name", required=True, help="The dict; with elle-list-append the set.")
@click.option("--key", default="", help="With knossos: the key of the dict.")
def history_command(*, traces: tuple[Path, ...], form: str, name: str, key: str) -> None:
    """Write what programs called on an object, and heard, as lines of EDN for another checker.

    HISTORY is a directory that programs named with isotone.replica(..., history=...), or files of it. Our own check
    of linearizability runs on the same: `isotone check HISTORY`.

    \b
    Examples:
      isotone replica history histories --form knossos --object stock --key apples > apples.edn
      isotone replica history histories --form elle-list-append --object people > people.edn
    """
    from isotone.replicated.history import elle_list_append, elle_register, knossos
    from isotone.trace.reader import read

    if (form == "knossos") != bool(key):
        raise LocalProtocolError("--key goes with --form knossos, which judges one key")
    rows = read(list(traces))
    match form:
        case "knossos":
            lines = knossos(rows, name, key)
        case "elle-register":
            lines = elle_register(rows, name)
        case _:
            lines = elle_list_append(rows, name)
    count = 0
    for line in lines:
        print_text(line)
        count += 1
    if not count:
        raise InputError(f"the history has no such operations on {name}")
