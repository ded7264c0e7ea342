"""``isotone replica recover``: go on without a quorum that is lost for good, knowing what that costs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import InputError, IsotoneError, MachineError

QUORUM = "are a quorum by their own rule: nothing is lost if they are just started"
RUNNING = "stop all servers first; those that run may be a quorum, and would be fenced"

if TYPE_CHECKING:
    from isotone.corel.ledger import Ledger
    from isotone.daemon.settings import DaemonSettings
    from isotone.host.store import Store


@click.command("recover")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--survivor", "survivors", multiple=True, required=True, help="A server that goes on; several times.")
@click.option("--store", "stores", multiple=True, metavar="SERVER=DIRECTORY", help="Where the log of a server is.")
@click.option("--although-quorum", is_flag=True, help="Also if the survivors need no force: the others are fenced.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be lost.")
@json_option
def recover_command(
    *,
    file: Path,
    survivors: tuple[str, ...],
    stores: tuple[str, ...],
    although_quorum: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Let survivors of the log that FILE describes go on alone, after the permanent loss of a quorum.

    First it shows which messages of which colour are lost by that, from all stores that can be read here; then it asks.
    None of the servers may run: it looks at all their ports, and locks those of their stores that are here before they
    are read, until it is done; with --dry-run nothing is locked. Survivors that are a quorum need no force, and it is
    refused: they go on when they are started. The others, brought back, are fenced: they order nothing and say why.

    \b
    Examples:
      isotone replica recover isotone.toml --survivor a --dry-run
      isotone replica recover isotone.toml --survivor a --store c=/mnt/rescued/c.replica

    Exit codes: 0 done, or only shown; 1 not confirmed; 2 wrong usage; 3 a server still runs.
    """
    from isotone.host.recovering import held
    from isotone.host.running import kept_still

    settings, paths = _paths(file, stores)
    chosen = tuple(sorted(set(survivors)))
    for server in chosen:
        _check_known(server, paths)
    with ExitStack() as stack:
        runs, opened = _answering(settings), {}
        if not dry_run:
            others = {server: path for server, path in paths.items() if server not in chosen}
            _check_stopped(runs | stack.enter_context(kept_still(others)))
            opened = stack.enter_context(held({server: paths[server] for server in chosen}))
        ledgers, unreadable = _ledgers(settings, paths, chosen)
        told = _shown(ledgers, chosen, [*unreadable, *(f"{line}: stop it first" for line in runs.values())], as_json)
        told["running"] = list(runs)
        if dry_run:
            return _end(told, as_json, done=False)
        if told["are_quorum"] and not although_quorum:
            raise InputError(f"{', '.join(chosen)} {QUORUM}; to fence the others all the same: --although-quorum")
        if not yes and not _confirmed(as_json):
            return EXIT_VIOLATION
        _force(ledgers, chosen, opened)
    return _end(told, as_json, done=True)


def _answering(settings: DaemonSettings) -> dict[str, str]:
    from isotone.daemon.settings.replication import server_addresses
    from isotone.host.running import answering

    return answering(server_addresses(settings))


def _check_stopped(runs: dict[str, str]) -> None:
    """Nothing is lost for good as long as somebody runs; and those who run would be fenced."""
    if runs:
        raise MachineError(f"{'; '.join(runs.values())}: {RUNNING}")


def _shown(
    ledgers: dict[str, Ledger], survivors: tuple[str, ...], notes: list[str], as_json: bool
) -> dict[str, object]:
    """What it costs."""
    from isotone.corel.recover import assess, forced_rule, of_this_log
    from isotone.host.recovering import are_quorum, moved

    losses, places = assess(ledgers, survivors), moved(ledgers, survivors)
    rule, needless = forced_rule(ledgers, survivors).describe(), are_quorum(ledgers, survivors)
    readable = sorted(of_this_log(ledgers, survivors))
    if not needless and are_quorum(ledgers, readable):
        notes.append(f"{', '.join(readable)} have sound logs here and {QUORUM} instead")
    told: dict[str, object] = {"survivors": survivors, "lost": losses.messages, "moved": places}
    if not as_json:
        print_text(f"{', '.join(survivors)} go on alone; their quorum: {rule}")
        print_text(losses.text())
        for message in places:
            print_text(f"{message} was green or yellow elsewhere, and may get another place")
        if needless:
            print_text(f"{', '.join(survivors)} {QUORUM}")
        for note in notes:
            print_text(note)
    told |= {"unread": losses.unread, "set_back": losses.set_back, "rule": rule}
    return {**told, "are_quorum": needless, "notes": notes}


def _force(ledgers: dict[str, Ledger], survivors: tuple[str, ...], opened: dict[str, Store]) -> None:
    """Those who lack it, if some were told before; else all."""
    from isotone.corel.recover import forced_record, lacking
    from isotone.host.recovering import write_forced

    receivers = lacking(ledgers, survivors) or survivors
    write_forced([opened[server] for server in receivers], forced_record(ledgers, survivors))


def _end(told: dict[str, object], as_json: bool, *, done: bool) -> int:
    if as_json:
        print_json({**told, "done": done})
    elif done:
        print_text("done: start them")
    return 0


def _ledgers(
    settings: DaemonSettings, paths: dict[str, Path], survivors: tuple[str, ...]
) -> tuple[dict[str, Ledger], list[str]]:
    """Of all stores that can be read, and why the others cannot; those of survivors must be."""
    from isotone.daemon.settings.replication import founders, quorum_of
    from isotone.host.dumping import ledger_at

    found, unreadable = {}, []
    for server, path in paths.items():
        try:
            found[server] = ledger_at(path, founders(settings), quorum_of(settings))
        except IsotoneError as error:
            if server in survivors:
                raise InputError(f"the store of {server} must be sound and readable here: {error}") from error
            unreadable.append(f"the store of {server} is not counted: {error}")
    return found, unreadable


def _paths(file: Path, stores: tuple[str, ...]) -> tuple[DaemonSettings, dict[str, Path]]:
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import log_directory

    settings = load(file)
    paths = {server.name: log_directory(settings, server) for server in settings.replica.server}
    for text in stores:
        server, separator, directory = text.partition("=")
        if not separator or not server or not directory:
            raise InputError(f"write --store SERVER=DIRECTORY, not {text!r}")
        _check_known(server, paths)
        paths[server] = Path(directory)
    return settings, paths


def _check_known(server: str, paths: dict[str, Path]) -> None:
    if server not in paths:
        raise InputError(f"there is no server {server}; these are: {', '.join(paths)}")


def _confirmed(as_json: bool) -> bool:
    if as_json:
        raise InputError("with --json nobody can be asked: say --yes, or --dry-run")
    return click.confirm("What is lost stays lost, and the others never come back. Go on?", default=False)
