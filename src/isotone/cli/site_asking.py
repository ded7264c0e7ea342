"""Asking the processes of several data centres: all of them at once, or one centre's until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from isotone.core.errors import InputError, MachineError

if TYPE_CHECKING:
    from isotone.daemon.security.keys import Authority
    from isotone.host.hab_acts import Act, Reply
    from isotone.host.hab_settings import CentresFile

Command = TypeVar("Command", bound=Callable[..., Any])

file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


def act_options(command: Command) -> Command:
    """Of every command that acts: who acts, and with which key."""
    for option in (
        click.option(
            "--key",
            "key_file",
            required=True,
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="ISOTONE_OPERATOR_KEY",
            help="The file of the operator's private key.",
        ),
        click.option("--operator", required=True, envvar="ISOTONE_OPERATOR", help="The operator's name in FILE."),
        file_argument,
    ):
        command = option(command)
    return command


def read_file(path: Path) -> CentresFile:
    """The settings of the data centres."""
    from isotone.host.hab_settings import read_centres

    return read_centres(path)


def check_centre(file: CentresFile, name: str) -> None:
    """Whether there is one of this name."""
    names = [centre.name for centre in file.centre]
    if name not in names:
        raise InputError(f"no data centre is called {name!r}: {', '.join(names)}")


def ask_everybody(file: CentresFile) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """How each process says that it stands, and why the others say nothing; `MachineError` if nobody answers."""
    from isotone.host.hab_acts import ask_process

    async def one(address: str) -> Reply | MachineError:
        try:
            return await ask_process(address)
        except MachineError as error:
            return error

    async def everybody() -> list[Reply | MachineError]:
        return await asyncio.gather(*(one(each.wide) for each in file.processes.values()))

    told, silent = dict[str, dict[str, Any]](), dict[str, str]()
    for name, answer in zip(file.processes, asyncio.run(everybody()), strict=True):
        if isinstance(answer, MachineError):
            silent[name] = str(answer)
        else:
            told[name] = answer.status
    if not told:
        raise MachineError("no process of any data centre answers: " + "; ".join(silent.values()))
    return told, silent


def act_at(file: CentresFile, processes: Iterable[str], act: Act, operator: str, key: Authority) -> Reply:
    """Ask for an act at the first of these that answers."""
    from isotone.host.hab_acts import ask_process

    silent: list[str] = []
    for name in processes:
        try:
            return asyncio.run(ask_process(file.processes[name].wide, act, operator, key))
        except MachineError as error:
            silent.append(f"{name}: {error}")
    raise MachineError("nobody whom to ask answers: " + "; ".join(silent))
