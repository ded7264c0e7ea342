"""``isotone faults``: inject network faults into running daemons, for tests and drills."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from isotone.cli.admin_client import AdminClient, admin_options, clients_of
from isotone.cli.command_group import CommandGroup
from isotone.cli.context import read_context
from isotone.cli.output import json_option, print_json, results
from isotone.core.errors import InputError

Rule = dict[str, Any]


@click.group("faults", cls=CommandGroup)
def faults_commands() -> None:
    """Inject network faults: lose or delay packets between daemons, where the settings allow it ([faults] enabled).

    In the directory of a running `isotone up` no --address is needed: a fault is then between the named daemons and all
    others. With --address only the daemon there is told, and the fault is between it and the named ones.

    \b
    Examples:
      isotone faults partition d1,d2 / d3
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


@faults_commands.command("partition")
@click.argument("parts", nargs=-1, required=True, metavar="NAMES / NAMES [/ NAMES…]")
@admin_options
@json_option
def partition_command(
    parts: tuple[str, ...], addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Part the cluster: daemons of different parts lose all that they send to each other.

    A part is a list of daemons, separated by commas; / stands between parts. A daemon that is named nowhere is a part
    of its own. Faults that were injected before are replaced. `isotone faults heal` ends it.

    \b
    Examples:
      isotone faults partition d1,d2 / d3
      isotone faults partition d1 / d2 / d3,d4
      isotone faults partition d1,d2 / d3 --address 127.0.0.1:4810 --address 127.0.0.1:4820 --address 127.0.0.1:4830
    """
    clients = named_clients(addresses, credential_file)
    components = parse_parts(parts, tuple(clients))
    told = []
    for own, client in clients.items():
        (here,) = (component for component in components if own in component)
        rules = [{"daemon": name, "cut": True} for name in clients if name not in here]
        told.append((client.address, client.post("/faults", {"rules": rules})))
    return _print(told, as_json)


def parse_parts(words: tuple[str, ...], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The parts that ``d1,d2 / d3`` names; daemons that it leaves out are alone."""
    parts = [tuple(name for name in re.split(r"[,\s]+", text) if name) for text in " ".join(words).split("/")]
    named = [name for part in parts for name in part]
    for name in named:
        if name not in names:
            raise InputError(f"there is no daemon {name!r}; there are {', '.join(names)}")
        if named.count(name) > 1:
            raise InputError(f"{name} can be in one part only")
    if not all(parts):
        raise InputError("a part without daemons; write isotone faults partition d1,d2 / d3")
    alone = [(name,) for name in names if name not in named]
    if len(parts) + len(alone) < 2:
        raise InputError("all daemons are in one part; put / between the parts: d1,d2 / d3")
    return [*parts, *alone]


def named_clients(addresses: tuple[str, ...], credential_file: Path | None) -> dict[str, AdminClient]:
    """The administration ports by the names of their daemons."""
    return {client.get("/status")["name"]: client for client in clients_of(addresses, credential_file)}


@faults_commands.command("cut")
@click.argument("daemons", nargs=-1, required=True)
@click.option("--receive-only", is_flag=True, help="Only packets to DAEMONS are lost.")
@click.option("--send-only", is_flag=True, help="Only packets from DAEMONS are lost.")
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
    """Lose all packets between DAEMONS and the others, besides the faults that are there.

    \b
    Examples:
      isotone faults cut d3
      isotone faults cut d1 d2 --address 127.0.0.1:4830
    """
    rules = [{"daemon": name, "cut": True, "receive_only": receive_only, "send_only": send_only} for name in daemons]
    return _inject(addresses, credential_file, as_json, rules)


@faults_commands.command("delay")
@click.argument("daemon")
@click.argument("milliseconds", type=click.FloatRange(0, 60_000))
@admin_options
@json_option
def delay_command(
    *, daemon: str, milliseconds: float, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Delay packets to DAEMON by so many MILLISECONDS.

    \b
    Examples:
      isotone faults delay d2 50
    """
    rule = {"daemon": daemon, "delay_us": int(milliseconds * 1000)}
    return _inject(addresses, credential_file, as_json, [rule])


@faults_commands.command("drop")
@click.argument("daemon")
@click.argument("share", type=click.FloatRange(0, 1))
@admin_options
@json_option
def drop_command(
    *, daemon: str, share: float, addresses: tuple[str, ...], credential_file: Path | None, as_json: bool
) -> int:
    """Lose this SHARE of the packets to DAEMON, from 0 to 1.

    \b
    Examples:
      isotone faults drop d2 0.1
    """
    return _inject(addresses, credential_file, as_json, [{"daemon": daemon, "drop": share}])


@faults_commands.command("heal")
@admin_options
@json_option
def heal_command(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool) -> int:
    """End all injected faults.

    \b
    Examples:
      isotone faults heal
    """
    return _tell(addresses, credential_file, as_json, lambda client: client.post("/faults", {"rules": []}))


def _inject(addresses: tuple[str, ...], credential_file: Path | None, as_json: bool, rules: list[Rule]) -> int:
    """At the addresses; without any, at every daemon of the cluster of this directory that no rule names."""
    context = None if addresses else read_context()
    if context is not None:
        named = {context.daemon(rule["daemon"]).name for rule in rules}
        addresses = tuple(each.admin for each in context.daemons if each.name not in named)
        if not addresses:
            raise InputError("a fault is between daemons: name some of the cluster, not all")
    return _tell(addresses, credential_file, as_json, lambda client: _add(client, rules))


def _add(client: AdminClient, rules: list[Rule]) -> Any:
    """One rule for each daemon; a new one takes the place of the old one."""
    standing = {rule["daemon"]: rule for rule in client.get("/faults")["rules"]}
    standing |= {rule["daemon"]: rule for rule in rules}
    return client.post("/faults", {"rules": list(standing.values())})


def _tell(
    addresses: tuple[str, ...], credential_file: Path | None, as_json: bool, ask: Callable[[AdminClient], Any]
) -> int:
    return _print([(client.address, ask(client)) for client in clients_of(addresses, credential_file)], as_json)


def _print(told: list[tuple[str, Any]], as_json: bool) -> int:
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
        way = "packets to it" if rule["receive_only"] else "packets from it" if rule["send_only"] else "both ways"
        parts.append(f"cut ({way})")
    parts += [f"{rule['delay_us'] / 1000:g} ms delay"] if rule["delay_us"] else []
    parts += [f"{rule['drop']:.0%} lost"] if rule["drop"] else []
    return f"{rule['daemon']}: {', '.join(parts) or 'nothing'}"
