"""``isotone site witness``: the third voter of two data centres, which holds no data."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from isotone.cli.output import results
from isotone.cli.site_asking import file_argument, read_file


@click.command("witness")
@file_argument
@click.option("--state", required=True, type=click.Path(path_type=Path, file_okay=False), help="Its own directory.")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="[default: centre.key in --state]")
def witness_command(*, file: Path, state: Path, key: Path | None) -> None:
    """Be the witness in FILE, until SIGTERM or Ctrl-C: of two data centres it decides which one goes on.

    It runs at a third place, and records who was declared lost; a declaration that it recorded counts without
    --override. Never begin it with an empty --state while data centres run that asked it before.

    \b
    Examples:
      isotone site witness centres.toml --state state/witness

    Exit codes: 0 it was ended, 2 wrong usage, 3 the machine refuses.
    """
    asyncio.run(_serve(file, state, key))


async def _serve(file: Path, state: Path, key: Path | None) -> None:
    from isotone.host.hab_witness import witness_server

    async with witness_server(read_file(file), state, key) as server:
        results().print(f"witness: listens at {server.streams.address}", highlight=False, markup=False)
        running = asyncio.get_running_loop().create_task(server.run())
        ended = asyncio.Event()
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
        waits = asyncio.get_running_loop().create_task(ended.wait())
        await asyncio.wait([running, waits], return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if running.done():
            await running
        running.cancel()
