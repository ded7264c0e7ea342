"""``isotone lock NAME -- COMMAND`` and ``isotone leader NAME -- COMMAND``: run a command while something is held.

The command finds its fence in ``ISOTONE_FENCE``. When what it stands on may be lost, it is ended before anybody else
can have it: SIGTERM when a quarter of the time is left for which it is certainly ours, SIGKILL just before its end.

Implements: docs/guide/replicated.md "From a shell". Deviations: none.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.objects import object_options, with_objects
from isotone.core.errors import MachineError
from isotone.replicated.client_session import MARGIN

END_WITHIN_S = 5.0
END_SHARE, KILL_SHARE = 0.25, 0.05
"""Of the time for which a grant is certainly ours behind a renewal: when SIGTERM comes before its end, and SIGKILL."""
LEASE_S = 10.0
SIGNALLED = 128

lease_option = click.option(
    "--lease",
    "lease_s",
    default=LEASE_S,
    show_default=True,
    help="Seconds after which it is released if this machine dies.",
)
command_argument = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)


@click.command("lock", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@command_argument
@click.option("--no-wait", is_flag=True, help="End with code 1 if it is held by somebody else.")
@lease_option
@object_options
def lock_command(
    *,
    name: str,
    command: tuple[str, ...],
    no_wait: bool,
    lease_s: float,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    within_s: float,
) -> int:
    """Run COMMAND while the lock NAME is held; the exit code is that of the command.

    The fence is in ISOTONE_FENCE. If the lock may be lost, the command gets SIGTERM, and SIGKILL before anybody else
    can have the lock, with exit code 1.

    \b
    Examples:
      isotone lock nightly -- ./backup.sh
      isotone lock nightly --no-wait --address host-a:4816 --address host-b:4816 -- ./backup.sh
    """
    del within_s

    async def work(objects: Any) -> int:
        held = await objects.lock(name).acquire(wait=not no_wait)
        if held is None:
            click.echo(f"isotone: the lock {name} is held by somebody else", err=True)
            return EXIT_VIOLATION
        return await _run(held, command, f"the lock {name}", lease_s)

    return with_objects(work, addresses, credential_file, lease_s=lease_s)


@click.command("leader", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@command_argument
@click.option("--note", default="", help="What others see of the leader; the host's name when left out.")
@lease_option
@object_options
def leader_command(
    *,
    name: str,
    command: tuple[str, ...],
    note: str,
    lease_s: float,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    within_s: float,
) -> int:
    """Wait until elected as the leader NAME, and run COMMAND while leading.

    \b
    Examples:
      isotone leader scheduler --note "$(hostname)" -- ./scheduler
    """
    del within_s

    async def work(objects: Any) -> int:
        term = await objects.leader(name).campaign(note or os.uname().nodename)
        return await _run(term, command, f"the leadership of {name}", lease_s)

    return with_objects(work, addresses, credential_file, lease_s=lease_s)


async def _run(held: Any, command: tuple[str, ...], what: str, lease_s: float) -> int:
    try:
        process = await asyncio.create_subprocess_exec(*command, env=os.environ | {"ISOTONE_FENCE": str(held.fence)})
    except OSError as error:
        await held.release(within_s=END_WITHIN_S)
        raise MachineError(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        return await guard(held, process, what, (1 - MARGIN) * lease_s)
    finally:
        with suppress(Exception):
            await held.release(within_s=END_WITHIN_S)


class Process(Protocol):
    """A command that runs, as asyncio has it."""

    async def wait(self) -> int:
        """Its exit code, once it has ended; below 0 the signal that ended it."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


async def guard(held: Any, process: Process, what: str, whole_s: float) -> int:
    """Wait for the command, and end it in time if what it stands on may be lost; the exit code of ours.

    ``whole_s``: so long what is held is certainly ours behind a renewal.
    """
    ended = asyncio.ensure_future(process.wait())
    lost = asyncio.ensure_future(held.until_lost(ahead_s=END_SHARE * whole_s))
    try:
        await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            click.echo(f"isotone: {what} may be lost: {lost.result()}; the command is ended", err=True)
            return EXIT_VIOLATION
        code = ended.result()
        return code if code >= 0 else SIGNALLED - code
    finally:
        lost.cancel()
        await _end(process, ended, min(END_WITHIN_S, held.left_s - KILL_SHARE * whole_s))


async def _end(process: Process, ended: asyncio.Future[int], within_s: float) -> None:
    if ended.done():
        return
    with suppress(ProcessLookupError):
        process.terminate()
    await asyncio.wait({ended}, timeout=max(0.0, within_s))
    if not ended.done():
        with suppress(ProcessLookupError):
            process.kill()
        await ended
