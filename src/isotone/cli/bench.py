"""``isotone bench``: what this machine carries, with Isotone and with its peers."""

from __future__ import annotations

from typing import Any

import click

from isotone.bench.lan.traffic import OrderBroken
from isotone.cli.command_group import EXIT_VIOLATION, CommandGroup

LAZY = {
    "lan": "isotone.cli.bench_lan:lan_command",
    "parts": "isotone.bench.__main__:bench",
    "profile": "isotone.cli.bench_profile:profile_command",
    "quick": "isotone.cli.bench_guards:quick_command",
    "recorded": "isotone.cli.bench_guards:recorded_command",
    "saturate": "isotone.cli.bench_guards:saturate_command",
    "tune": "isotone.cli.bench_lan:tune_command",
}


class BenchGroup(CommandGroup):
    """A member that heard something else than what was sent is an answer, and a bad one."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except OrderBroken as error:
            click.echo(f"isotone: the order was broken: {error}", err=True)
            return EXIT_VIOLATION


@click.group("bench", cls=BenchGroup, lazy=LAZY)
def bench_commands() -> None:
    """Measure Isotone and its peers on this machine. Traffic stays on loopback and in namespaces of its own.

    \b
    Examples:
      isotone bench lan                        a whole run, with all peers that are installed
      isotone bench lan --only base --sizes 64 --repetitions 1 --no-figures --peers none
      isotone bench profile --size 1024        where the time goes
      isotone bench quick                      CPU per message against the committed result
      isotone bench saturate --minutes 10      is a daemon excluded wrongly while the machine is saturated?
      isotone bench recorded                   ten seconds at full speed, and the verdicts on their record
      isotone bench parts ring                 what the parts cost by themselves

    Exit codes: 0 fine, 1 a member heard another order or the answer is bad, 2 wrong usage or input, 3 the machine
    lacks something, 4 a goal of a whole run of lan is missed or not measured, 130 interrupted.
    """
