"""``isotone``: the commands, each in a module of its own. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from isotone import __version__
from isotone.cli.command_group import CommandGroup
from isotone.daemon.early import stop_cleanly

COMMANDS = {
    "archive": "isotone.cli.archive:archive_commands",
    "bench": "isotone.cli.bench:bench_commands",
    "check": "isotone.cli.check:check_command",
    "daemon": "isotone.cli.daemon:daemon_commands",
    "demo": "isotone.cli.demo:demo_command",
    "explain": "isotone.cli.explain:explain_commands",
    "faults": "isotone.cli.faults:faults_commands",
    "flow": "isotone.cli.flow:flow_commands",
    "group": "isotone.cli.group:group_commands",
    "kv": "isotone.cli.kv:kv_commands",
    "leader": "isotone.cli.held_command:leader_command",
    "lock": "isotone.cli.held_command:lock_command",
    "pipeline": "isotone.cli.pipeline:pipeline_commands",
    "replica": "isotone.cli.replica:replica_commands",
    "sim": "isotone.cli.sim:sim_commands",
    "site": "isotone.cli.site:site_commands",
    "status": "isotone.cli.status:status_command",
    "timeline": "isotone.cli.timeline:timeline_command",
    "trace": "isotone.cli.trace_level:trace_commands",
    "up": "isotone.cli.up:up_command",
}


@click.group(cls=CommandGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="isotone", message="%(prog)s %(version)s")
def commands() -> None:
    """Group communication and replication that can be checked.

    \b
    Examples:
      isotone up 3                         three daemons on this machine, until Ctrl-C
      isotone status --watch               how a daemon stands
      isotone group chat room              talk in a group
      isotone kv set apples 3              a replicated dict; also isotone lock and isotone leader
      isotone daemon --dev                 one daemon for development
      isotone demo                         a cluster through a partition, a crash and a merge
      isotone sim swarm --seeds 1..200     200 random clusters against every property
      isotone sim replay 17                one of them again, in detail
      isotone timeline run.jsonl           a recorded run as a picture
      isotone check run.jsonl              every property over a recorded trace
      isotone pipeline run traces --out d  the same for any amount of traces, with metrics and a report

    Exit codes: 0 fine, 1 the answer is bad (a property is violated, a daemon is not ready), 2 wrong usage or input,
    3 the machine lacks something, 130 interrupted.
    """


def main() -> None:
    """The entry point: a termination request ends the workers too, as an interrupt does."""
    if is_daemon(sys.argv[1:]):
        stop_cleanly()
    else:
        signal.signal(signal.SIGTERM, _on_terminate)
    commands()


def is_daemon(arguments: list[str]) -> bool:
    """Whether this process is to be a daemon: one that is told to stop does what it is asked, whenever that is."""
    if arguments[:2] == ["replica", "start"]:
        return True
    return arguments[:1] == ["daemon"] and ("run" in arguments or "--dev" in arguments)


def _on_terminate(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
