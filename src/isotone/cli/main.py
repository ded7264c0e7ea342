"""``isotone``: the commands, each in a module of its own. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

import click

from isotone import __version__
from isotone.cli.group import CommandGroup

COMMANDS = {
    "check": "isotone.cli.check:check_command",
    "demo": "isotone.cli.demo:demo_command",
    "sim": "isotone.cli.sim:sim_commands",
}


@click.group(cls=CommandGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="isotone", message="%(prog)s %(version)s")
def commands() -> None:
    """Group communication and replication that can be checked.

    \b
    Examples:
      isotone demo                         a cluster through a partition, a crash and a merge
      isotone sim swarm --seeds 1..200     200 random clusters against every property
      isotone sim replay 17                one of them again, in detail
      isotone check run.jsonl              every property over a recorded trace

    Exit codes: 0 fine, 1 a property is violated, 2 wrong usage or input, 3 the machine lacks something, 130
    interrupted.
    """


def main() -> None:
    """The entry point: a termination request ends the workers too, as an interrupt does."""
    signal.signal(signal.SIGTERM, _on_terminate)
    commands()


def _on_terminate(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
