"""``isotone faults``: cut, delay or drop traffic of a running daemon on purpose, for tests and drills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from isotone.cli.admin_client import AdminClient, admin_options, clients_of
from isotone.cli.command_group import CommandGroup
from isotone.cli.output import json_option, print_json, results

Rule = dict[str, Any]


@click.group("faults", cls=CommandGroup)
def faults_commands() -> None:
    """Injure the traffic of a running daemon on purpose, where its settings enable it: [faults] enabled = true.

    \b
    Examples:
      isotone faults cut d3
      isotone faults delay d2 50
      isotone faults drop d2 0.1
      isotone faults status
      isotone faults heal
    """


@faults_commands.command("status")
@admin_options
@json_option
def status_command(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """Which faults are injected now.

    \b
    Examples:
      isotone faults status --json
    """
    return _tell(addresses, credential_file, as_json, lambda client: client.get("/faults"))


@faults_commands.command("cut")
@click.argument("daemons", nargs=-1, required=True)
@click.option("--receive-only", is_flag=True, help="Only what we send is lost.")
@click.option("--send-only", is_flag=True, help="Only what they send is lost.")
@admin_options
@json_option
def cut_command(
    *,
    daemons: tuple[str, ...],
    receive_only: bool,
    send_only: bool,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    as_json: bool,
) -> int:
    """Cut the daemon off from DAEMONS, besides the faults that are there.

    \b
    Examples:
      isotone faults cut d1 d2 --address 127.0.0.1:4830
    """
    rules = [{"daemon": name, "cut": True, "receive_only": receive_only, "send_only": send_only} for name in daemons]
    return _tell(addresses, credential_file, as_json, lambda client: _add(client, rules))


@faults_commands.command("delay")
@click.argument("daemon")
@click.argument("milliseconds", type=click.FloatRange(0, 60_000))
@admin_options
@json_option
def delay_command(
    *, daemon: str, milliseconds: float, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Send to DAEMON so much later.

    \b
    Examples:
      isotone faults delay d2 50
    """
    rule = {"daemon": daemon, "delay_us": int(milliseconds * 1000)}
    return _tell(addresses, credential_file, as_json, lambda client: _add(client, [rule]))


@faults_commands.command("drop")
@click.argument("daemon")
@click.argument("share", type=click.FloatRange(0, 1))
@admin_options
@json_option
def drop_command(
    *, daemon: str, share: float, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Lose this SHARE of what is sent to DAEMON, from 0 to 1.

    \b
    Examples:
      isotone faults drop d2 0.1
    """
    return _tell(addresses, credential_file, as_json, lambda client: _add(client, [{"daemon": daemon, "drop": share}]))


@faults_commands.command("heal")
@admin_options
@json_option
def heal_command(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """End all faults.

    \b
    Examples:
      isotone faults heal
    """
    return _tell(addresses, credential_file, as_json, lambda client: client.post("/faults", {"rules": []}))


def _add(client: AdminClient, rules: list[Rule]) -> Any:
    """One rule for each daemon; a new one takes the place of the old one."""
    standing = {rule["daemon"]: rule for rule in client.get("/faults")["rules"]}
    standing |= {rule["daemon"]: rule for rule in rules}
    return client.post("/faults", {"rules": list(standing.values())})


def _tell(
    addresses: tuple[str, ...], credential_file: Path | None, as_json: bool, ask: Callable[[AdminClient], Any]
) -> int:
    told = [(client.address, ask(client)) for client in clients_of(addresses, credential_file)]
    if as_json:
        print_json(told[0][1] if len(told) == 1 else {"daemons": [{"address": a, "faults": f} for a, f in told]})
        return 0
    for address, faults in told:
        lines = [_line(rule) for rule in faults["rules"]] or ["none" if faults["enabled"] else "not enabled"]
        results().print(f"{address}: {'; '.join(lines)}", markup=False)
    return 0


def _line(rule: Rule) -> str:
    parts = []
    if rule["cut"]:
        way = "what we send" if rule["receive_only"] else "what it sends" if rule["send_only"] else "both ways"
        parts.append(f"cut ({way})")
    parts += [f"{rule['delay_us'] / 1000:g} ms later"] if rule["delay_us"] else []
    parts += [f"{rule['drop']:.0%} lost"] if rule["drop"] else []
    return f"{rule['daemon']}: {', '.join(parts) or 'nothing'}"
