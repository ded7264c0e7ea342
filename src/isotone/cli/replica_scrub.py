"""``isotone replica scrub``: repair a server's damaged log from the other servers."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.admin_client import read_credential
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import MachineError


@click.command("scrub")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", default="", help="Which server of FILE; optional if the file names only one.")
@click.option(
    "--credential-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="ISOTONE_CREDENTIAL_FILE",
    help="A file with a credential for the other servers.",
)
@json_option
def scrub_command(*, file: Path, name: str, credential_file: Path | None, as_json: bool) -> int:
    """Repair the log of a server of FILE that does not run, from the other servers, which do.

    Only bytes that fit the checksum of what stood there are written. What cannot be found again stays as it is, and is
    named with what to do instead.

    \b
    Examples:
      isotone replica scrub isotone.toml --name c

    Exit codes: 0 the log is sound, 1 some of it is still damaged, 3 the server runs.
    """
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import chosen_server, founders, log_directory, quorum_of, server_address
    from isotone.host.peers import Peers
    from isotone.host.repairing import scrub
    from isotone.host.running import kept_still

    settings = load(file)
    server = chosen_server(settings, name)
    with kept_still({server.name: log_directory(settings, server)}) as used:
        if used:
            raise MachineError(f"{used[server.name]}: stop the server first; isotone replica log verify only looks")
    others = [each for each in settings.replica.server if each.name != server.name]
    addresses = {each.name: server_address(settings, each) for each in others}
    peers = Peers(addresses, read_credential(credential_file).encode())
    outcome = scrub(log_directory(settings, server), peers, founders(settings), quorum_of(settings))
    told = {**outcome.__dict__, "peers": peers.reasons}
    if as_json:
        print_json(told)
        return EXIT_VIOLATION if outcome.left else 0
    if outcome.repaired:
        print_text(f"repaired: {', '.join(map(str, outcome.repaired))}")
    for reason in outcome.reasons:
        print_text(reason)
    if outcome.left:
        print_text(f"still damaged: {', '.join(map(str, outcome.left))}")
        for peer, reason in peers.reasons.items():
            print_text(f"{peer}: {reason}")
    else:
        print_text("sound")
    return EXIT_VIOLATION if outcome.left else 0
