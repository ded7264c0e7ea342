"""``python -m isotone.bench``: measure this machine, print a table, and write it down on request."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from isotone.bench.clients import measure_clients
from isotone.bench.clients_effort import QUICK_CLIENTS
from isotone.bench.foundation import Effort, measure_foundation
from isotone.bench.loops import measure_loops
from isotone.bench.measure import Figure, Machine, print_figures, this_machine
from isotone.bench.membership import measure_membership
from isotone.bench.objects import measure_objects
from isotone.bench.objects_effort import QUICK_OBJECTS
from isotone.bench.replica import measure_replica
from isotone.bench.replica_effort import QUICK_REPLICA
from isotone.bench.ring import measure_ring
from isotone.core.errors import MachineError

SUITES = {
    "foundation": measure_foundation,
    "ring": measure_ring,
    "loops": measure_loops,
    "membership": measure_membership,
    "clients": measure_clients,
    "replica": measure_replica,
    "objects": measure_objects,
}
QUICK = Effort(
    sends=200,
    swarm_seeds=2,
    codec_seconds=0.01,
    ring_seconds=0.02,
    ring_counts=(1, 10),
    ring_watched_bytes=1_000,
    joins=3,
    group_members=(1, 10),
    view_changes=1,
    view_daemons=(2, 4),
    loop_echoes=2,
    clients=QUICK_CLIENTS,
    replica=QUICK_REPLICA,
    objects=QUICK_OBJECTS,
)
WIDTH = 160


class BenchReport(msgspec.Struct, frozen=True):
    """All figures, with what they belong to."""

    command: str
    machine: Machine
    figures: list[Figure]


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("suites", nargs=-1, type=click.Choice(list(SUITES)))
@click.option("--quick", is_flag=True, help="Measure so little that the figures mean nothing; to try the command out.")
@click.option(
    "--idle-seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Of clients: how long to look at idle daemons (default: 30; with --quick 5).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the table here too, as text.")
def bench(suites: tuple[str, ...], *, quick: bool, idle_seconds: float | None, as_json: bool, out: Path | None) -> None:
    """Measure what the parts of Isotone cost on this machine.

    Times are CPU times of the process that does the work. Without arguments all suites are measured.

    \b
    Examples:
      python -m isotone.bench
      python -m isotone.bench foundation --out results/bench-foundation.txt
      python -m isotone.bench ring --json > results/bench-ring.json
      python -m isotone.bench loops
      python -m isotone.bench membership --out results/bench-membership.txt
      python -m isotone.bench clients --out results/bench-clients.txt
      python -m isotone.bench replica --out results/bench-replica.txt
      python -m isotone.bench objects --out results/bench-objects.txt
      make bench ARGS="foundation --json"
    """
    effort = QUICK if quick else Effort()
    if idle_seconds is not None:
        clients = msgspec.structs.replace(effort.clients, idle_seconds=idle_seconds)
        effort = msgspec.structs.replace(effort, clients=clients)
    figures: list[Figure] = []
    for name in suites or tuple(SUITES):
        figures += SUITES[name](effort, lambda note: click.echo(f"  {note} …", err=True))
    report = BenchReport(" ".join(["python -m isotone.bench", *sys.argv[1:]]), this_machine(), figures)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        _write(report, Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False))
    if out:
        _write_file(report, out)


def _write(report: BenchReport, console: Console) -> None:
    print_figures(report.figures, report.command, report.machine, console)


def _write_file(report: BenchReport, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            _write(report, Console(file=file, width=WIDTH, highlight=False))
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from error


def main() -> None:
    """Run, and end with 3 where the machine lacks something."""
    try:
        bench()
    except MachineError as error:
        click.echo(f"isotone.bench: {error}", err=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
