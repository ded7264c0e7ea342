"""Asking servers of a replicated log: their addresses from the settings or from the command line, one answer each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from isotone.cli.admin_client import read_credential
from isotone.core.errors import InputError, IsotoneError, MachineError

ANSWER_WITHIN_S = 10.0
DEFAULT_ADDRESS = "127.0.0.1:4816"
HOW_TO_CREDENTIAL = (
    '--credential-file names a file with one; docs/guide/replica.md, "Who may change it", has how to make it'
)

Command = TypeVar("Command", bound=Callable[..., Any])


def server_options(command: Command) -> Command:
    """The options of every command that asks running servers."""
    for option in (
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
            help=f"The port of a server; several times for several (default: {DEFAULT_ADDRESS}).",
        ),
        click.option("--name", default="", help="Only this server of FILE."),
        click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False)),
    ):
        command = option(command)
    return command


def with_remedy(reason: str) -> str:
    """Why a server refused, and the option that helps where a credential is missing or wrong."""
    return f"{reason}; {HOW_TO_CREDENTIAL}" if "credential" in reason else reason


def places(file: Path | None, name: str, addresses: Sequence[str]) -> dict[str, str]:
    """Whom to ask: what to call each, and its address."""
    if file is None:
        if name:
            raise InputError("--name is for the servers of a settings file: name the file too")
        from isotone.core.addresses import split_address

        for address in addresses:
            split_address(address)  # or it says what is wrong with it
        return {address: address for address in addresses or (DEFAULT_ADDRESS,)}
    if addresses:
        raise InputError("name a settings file, or addresses")
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import NO_SERVERS, chosen_server, server_address

    settings = load(file)
    if not settings.replica.server:
        raise InputError(f"{file}: {NO_SERVERS}")
    servers = (chosen_server(settings, name),) if name else settings.replica.server
    return {server.name: server_address(settings, server) for server in servers}


def ask_all(
    asked: dict[str, str], credential_file: Path | None, question: Callable[[Any], Any]
) -> dict[str, Any | IsotoneError]:
    """Each one's answer, or what went wrong."""
    credential = read_credential(credential_file).encode()

    async def one(address: str) -> Any:
        from isotone.host.log_client import RemoteLog

        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                log = RemoteLog(address, name="isotone", credential=credential)
                log.patience.connect_within_us = 2_000_000
                async with log:
                    return await question(log)
        except TimeoutError:
            return MachineError(f"{address} does not answer within {ANSWER_WITHIN_S:g} seconds")
        except IsotoneError as error:
            return error

    async def everybody() -> list[Any]:
        return await asyncio.gather(*(one(address) for address in asked.values()))

    return dict(zip(asked, asyncio.run(everybody()), strict=True))
