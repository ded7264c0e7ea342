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

SUMMARIES = {
    "archive": "Look after the archive of a replicated log.",
    "bench": "Measure what Isotone costs on this machine.",
    "check": "Judge recorded traces: was every promise kept?",
    "daemon": "Run a daemon; check settings, make keys.",
    "demo": "Show a cluster through a kill, a cut and a merge.",
    "explain": "Say why something does not happen.",
    "faults": "Inject network faults: cut, delay, drop.",
    "flow": "Roll out and decide among hundreds of nodes.",
    "group": "Talk in a group: send, recv, chat, ping, flood.",
    "kv": "Read, write and watch a replicated dict.",
    "leader": "Run a command while elected as leader.",
    "lock": "Run a command while holding a lock.",
    "pipeline": "Judge and measure traces of any size, on Spark.",
    "replica": "Run and look after a replicated log.",
    "sim": "Simulate clusters under faults, by seeds.",
    "site": "Look after several data centres.",
    "status": "Show who sees whom and what is wrong.",
    "timeline": "Draw a recorded run: views, crashes, faults.",
    "trace": "Say what running daemons record.",
    "up": "Run some daemons on this machine, to try things.",
}
"""One line each, so that the list of commands imports none of them."""


@click.group(
    cls=CommandGroup, lazy=COMMANDS, summaries=SUMMARIES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="isotone", message="%(prog)s %(version)s")
def commands() -> None:
    """Common state and one order of messages for programs on several machines.

    \b
    Examples:
      isotone demo --simulated          see a cluster through a crash, a cut and a merge
      isotone up 3                      three daemons on this machine, until Ctrl-C
      isotone group chat room           talk in a group
      isotone status --watch            who sees whom, what is wrong
      isotone explain exclusion d2      why a daemon is not there
      isotone kv set apples 3           a replicated dict; also isotone lock and isotone leader
      isotone timeline                  what happened, as a picture
      isotone check                     was every promise kept?

    Exit codes: 0 fine, 1 the answer is bad (a promise was broken, a daemon is not ready), 2 wrong usage or input, 3 the
    machine lacks something, 4 `bench lan` missed a goal, 5 nothing could be judged, 130 interrupted.
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
