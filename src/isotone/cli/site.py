"""``isotone site``: several data centres: how they stand, who seems to be lost, and what people decide about it."""

from __future__ import annotations

import click

from isotone.cli.command_group import CommandGroup

LAZY = {name: f"isotone.cli.site_status:{name}_command" for name in ("status", "suspects")}
LAZY |= {
    "found": "isotone.cli.site_acts:found_command",
    "declare-lost": "isotone.cli.site_acts:declare_lost_command",
    "withdraw": "isotone.cli.site_acts:withdraw_command",
    "handover": "isotone.cli.site_acts:handover_command",
    "rejoin": "isotone.cli.site_acts:rejoin_command",
    "keygen": "isotone.cli.site_acts:keygen_command",
    "witness": "isotone.cli.site_witness:witness_command",
}


@click.group(cls=CommandGroup, lazy=LAZY, name="site")
def site_commands() -> None:
    """Look after several data centres: docs/guide/data-centres.md goes through a disaster step by step.

    \b
    Examples:
      isotone site found centres.toml --operator anna --key anna.key
      isotone site status centres.toml
      isotone site suspects centres.toml
      isotone site declare-lost berlin centres.toml --operator anna --key anna.key
      isotone site rejoin berlin centres.toml --operator anna --key anna.key
      isotone site handover berlin centres.toml --operator anna --key anna.key
      isotone site witness centres.toml --state state/witness
    """
