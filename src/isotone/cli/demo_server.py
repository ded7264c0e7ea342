"""One server of the demo's bank, a process: ``python -m isotone.cli.demo_server SETTINGS NAME [BUG]``.

A daemon as ``isotone daemon run --dev`` runs it, with a server of the log and a copy of the accounts beside it; with a
bug, if it is given one that the demo plants.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from isotone.cli.daemon import end_with
from isotone.cli.demo_bank import bank
from isotone.cli.demo_break import plant
from isotone.daemon.admin.assembly import assembled, opened
from isotone.daemon.admin.logs import configure_logs
from isotone.daemon.admin.service import Service
from isotone.daemon.node import Node
from isotone.daemon.running import run
from isotone.daemon.settings import DaemonSettings, load_in_full
from isotone.daemon.settings.replication import chosen_server, log_directory, replica_settings, server_address
from isotone.host.replica_objects import replica_beside


def serve(path: Path, name: str) -> int:
    """Until it is stopped; the exit code of the process."""

    def read() -> tuple[DaemonSettings, list[str]]:
        return opened(load_in_full(path).settings), []

    settings, _ = read()
    configure_logs(settings.admin.log_format, settings.admin.log_level, daemon=name)
    server, assembly = chosen_server(settings, name), assembled(settings, name)
    admin, directory = Service(assembly, read), log_directory(settings, server)
    directory.mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def around(node: Node) -> AsyncIterator[None]:
        beside = replica_beside(
            node,
            replica_settings(settings, server),
            directory,
            clients=server_address(settings, server),
            databases=[bank],
        )
        async with admin.around(node), beside:
            yield

    return run(assembly.node, hooks=assembly.hooks, around=around)


@click.command()
@click.argument("settings", type=click.Path(path_type=Path))
@click.argument("name")
@click.argument("bug", default="")
@click.option("--end-with", "parent", type=int, required=True)
def main(*, settings: Path, name: str, bug: str, parent: int) -> None:
    """Serve until it is told to stop, or its parent ends."""
    end_with(parent)
    if bug:
        plant(bug)
    sys.exit(serve(settings, name))


if __name__ == "__main__":
    main()
