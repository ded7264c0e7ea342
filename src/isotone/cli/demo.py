"""``isotone demo``: a bank on five real daemons in three sites, through a kill, a partition, a merge; then verdicts."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.demo_bank import ARCHIVE, KEPT, BankServer, servers_text
from isotone.cli.demo_break import BUGS
from isotone.cli.demo_record import SETTLED, Verdicts, judge, say_that_all_is_over
from isotone.cli.demo_screen import Screen
from isotone.cli.demo_story import Story
from isotone.cli.local_cluster import LocalCluster, places_of
from isotone.cli.output import json_option, print_json, print_text, progress_bar, results
from isotone.cli.tables import print_failures, print_summary
from isotone.cli.timeline import show as show_timeline
from isotone.core.errors import InputError, MachineError
from isotone.daemon.ports import free_ports
from isotone.sim.summary import Summary
from isotone.spec.verdicts import EventId
from isotone.trace.events import Row
from isotone.trace.reader import read
from isotone.trace.story import story_of

DAEMONS, SITES = 5, 3
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
@click.option("--report/--no-report", default=True, show_default=True, help="End on Spark: DIRECTORY/report.html.")
@click.option("--only-report", is_flag=True, help="Run nothing: the report of the demo that ran before.")
@click.option(
    "--break",
    "bug",
    type=click.Choice(list(BUGS)),
    help="Plant a bug in one daemon, at its first AGREED message: it is lost, told twice, or behind the next one.",
)
@json_option
def demo_command(
    *,
    directory: Path,
    simulated: bool,
    seed: str | None,
    report: bool,
    only_report: bool,
    bug: str | None,
    as_json: bool,
) -> int:
    """Show a replicated bank through a kill, a partition and a merge, and judge what it recorded.

    Five real daemons run in three sites on loopback, a server of the bank beside each; in each site there is a client
    of the group and a teller of the bank. One daemon is killed under transfers; one site is cut off, and its teller is
    answered maybe; the cut is healed, and the dead daemon comes back. Then the run is drawn over time, every property
    is judged, and on Spark the pipeline judges and measures the trace, writes DIRECTORY/report.html, and adds up the
    accounts at every position of the bank's log; without isotone[pipeline], or without a Java, it says so and leaves
    that out.

    \b
    Examples:
      isotone demo
      isotone demo --directory /tmp/demo --json
      isotone demo --simulated --seed 7
      isotone demo --only-report
      isotone demo --break swap --no-report

    Exit codes: 0 no violation and everything judged, 1 otherwise, 2 wrong usage, 3 the story could not be told.
    """
    if bug is not None and simulated:
        raise InputError("--break goes with real daemons: without --simulated")
    if simulated:
        from isotone.cli.demo_simulated import simulated_demo

        return simulated_demo(seed or "1", as_json)
    if seed is not None:
        raise InputError("--seed goes with --simulated: real daemons have none")
    if only_report:
        if as_json or not (directory / MARK).exists():
            raise InputError(f"{directory} has no demo to report of" if not as_json else "--only-report has no --json")
        verdicts = judge(directory.resolve())
        return show_with_report(directory, verdicts) or code_of(verdicts)
    verdicts = tell(prepared(directory.resolve()), Screen(None if as_json else results()), bug)
    if not as_json:
        print_text("")
        show_timeline(results(), story_of(read([directory / "trace"])))
        print_text("")
    if as_json:
        print_json(verdicts.both)
    elif report:
        return show_with_report(directory, verdicts) or code_of(verdicts)
    else:
        show(directory, verdicts)
    return code_of(verdicts)


def code_of(verdicts: Verdicts) -> int:
    """0 when everything was judged and nothing is violated."""
    return EXIT_VIOLATION if verdicts.both.violations or not_judged(verdicts.both) else 0


def show(directory: Path, verdicts: Verdicts) -> None:
    """What the plain checkers found, with the rows that prove it."""
    print_summary(results(), verdicts.both, _witnesses(directory, verdicts.both))
    print_text(f"judged as it stood when all was quiet ({SETTLED}.jsonl), and whole (trace), in {directory}")


def _witnesses(directory: Path, summary: Summary) -> dict[EventId, Row]:
    """The rows that violations name."""
    wanted = {event for failure in summary.failures for event in failure.witness}
    found = (((row.node, row.incarnation, row.index), row) for row in read([directory / "trace"]))
    return {event: row for event, row in found if event in wanted} if wanted else {}


def show_with_report(directory: Path, verdicts: Verdicts) -> int:
    """What the pipeline finds in the trace, and its report; what the plain checkers found, where it cannot run."""
    from isotone.cli.pipeline_demo import REPORT, NoReportError, compared, judge_on_spark

    found = verdicts.both.violations
    told = f"{found} violations" if found else "no violation"
    print_text(f"the record is judged: {told}; now the pipeline, on Spark (--no-report leaves that out)")
    print_failures(results(), verdicts.both, _witnesses(directory, verdicts.both))
    try:
        spark, counted = judge_on_spark(directory.resolve())
    except NoReportError as error:
        show(directory, verdicts)
        print_text(f"no report: {error}")
        return 0
    print_summary(results(), spark)
    differing = compared((verdicts.whole, verdicts.settled), spark)
    same = f"the plain checkers judge the same in all {len(spark.properties)} properties"
    print_text(f"the plain checkers judge otherwise: {', '.join(differing)}" if differing else same)
    print_text(counted.told)
    print_text(f"report: {directory / REPORT}; the bank's log: {directory / ARCHIVE}")
    return EXIT_VIOLATION if differing or not counted.is_right else 0


def prepared(directory: Path) -> Path:
    """A place of our own: what an earlier demo left there goes, anything else is not touched."""
    mark = directory / MARK
    if directory.exists() and any(directory.iterdir()) and not mark.exists():
        raise InputError(f"{directory} is not empty, and not of an earlier demo; name another one: --directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        mark.touch()
        for name in ("state", "trace", "tables", ARCHIVE):
            shutil.rmtree(directory / name, ignore_errors=True)
        files = (KEPT, f"{SETTLED}.jsonl", "report.html")
        for left in (*directory.glob("*.log"), *(directory / name for name in files)):
            left.unlink(missing_ok=True)
    except OSError as error:
        raise MachineError(f"cannot prepare {directory}: {error.strerror}") from error
    return directory


def tell(directory: Path, screen: Screen, bug: str | None = None) -> Verdicts:
    """Run the story in real processes, none of which outlives it, and judge the record."""
    places = places_of(DAEMONS, SITES, None)
    taken = {port for place in places for port in (place.port, place.admin_port)}
    free = (port for port in free_ports(3 * DAEMONS) if port not in taken)
    ports = {place.name: port for place, port in zip(places, free)}
    cluster = LocalCluster(places, directory, trace="full", thorough=True, more=servers_text(ports), process=BankServer)
    first = cluster.daemons[0]
    assert isinstance(first, BankServer)
    first.bug = bug or ""
    try:
        with cluster:
            with progress_bar("starting", total=None) as advance:
                cluster.start(START_WITHIN_S, advance)
            with screen:
                if bug is not None:
                    screen.say(f"daemon {cluster.names[0]} has a bug: of the first AGREED message, {BUGS[bug]}")
                asyncio.run(Story(cluster, ports, screen).tell())
                screen.say("all stop")
            codes = cluster.stop()
    finally:
        for daemon in cluster.daemons:  # one that an impatient second interrupt left
            daemon.send_signal(signal.SIGKILL)
    if any(codes.values()):
        raise MachineError(f"daemons ended with {codes}; their logs are in {directory}")
    say_that_all_is_over(directory, cluster.run)
    return judge(directory)


def not_judged(summary: Summary) -> int:
    """Properties for which the record does not suffice."""
    return sum(counts["not_judged"] for counts in summary.properties.values())
