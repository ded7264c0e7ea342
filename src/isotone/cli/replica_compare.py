"""``isotone replica compare``: whether the other servers know of more than a server's disk has, before it votes."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.admin_client import read_credential
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import MachineError


@click.command("compare")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", default="", help="Which server of FILE; optional if the file names only one.")
@click.option(
    "--credential-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="ISOTONE_CREDENTIAL_FILE",
    help="A file with a credential for the other servers.",
)
@json_option
def compare_command(*, file: Path, name: str, credential_file: Path | None, as_json: bool) -> int:
    """Ask the other servers of FILE, which run, whether the disk of one that does not has all that it promised them.

    For a disk that may be an older copy, or that lost what was written last: before its server is started and votes.

    \b
    Examples:
      isotone replica compare isotone.toml --name c

    Exit codes: 0 all others answered and know of nothing that it lacks, 1 one of them does, 3 the server runs, or not
    all others answered.
    """
    from isotone.corel.promises import state_of, why_not_count
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import chosen_server, founders, log_directory, quorum_of, server_address
    from isotone.host.dumping import ledger_at
    from isotone.host.peers import Peers
    from isotone.host.running import kept_still

    settings = load(file)
    server = chosen_server(settings, name)
    path = log_directory(settings, server)
    with kept_still({server.name: path}) as used:
        if used:
            raise MachineError(f"{used[server.name]}: stop the server first")
        state = state_of(server.name, ledger_at(path, founders(settings), quorum_of(settings)), {})
    others = [each for each in settings.replica.server if each.name != server.name]
    peers = Peers(
        {each.name: server_address(settings, each) for each in others}, read_credential(credential_file).encode()
    )
    states = peers.replica_states()
    found = {each: why for each, witness in states.items() if (why := why_not_count(state, witness))}
    if as_json:
        print_json({"server": server.name, "lacks": found, "asked": sorted(states), "silent": peers.reasons})
    else:
        _print(server.name, found, sorted(states), peers.reasons)
    if found:
        return EXIT_VIOLATION
    if peers.reasons:
        raise MachineError(f"not all others answered: {', '.join(sorted(peers.reasons))} may know of more")
    return 0


def _print(server: str, found: dict[str, str], asked: list[str], silent: dict[str, str]) -> None:
    for peer, why in found.items():
        print_text(f"{peer} {why}: do not start it; remove {server}, and add one with a new name")
    if asked and not found:
        print_text(f"{', '.join(asked)} know of nothing that the disk of {server} lacks")
    for peer, reason in silent.items():
        print_text(f"{peer} did not answer: {reason}")
