"""What ``isotone flow authority`` and ``isotone flow node`` do until they are ended."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotone.core.addresses import split_address
from isotone.core.errors import InputError, MachineError
from isotone.flows.hierarchy import grown, leaves_of, ring_settings
from isotone.host.flow_invitations import Invitation, load_key, public_text, read_invitation, write_invitation
from isotone.host.flow_nodes import RunningNode, start_authority
from isotone.host.flow_process import FlowProcess

Until = Callable[[], Awaitable[None]]


class AuthorityOptions(NamedTuple):
    """As the command takes them."""

    program: str
    bind: str
    nodes: int
    fan_out: int
    rings: str
    under: Path | None
    token_ms: int
    ranges: int
    bytes_per_s: int
    state: Path
    invitations: Path


def say(**fields: object) -> None:
    """One JSON line for whoever started us."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def serve_authority(options: AuthorityOptions, until: Until) -> None:
    """Start, write invitations, say that it is ready, wait."""
    process = await open_authority(options)
    try:
        await until_ended(until, [process])
    finally:
        process.close()


async def until_ended(until: Until, processes: Sequence[FlowProcess]) -> None:
    """Wait for whoever started us; a `MachineError` when one of these can go on no more."""
    asked = asyncio.create_task(_wait(until))
    waits: list[asyncio.Future[Any]] = [asked, *(each.ended for each in processes)]
    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if asked not in done:
        asked.cancel()
        raise MachineError(
            "; ".join(f"{each.address}: {each.ended.result()}" for each in processes if each.ended in done)
        )


async def _wait(until: Until) -> None:
    await until()


async def open_authority(options: AuthorityOptions) -> FlowProcess:
    """A running authority with its invitations written."""
    parent, program = ("", ""), options.program
    if options.under is not None:
        above = read_invitation(read_text(options.under))
        parent, program = (above.ring, above.authority), above.program
    if not program:
        raise InputError("name a program, or an invitation with --under")
    prefix = f"{parent[0]}-{abs(hash_of(options.state))}" if parent[0] else "r"
    names = [each.strip() for each in options.rings.split(",")] if options.rings else []
    names = names or grown(options.nodes, options.fan_out, prefix)
    host, port = split_address(options.bind, port_min=0)
    process = await start_authority(
        lambda address: ring_settings(
            names,
            program,
            address,
            parent=parent,
            token_us=options.token_ms * 1_000,
            ranges_max=options.ranges,
            bytes_per_s=options.bytes_per_s,
        ),
        host,
        port,
        options.state,
    )
    key = load_key(options.state)
    try:
        options.invitations.mkdir(parents=True, exist_ok=True)
        for ring in leaves_of(names):
            text = write_invitation(Invitation(ring, process.address, program), key)
            (options.invitations / ring).write_text(text + "\n")
    except OSError as error:
        raise MachineError(f"cannot write invitations: {error.strerror}") from error
    say(ready=process.address, key=public_text(key), rings=len(names), invitations=leaves_of(names))
    return process


def hash_of(path: Path) -> int:
    """A number for a directory, the same at every start."""
    return sum(place * ord(sign) for place, sign in enumerate(str(path), start=1))


def read_text(path: Path) -> str:
    """Of an invitation; an `InputError` for what cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{path} is not an invitation: it is no text") from None


async def serve_nodes(
    path: Path, *, bind: str, name: str, count: int, trust: str, versions: int | None, command: str, until: Until
) -> None:
    """Join with as many nodes; then inputs and outputs are JSON lines."""
    invitation = read_invitation(read_text(path), trust)
    host, port = split_address(bind, port_min=0)
    nodes = [
        RunningNode(
            invitation,
            name if count == 1 else f"{name}{number + 1}",
            lambda who, what, told: say(node=who, at=time.monotonic_ns(), **{what: told}),
        )
        for number in range(count)
    ]
    for number, node in enumerate(nodes):
        await node.start(host, port + number if port else 0)
        if versions is not None:
            node.follow_versions(versions, lambda version: _apply(command, version))
    say(ready=[node.process.address for node in nodes], ring=invitation.ring)
    reader = asyncio.create_task(_read_inputs(nodes)) if versions is None else None
    try:
        await until_ended(until, [node.process for node in nodes])
    finally:
        if reader is not None:
            reader.cancel()
        for node in nodes:
            node.close()


async def _apply(command: str, version: int) -> bool:
    """Run the command, if there is one; a version that fails is not confirmed."""
    if not command:
        return True
    process = await asyncio.create_subprocess_shell(command.replace("{version}", str(version)))
    code = await process.wait()
    if code:
        say(version=version, failed=f"the command ended with {code}")
        await asyncio.sleep(1.0)
    return code == 0


async def _read_inputs(nodes: list[RunningNode]) -> None:
    """``{"L": 3}`` for all nodes of this process, or ``{"node": "node2", "L": 3}`` for one."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            told = json.loads(line)
            wanted = told.pop("node", None)
            for node in nodes:
                if wanted in (None, node.name):
                    node.give(told)
        except (InputError, ValueError, AttributeError) as error:
            say(refused=str(error))
