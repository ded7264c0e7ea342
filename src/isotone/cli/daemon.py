"""``isotone daemon``: run a daemon from a settings file, or for development; look at settings, make keys."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import click

from isotone.cli.command_group import CommandGroup
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import InputError, MachineError

SETTINGS = "isotone.cli.daemon_settings"
PR_SET_PDEATHSIG = 1  # of Linux
LAZY = {name: f"{SETTINGS}:{name}_command" for name in ("check", "show", "convert", "keygen")}
LAZY |= {"ops": "isotone.cli.daemon_ops:ops_command"}


@click.group("daemon", cls=CommandGroup, lazy=LAZY, invoke_without_command=True)
@click.option("--dev", is_flag=True, help="One machine, no file: loopback only, open, and it says so.")
@click.option("--port", type=click.IntRange(0, 65_535), help="With --dev: of clients and daemons (default: 4803).")
@click.option("--admin-port", type=click.IntRange(0, 65_535), help="With --dev: of administration (default: 4810).")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --dev: for state and trace (default: in the user's state directory).",
)
@click.pass_context
def daemon_commands(
    context: click.Context, *, dev: bool, port: int | None, admin_port: int | None, directory: Path | None
) -> int:
    """Run a daemon, or work on its settings.

    \b
    Examples:
      isotone daemon --dev
      isotone daemon check isotone.toml
      isotone daemon run isotone.toml --name d1

    Exit codes: 0 stopped on request, 2 wrong usage or settings, 3 the machine lacks something, or it ended by itself.
    """
    if context.invoked_subcommand is not None:
        if dev or port is not None or admin_port is not None or directory is not None:
            raise InputError("--dev and its options stand alone, or behind run: isotone daemon --dev")
        return 0
    if not dev and (port is not None or admin_port is not None or directory is not None):
        raise InputError("--port, --admin-port and --directory go with --dev")
    if not dev:
        click.echo(context.get_help())
        return 0
    return _run_dev(port, admin_port, directory)


@daemon_commands.command("run")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", default="", help="Which daemon of the file this is; optional if the file names only one.")
@click.option("--dev", is_flag=True, help="For development: loopback only, and open. FILE may be left out then.")
@click.option("--end-with", "parent", type=int, hidden=True, help="Stop when this process, our parent, ends.")
def run_command(*, file: Path | None, name: str, dev: bool, parent: int | None) -> int:
    """Run the daemon that FILE describes, until SIGTERM or SIGINT; SIGHUP reads FILE again.

    \b
    Examples:
      isotone daemon run /etc/isotone/isotone.toml --name d1
      isotone daemon run --dev
    """
    if parent is not None:
        end_with(parent)
    if file is None and not dev:
        raise InputError("name a settings file, or say --dev")
    if file is None:
        return _run_dev(None, None, None)
    from isotone.daemon.admin.service import run_file

    return run_file(file, name, dev=dev)


@daemon_commands.command("credential")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("principal")
@click.option("--names", default="*", show_default=True, help="Private names that it may use: patterns, with commas.")
@json_option
def credential_command(*, file: Path, principal: str, names: str, as_json: bool) -> int:
    """Make a credential for PRINCIPAL: a digest of it goes into FILE, the credential itself is printed once.

    FILE is what [security] credentials_file names. Keep what is printed in a file that only its owner can read, and
    name that with --credential-file or ISOTONE_CREDENTIAL_FILE.

    \b
    Examples:
      isotone daemon credential credentials ada > ada.credential
      isotone daemon credential credentials worker --names 'worker*'
    """
    from isotone.daemon.security.credentials import add_credential

    credential = add_credential(file, principal, tuple(names.split(",")))
    if as_json:
        print_json({"principal": principal, "names": names.split(","), "credential": credential})
    else:
        print_text(credential)
    return 0


def _run_dev(port: int | None, admin_port: int | None, directory: Path | None) -> int:
    from isotone.daemon.admin.service import run_dev

    return run_dev(port=port, admin_port=admin_port, directory=directory)


def end_with(parent: int) -> None:
    """Have the kernel send us SIGTERM when our parent ends, be it by a kill; at once if it has ended already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0):
        raise MachineError(f"cannot follow the process {parent}: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        raise MachineError(f"the process {parent} has ended")
