"""``isotone demo``: three real daemons in two sites through a kill, a cut and a merge; then the verdicts."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.demo_record import SETTLED, Verdicts, judge, say_that_all_is_over
from isotone.cli.demo_screen import Screen
from isotone.cli.demo_story import Story
from isotone.cli.local_cluster import LocalCluster, places_of
from isotone.cli.output import json_option, print_json, print_text, progress_bar, results
from isotone.cli.tables import print_summary
from isotone.core.errors import InputError, MachineError
from isotone.sim.summary import Summary

DAEMONS, SITES = 3, 2
START_WITHIN_S = 60.0
MARK = ".isotone-demo"  # in a directory that a demo made, so that the next one may clear it


@click.command("demo")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="For settings, state, trace and logs; those of an earlier demo are removed.",
)
@click.option("--simulated", is_flag=True, help="Five nodes in virtual time instead; nothing is started or written.")
@click.option("--seed", metavar="N", help="With --simulated: another interleaving (default: 1).")
@click.option(
    "--report/--no-report", default=True, show_default=True, help="Write DIRECTORY/report.html, with isotone[pipeline]."
)
@json_option
def demo_command(*, directory: Path, simulated: bool, seed: str | None, report: bool, as_json: bool) -> int:
    """Show a cluster through a kill, a cut and a merge, and judge what it recorded.

    Three real daemons run in two sites on loopback, with a client at each. They send through all services; one daemon
    is killed, the sites are cut apart, healed, and the dead daemon comes back. Then every property is judged.

    \b
    Examples:
      isotone demo
      isotone demo --directory /tmp/demo --json
      isotone demo --simulated --seed 7

    Exit codes: 0 no violation and everything judged, 1 otherwise, 2 wrong usage, 3 the story could not be told.
    """
    if simulated:
        from isotone.cli.demo_simulated import simulated_demo

        return simulated_demo(seed or "1", as_json)
    if seed is not None:
        raise InputError("--seed goes with --simulated: real daemons have none")
    verdicts = tell(prepared(directory.resolve()), Screen(None if as_json else results()))
    summary = verdicts.both
    if as_json:
        print_json(summary)
    else:
        print_summary(results(), summary)
        print_text(f"judged as it stood when all was quiet ({SETTLED}.jsonl), and whole (trace), in {directory}")
        if report:
            from isotone.cli.pipeline_demo import report_on

            print_text("now the same on Spark, where it is installed; --no-report leaves that out")
            print_text(report_on(directory.resolve(), verdicts.whole))
    return EXIT_VIOLATION if summary.violations or not_judged(summary) else 0


def prepared(directory: Path) -> Path:
    """A place of our own: what an earlier demo left there goes, anything else is not touched."""
    mark = directory / MARK
    if directory.exists() and any(directory.iterdir()) and not mark.exists():
        raise InputError(f"{directory} is not empty, and not of an earlier demo; name another one: --directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        mark.touch()
        for name in ("state", "trace"):
            shutil.rmtree(directory / name, ignore_errors=True)
        for left in (*directory.glob("d*.log"), directory / f"{SETTLED}.jsonl"):
            left.unlink(missing_ok=True)
    except OSError as error:
        raise MachineError(f"cannot prepare {directory}: {error.strerror}") from error
    return directory


def tell(directory: Path, screen: Screen) -> Verdicts:
    """Run the story in real processes, none of which outlives it, and judge the record."""
    cluster = LocalCluster(places_of(DAEMONS, SITES, None), directory, trace="full", thorough=True)
    try:
        with cluster:
            with progress_bar("starting", total=None) as advance:
                cluster.start(START_WITHIN_S, advance)
            with screen:
                asyncio.run(Story(cluster, screen).tell())
                screen.say("all stop")
            codes = cluster.stop()
    finally:
        for daemon in cluster.daemons:  # one that an impatient second interrupt left
            daemon.send_signal(signal.SIGKILL)
    if any(codes.values()):
        raise MachineError(f"daemons ended with {codes}; their logs are in {directory}")
    say_that_all_is_over(directory, cluster.names)
    return judge(directory)


def not_judged(summary: Summary) -> int:
    """Properties for which the record does not suffice."""
    return sum(counts["not_judged"] for counts in summary.properties.values())
