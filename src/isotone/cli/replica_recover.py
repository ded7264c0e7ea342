"""``isotone replica recover``: go on without a quorum that is lost for good, knowing what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import InputError, IsotoneError

if TYPE_CHECKING:
    from isotone.corel.ledger import Ledger
    from isotone.daemon.settings import DaemonSettings


@click.command("recover")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--survivor", "survivors", multiple=True, required=True, help="A server that goes on; several times.")
@click.option("--store", "stores", multiple=True, metavar="SERVER=DIRECTORY", help="Where the log of a server is.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be lost.")
@json_option
def recover_command(
    *,
    file: Path,
    survivors: tuple[str, ...],
    stores: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Let survivors of the log that FILE describes go on alone, after the permanent loss of a quorum.

    First it shows which messages of which colour are lost by that, from all stores that can be read here; then it asks.
    None of the servers may run. The others, brought back, are fenced: they order nothing and say why.

    \b
    Examples:
      isotone replica recover isotone.toml --survivor a --dry-run
      isotone replica recover isotone.toml --survivor a --store c=/mnt/rescued/c.replica

    Exit codes: 0 done, or only shown; 1 not confirmed; 2 wrong usage; 3 a server still runs.
    """
    from isotone.corel.recover import assess, forced_record, forced_rule, lacking
    from isotone.host.recovering import moved, write_forced

    settings, paths = _paths(file, stores)
    chosen = tuple(sorted(survivors))
    ledgers = _ledgers(settings, paths, chosen)
    losses, places = assess(ledgers, chosen), moved(ledgers, chosen)
    rule = forced_rule(ledgers, chosen).describe()
    told: dict[str, object] = {"survivors": chosen, "lost": losses.messages, "moved": places, "unread": losses.unread}
    told["rule"] = rule
    if not as_json:
        print_text(f"{', '.join(chosen)} go on alone; their quorum: {rule}")
        print_text(losses.text())
        for message in places:
            print_text(f"{message} was green elsewhere, and may get another place")
    if dry_run:
        return _end(told, as_json, done=False)
    if not yes and not _confirmed(as_json):
        return EXIT_VIOLATION
    receivers = lacking(ledgers, chosen) or chosen
    write_forced({server: paths[server] for server in receivers}, forced_record(ledgers, chosen))
    return _end(told, as_json, done=True)


def _end(told: dict[str, object], as_json: bool, *, done: bool) -> int:
    if as_json:
        print_json({**told, "done": done})
    elif done:
        print_text("done: start them")
    return 0


def _ledgers(settings: DaemonSettings, paths: dict[str, Path], survivors: tuple[str, ...]) -> dict[str, Ledger]:
    """Of all stores that can be read; those of survivors must be."""
    from isotone.daemon.settings.replication import founders, quorum_of
    from isotone.host.dumping import ledger_at

    found = {}
    for server, path in paths.items():
        try:
            found[server] = ledger_at(path, founders(settings), quorum_of(settings))
        except IsotoneError as error:
            if server in survivors:
                raise InputError(f"the store of {server} must be sound and readable here: {error}") from error
    missing = [server for server in survivors if server not in found]
    if missing:
        raise InputError(f"there is no server {missing[0]}; these are: {', '.join(paths)}")
    return found


def _paths(file: Path, stores: tuple[str, ...]) -> tuple[DaemonSettings, dict[str, Path]]:
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import log_directory

    settings = load(file)
    paths = {server.name: log_directory(settings, server) for server in settings.replica.server}
    for text in stores:
        server, separator, directory = text.partition("=")
        if not separator or not server or not directory:
            raise InputError(f"write --store SERVER=DIRECTORY, not {text!r}")
        paths[server] = Path(directory)
    return settings, paths


def _confirmed(as_json: bool) -> bool:
    if as_json:
        raise InputError("with --json nobody can be asked: say --yes, or --dry-run")
    return click.confirm("What is lost stays lost, and the others never come back. Go on?", default=False)
