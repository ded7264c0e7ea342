"""``isotone replica verify``: whether the replicated objects of all servers are equal, and their databases sound."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from isotone.cli.admin_client import read_credential
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.cli.replica_ask import ask_all, places, server_options, with_remedy
from isotone.core.errors import IsotoneError, MachineError

ORDERED_WITHIN_S = 10.0
SESSIONS = "sessions and leases"


@click.command("verify")
@server_options
@json_option
def verify_command(
    *, file: Path | None, name: str, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Compare the replicated objects of all servers at one position, and scan their databases.

    A mark is put into the order. Every server tells the digests of its objects at the mark, and reads its copies of
    databases through: whether SQLite finds them sound, and whether their rows are what procedures made of them.

    \b
    Examples:
      isotone replica verify --address host-a:4816 --address host-b:4816 --address host-c:4816

    Exit codes: 0 all are equal and sound, 1 they are not, 2 wrong usage, 3 not all servers answered.
    """
    asked = places(file, name, addresses)
    position = asyncio.run(_mark(list(asked.values()), credential_file))

    async def question(log: Any) -> Any:
        return await log.ask("digests", str(position))

    answers = ask_all(asked, credential_file, question)
    told = {each: answer for each, answer in answers.items() if not isinstance(answer, IsotoneError)}
    silent = {each: why_silent(answer) for each, answer in answers.items() if isinstance(answer, IsotoneError)}
    found = [*_differences(told), *_problems(told)]
    if as_json:
        print_json({"position": position, "found": found, "asked": sorted(told), "silent": silent})
    else:
        for line in found:
            print_text(line)
        if not found and told:
            print_text(f"{len(told)} servers have equal objects at position {position}, and sound databases")
        for each, reason in silent.items():
            print_text(f"{each} did not answer: {reason}")
    if found:
        return EXIT_VIOLATION
    if silent:
        raise MachineError(f"not all servers answered: {', '.join(sorted(silent))} may differ")
    return 0


def why_silent(error: IsotoneError) -> str:
    """Why a server said nothing. `isotone replica start` keeps the order alone: objects are in programs."""
    if "nobody knows the question" in str(error):
        return "it has no replicated objects; those are in programs with isotone.replica(..., clients=...)"
    return with_remedy(str(error))


async def _mark(addresses: list[str], credential_file: Path | None) -> int:
    """Where in the order they are compared."""
    from isotone.host.log_client import RemoteLog
    from isotone.replicated.records import DigestWanted, encode

    credential = read_credential(credential_file).encode()
    async with RemoteLog(addresses, name="isotone", credential=credential) as log:
        return await log.append(encode(DigestWanted()), within_s=ORDERED_WITHIN_S)


def _differences(told: dict[str, Any]) -> list[str]:
    """Objects of which servers have other digests than the first that answered."""
    lines = []
    names = sorted({name for answer in told.values() for name in answer["digests"]})
    first = next(iter(told), "")
    for each, answer in told.items():
        if not answer["digests"]:
            lines.append(f"{each} began behind the mark: ask again")
            continue
        for name in names:
            if answer["digests"].get(name) != told[first]["digests"].get(name):
                lines.append(f"{each} and {first} differ in {name or SESSIONS}")
    return lines


def _problems(told: dict[str, Any]) -> list[str]:
    return [
        f"{each}: the database {name}: {text}"
        for each, answer in told.items()
        for name, found in answer["problems"].items()
        for text in found
    ]
