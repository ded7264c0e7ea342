"""How commands reach replicated objects: the options, the connection, and errors as commands tell them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from isotone.cli.admin_client import read_credential
from isotone.cli.command_group import BadAnswer
from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError

DEFAULT_ADDRESS = "127.0.0.1:4816"
NO_ANSWER = "no server of the log answers"
WITHIN_S = 10.0

Command = TypeVar("Command", bound=Callable[..., Any])


def object_options(command: Command) -> Command:
    """The options of every command that uses replicated objects."""
    for option in (
        click.option(
            "--timeout", "within_s", default=WITHIN_S, show_default=True, help="Seconds to wait for an answer."
        ),
        click.option(
            "--credential-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="ISOTONE_CREDENTIAL_FILE",
            help="A file with a credential.",
        ),
        click.option(
            "--address",
            "addresses",
            multiple=True,
            metavar="HOST:PORT",
            envvar="ISOTONE_REPLICA",
            help=f"Where a replica listens for clients; several times for several (default: {DEFAULT_ADDRESS}).",
        ),
    ):
        command = option(command)
    return command


def with_objects(
    work: Callable[[Any], Awaitable[int | None]], addresses: tuple[str, ...], credential_file: Path | None, **more: Any
) -> int:
    """Run it with a connection; what the servers answer badly ends with exit code 1."""

    async def connected() -> int | None:
        from isotone.host.replica_objects import connect_replica

        credential = read_credential(credential_file).encode()
        async with connect_replica(addresses or (DEFAULT_ADDRESS,), credential=credential, **more) as objects:
            return await work(objects)

    try:
        return asyncio.run(connected()) or 0
    except MachineError as error:
        hint = "; is a server running, and does it listen there for clients?" if NO_ANSWER in str(error) else ""
        raise MachineError(f"{error}{hint}") from error
    except (LocalProtocolError, BadAnswer):
        raise
    except IsotoneError as error:
        raise BadAnswer(str(error)) from error
