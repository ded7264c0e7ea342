"""``isotone up``: a cluster of real daemons on this machine, for development."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.context import CONTEXT_FILE, Context, ContextDaemon, kept_context
from isotone.cli.local_cluster import PORT, LocalCluster, LocalDaemon, Place, places_of, refuse_taken_ports
from isotone.cli.output import json_option, live_display, print_json, progress_bar, results
from isotone.cli.status_tables import cluster_table
from isotone.core.addresses import PORT_MAX
from isotone.core.errors import IsotoneError

LOOK_EVERY_S = 1.0


@click.command("up")
@click.argument("daemons", type=int, default=3)
@click.option("--sites", type=int, default=1, show_default=True, help="Spread them over so many sites.")
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=PORT,
    show_default=True,
    help="Of the first daemon; the next has 10 more, administration 7 more. 0: any that are free.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="For settings, state, traces and logs, kept afterwards (default: a temporary one).",
)
@click.option(
    "--trace",
    type=click.Choice(["off", "buffered", "full"]),
    default="buffered",
    show_default=True,
    help="What is recorded, for `isotone check` and `isotone timeline`; full survives a kill.",
)
@click.option(
    "--within",
    type=click.FloatRange(1, 600),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up if they are not together by then.",
)
@json_option
def up_command(
    *, daemons: int, sites: int, port: int, directory: Path | None, trace: str, within: float, as_json: bool
) -> int:
    """Run DAEMONS daemons until interrupted, and show how they stand.

    They are real processes on loopback, open to every program of this machine, with faults enabled: for development
    and nothing else. With --json one object is printed when all are in one daemon view; end it with SIGTERM or Ctrl-C.
    While it runs, commands in the same directory find the cluster without --address: status, explain, faults, group,
    check.

    \b
    Examples:
      isotone up 3
      isotone up 4 --sites 2
      isotone up 3 --port 0 --json

    Exit codes: 0 stopped on request, 1 every daemon ended by itself, 2 wrong usage, 3 they did not come up.
    """
    places = places_of(daemons, sites, port or None)
    home = directory or Path(tempfile.mkdtemp(prefix="isotone-up-"))
    ended_alone = False
    try:
        refuse_taken_ports(places)
        cluster = LocalCluster(places, home.resolve(), trace=trace)
        with kept_context(context_of(cluster)), cluster:
            with progress_bar("starting", total=None) as advance:
                cluster.start(within, advance)
            try:
                ended_alone = _tell_and_wait(cluster, as_json)
            except KeyboardInterrupt:
                _note("stopping", as_json)
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
    return EXIT_VIOLATION if ended_alone else 0


def context_of(cluster: LocalCluster) -> Context:
    """What other commands need to know of it."""
    daemons = [daemon.place for daemon in cluster.daemons]
    return Context(
        process=os.getpid(),
        settings=str(cluster.settings),
        trace=str(cluster.directory / "trace"),
        daemons=tuple(
            ContextDaemon(name=place.name, site=place.site, address=place.address, admin=place.admin)
            for place in daemons
        ),
    )


def _tell_and_wait(cluster: LocalCluster, as_json: bool) -> bool:
    """Until all daemons ended by themselves, or an interrupt."""
    if as_json:
        print_json(description(cluster))
    else:
        _introduce(results(), cluster)
    if not as_json and results().is_terminal:
        _show_live(cluster)
    ended: dict[str, int] = {}
    while len(ended) < len(cluster.daemons):
        for line in _news(cluster, ended):
            click.echo(line, err=True)  # standard output is for the description
        time.sleep(LOOK_EVERY_S)
    return True


def _news(cluster: LocalCluster, ended: dict[str, int]) -> Iterator[str]:
    """Of daemons that ended since the last look; ``ended`` keeps them."""
    for daemon in cluster.daemons:
        name, code = daemon.place.name, daemon.ended
        if code is not None and name not in ended:
            ended[name] = code
            yield f"isotone: daemon {name} ended with {code}; its log: {daemon.log}; {_again(daemon)}"


def description(cluster: LocalCluster) -> dict[str, object]:
    """What a program needs to know."""
    return {
        "directory": str(cluster.directory),
        "settings": str(cluster.settings),
        "trace": str(cluster.directory / "trace"),
        "daemons": [
            {
                "name": daemon.place.name,
                "site": daemon.place.site,
                "address": daemon.place.address,
                "admin": daemon.place.admin,
                "process": daemon.process.pid if daemon.process is not None else None,
                "log": str(daemon.log),
            }
            for daemon in cluster.daemons
        ],
    }


def _introduce(console: Console, cluster: LocalCluster) -> None:
    console.print(
        f"{len(cluster.daemons)} daemons are in one daemon view; settings, traces and logs in {cluster.directory}"
    )
    for daemon in cluster.daemons:
        place = daemon.place
        console.print(f"  {place.name}  site {place.site}  clients {place.address}  administration {place.admin}")
    console.print("In this directory (they find the cluster by " + CONTEXT_FILE + "):", markup=False)
    for example in _examples([daemon.place for daemon in cluster.daemons]):
        console.print(f"  {example}", markup=False)
    console.print("Ctrl-C stops them all.")


def _examples(places: list[Place]) -> list[str]:
    """What to try next, with the names of this cluster."""
    examples = ["isotone group chat room --name alice", "isotone status"]
    if len(places) > 1:
        names = [place.name for place in places]
        examples += [f"isotone faults partition {','.join(names[:-1])} / {names[-1]}", "isotone faults heal"]
    return examples


def _show_live(cluster: LocalCluster) -> None:
    with live_display() as live:
        while any(daemon.ended is None for daemon in cluster.daemons):
            live.update(cluster_table(_row(daemon) for daemon in cluster.daemons), refresh=True)
            time.sleep(LOOK_EVERY_S)


def _row(daemon: LocalDaemon) -> tuple[str, dict[str, object] | None, str]:
    if daemon.ended is not None:
        return daemon.place.name, None, f"ended with {daemon.ended}; {_again(daemon)}"
    try:
        return daemon.place.name, daemon.admin.get("/status"), ""
    except IsotoneError:
        return daemon.place.name, None, ""


def _again(daemon: LocalDaemon) -> str:
    return f"again: {' '.join(daemon.command[1:])}"


def _note(text: str, as_json: bool) -> None:
    if not as_json:
        results().print(text)
