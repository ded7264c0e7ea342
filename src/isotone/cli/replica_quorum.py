"""``isotone replica quorum``: which failures stop a cluster, and which do not."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import click

from isotone.cli.output import json_option, print_json, results


@click.command("quorum")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def quorum_command(*, file: Path, as_json: bool) -> int:
    """Which losses of servers stop the log that FILE describes, as it began, and which do not.

    FILE does not know what `isotone replica add`, `remove` and `rule` changed since: `isotone replica status` does.
    Settings with two quorums that have no server in common are refused, with the two.

    \b
    Examples:
      isotone replica quorum isotone.toml
      isotone replica quorum isotone.toml --json
    """
    from isotone.core.errors import InputError
    from isotone.corel.quorum import History, Primary, is_dynamic, stopping_failures
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import NO_SERVERS, founders, quorum_of

    settings = load(file)
    servers = tuple(sorted(founders(settings)))
    if not servers:
        raise InputError(f"{file}: {NO_SERVERS}")
    rule = quorum_of(settings)
    stopping = stopping_failures(rule, servers, History(Primary(0, servers)))
    answer = {
        "rule": rule.describe(),
        "servers": servers,
        "dynamic": is_dynamic(rule),
        "stopped_by": stopping,
        "survives": survivable(servers, stopping),
    }
    if as_json:
        print_json(answer)
    else:
        _show(answer["rule"], servers, stopping, dynamic=bool(answer["dynamic"]))
    return 0


def survivable(servers: tuple[str, ...], stopping: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The largest sets of servers that may be lost together while the rest still orders."""
    found: list[tuple[str, ...]] = []
    for size in range(len(servers) - 1, 0, -1):
        for lost in combinations(servers, size):
            stops = any(set(each) <= set(lost) for each in stopping)
            if not stops and not any(set(lost) <= set(known) for known in found):
                found.append(lost)
    return found


def _show(rule: object, servers: tuple[str, ...], stopping: list[tuple[str, ...]], *, dynamic: bool) -> None:
    console = results()
    console.print(f"{len(servers)} servers: {', '.join(servers)}", markup=False)
    console.print(f"a quorum: {rule}", markup=False)
    console.print("stopped by the loss of:" if stopping else "no loss of some servers stops it")
    for lost in stopping:
        console.print(f"  {' and '.join(lost)}", markup=False)
    survived = survivable(servers, stopping)
    console.print("goes on after the loss of:" if survived else "goes on after the loss of nobody")
    for lost in survived:
        console.print(f"  {' and '.join(lost)}", markup=False)
    if dynamic:
        console.print("that is from the start, with all servers; later it counts from the last primary component")
    console.print("as the log began; `isotone replica status` has what counts now", markup=False)
