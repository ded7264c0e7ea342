"""``isotone replica quorum``: which failures stop a cluster, and which do not."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.output import json_option, print_json, print_text


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
    from isotone.corel.quorum import History, Primary, is_dynamic, stopping_failures, survived_failures
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import NO_SERVERS, founders, quorum_of

    settings = load(file)
    servers = tuple(sorted(founders(settings)))
    if not servers:
        raise InputError(f"{file}: {NO_SERVERS}")
    rule = quorum_of(settings)
    stopping = stopping_failures(rule, servers, History(Primary(0, servers)))
    survived = survived_failures(servers, stopping)
    answer = {
        "rule": rule.describe(),
        "servers": servers,
        "dynamic": is_dynamic(rule),
        "stopped_by": stopping,
        "survives": survived,
    }
    if as_json:
        print_json(answer)
    else:
        _show(answer["rule"], servers, stopping, survived, dynamic=bool(answer["dynamic"]))
    return 0


def _show(
    rule: object,
    servers: tuple[str, ...],
    stopping: list[tuple[str, ...]],
    survived: list[tuple[str, ...]],
    *,
    dynamic: bool,
) -> None:
    print_text(f"{len(servers)} servers: {', '.join(servers)}")
    print_text(f"a quorum: {rule}")
    print_text("stopped by the loss of:" if stopping else "no loss of some servers stops it")
    _list(stopping)
    print_text("goes on after the loss of:" if survived else "goes on after the loss of nobody")
    _list(survived)
    if dynamic:
        print_text("that is from the start, with all servers; later it counts from the last primary component")
    print_text("as the log began; `isotone replica status` has what counts now")


def _list(losses: list[tuple[str, ...]]) -> None:
    for lost in losses:
        print_text(f"  {' and '.join(lost)}")
