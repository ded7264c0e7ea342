"""``isotone replica``: run a server of the replicated log, look at it, keep copies of it, and repair it."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.command_group import CommandGroup

LAZY = {
    "add": "isotone.cli.replica_servers:add_command",
    "backup": "isotone.cli.replica_copies:backup_command",
    "compare": "isotone.cli.replica_compare:compare_command",
    "history": "isotone.cli.replica_history:history_command",
    "log": "isotone.cli.replica_store:log_commands",
    "quorum": "isotone.cli.replica_quorum:quorum_command",
    "recover": "isotone.cli.replica_recover:recover_command",
    "remove": "isotone.cli.replica_servers:remove_command",
    "restore": "isotone.cli.replica_copies:restore_command",
    "rule": "isotone.cli.replica_rule:rule_command",
    "scrub": "isotone.cli.replica_scrub:scrub_command",
    "status": "isotone.cli.replica_status:status_command",
    "verify": "isotone.cli.replica_verify:verify_command",
}


@click.group("replica", cls=CommandGroup, lazy=LAZY)
def replica_commands() -> None:
    """A total order on disk that survives partitions: its servers, their logs, their quorums.

    \b
    Examples:
      isotone replica quorum isotone.toml
      isotone replica start isotone.toml --name a
      isotone replica status isotone.toml
      isotone replica log verify isotone.toml --name a

    Exit codes: 0 fine, 1 the answer is bad (no primary component, a damaged log), 2 wrong usage or settings, 3 the
    machine lacks something, or the server ended by itself.
    """


@replica_commands.command("start")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", default="", help="Which server of the file this is; optional if the file names only one.")
@click.option("--dev", is_flag=True, help="For development: loopback only, and open.")
@click.option(
    "--credential-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help='With attach = "client": the credential for the daemon.',
)
@click.option("--end-with", "parent", type=int, hidden=True, help="Stop when this process, our parent, ends.")
def start_command(*, file: Path, name: str, dev: bool, credential_file: Path | None, parent: int | None) -> int:
    """Run the server that FILE describes, with its daemon unless it is a client of one, until SIGTERM or SIGINT.

    A torn end of its log is cut. A log that is damaged elsewhere stops it before it says anything; it then says what to
    do. A failed sync stops it at once.

    \b
    Examples:
      isotone replica start /etc/isotone/isotone.toml --name a
    """
    if parent is not None:
        from isotone.cli.daemon import end_with

        end_with(parent)
    from isotone.cli.admin_client import read_credential
    from isotone.host.serving import run_server

    return run_server(file, name, dev=dev, credential=read_credential(credential_file).encode())
