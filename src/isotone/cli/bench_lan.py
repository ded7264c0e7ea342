"""``isotone bench lan`` and ``tune``: Isotone and its peers on one workload."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from isotone.bench.lan.cells import PATHS, SIZES, Cell, chosen, isotone_cells
from isotone.bench.lan.exhibits import exhibit_files
from isotone.bench.lan.goals import Goal
from isotone.bench.lan.measuring import Effort
from isotone.bench.lan.page import page
from isotone.bench.lan.peers import Peers, find_peers
from isotone.bench.lan.run import Measured, Run, check_same, new_measured, read_measured, write_measured
from isotone.bench.lan.steps import steps_of
from isotone.bench.lan.summary import Summary, summary_of
from isotone.bench.lan.tables import figures_table, goals_table, ratios_table, rows_table
from isotone.bench.lan.traffic import SIZE_MIN, OrderBroken
from isotone.bench.lan.tuning import tune
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, results
from isotone.core.errors import InputError, MachineError

MEASURED = Path("bench-results/lan.json")
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
EXIT_GOALS = 4
SIZE_MAX = 1024 * 1024
PLAIN_WIDTH = 180


@click.command("lan")
@click.option("--peers", default="auto", show_default=True, help="auto: those installed; none; or names, with commas.")
@click.option("--spread-prefix", type=DIRECTORY, help="Where Spread is installed.")
@click.option("--only", default="", help="Variants, with commas: base, senders-3, safe … (default: all)")
@click.option("--sizes", default="", help="Bytes of messages, with commas (default: 64,1024,8192,65536).")
@click.option("--paths", default="", help="loopback, bridge, bridge-frames; with commas (default: all).")
@click.option(
    "--repetitions", type=click.IntRange(min=1), default=5, show_default=True, help="How often each is measured."
)
@click.option("--seconds", type=click.FloatRange(min=0.05), default=1.5, show_default=True, help="Of steady state.")
@click.option("--figures/--no-figures", default=True, help="Latency, changes of views, idleness too.")
@click.option("--measured", type=FILE, default=MEASURED, show_default=True, help="Where samples are kept.")
@click.option("--resume", is_flag=True, help="Go on with the run that was interrupted.")
@click.option("--report", type=FILE, help="Write a page of HTML too.")
@click.option("--exhibits", type=DIRECTORY, help="Write figure-3.4.txt and figure-3.5.txt to this directory too.")
@json_option
def lan_command(
    *,
    peers: str,
    spread_prefix: Path | None,
    only: str,
    sizes: str,
    paths: str,
    repetitions: int,
    seconds: float,
    figures: bool,
    measured: Path,
    resume: bool,
    report: Path | None,
    exhibits: Path | None,
    as_json: bool,
) -> int:
    """Run Isotone and every installed peer on the same workload, interleaved repetition by repetition.

    Three members, one at each daemon; every member checks every message. Rates are those of the slowest member, CPU
    is that of daemons and of clients apart. A whole run takes about an hour, and is judged by its goals; one that is
    restricted by --only, --sizes, --paths or --no-figures is a part, and only shows what became of them.

    \b
    Examples:
      isotone bench lan --report lan.html
      isotone bench lan --resume --json > results/lan.json
      isotone bench lan --only base,safe --sizes 64 --paths loopback --repetitions 1 --peers none --no-figures

    Exit codes: 0 fine, 1 a member heard another order, 2 wrong usage or input, 3 the machine lacks something, 4 a goal
    of a whole run is missed, or was not measured in five repetitions beside a peer.
    """
    found = find_peers(peers, spread_prefix)
    cells = _cells(found, _names(only), _numbers(sizes), _paths(paths))
    state = new_measured(shlex.join(["isotone", *sys.argv[1:]]), seconds_each=seconds, peers=found.versions)
    if resume:
        state = _resumed(measured, state)
    state.notes = list(dict.fromkeys([*state.notes, *found.notes]))
    for note in found.notes:
        _say(note)
    effort = Effort(seconds=seconds)
    run = Run(
        cells,
        state,
        repetitions=repetitions,
        effort=effort,
        say=_say,
        keep=lambda now: write_measured(now, measured),
        peers=found.makers,
        steps=steps_of(cells, effort) if figures else (),
    )
    code = _carry_out(run, measured)
    summary = summary_of(state, cells)
    if report is not None:
        _write(page(summary), report)
    if exhibits is not None:
        for name, text in exhibit_files(state.command, state.machine, state.figures).items():
            _write(text, exhibits / name)
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    is_whole = figures and not (only or sizes or paths)
    return code or (exit_code(summary.goals) if is_whole else 0)


def exit_code(goals: Sequence[Goal]) -> int:
    """Of a whole run."""
    return EXIT_GOALS if any(goal.verdict in ("missed", "not measured") for goal in goals) else 0


def _resumed(path: Path, now: Measured) -> Measured:
    """The run that was interrupted, if it was one like this."""
    found = read_measured(path)
    check_same(found, now)
    return found


def _carry_out(run: Run, measured: Path) -> int:
    try:
        run.carry_out()
    except OrderBroken as error:
        run.measured.notes.append(f"the order was broken: {error}")
        _say(f"the order was broken: {error}")
        return EXIT_VIOLATION
    finally:
        write_measured(run.measured, measured)
    return 0


def _cells(peers: Peers, only: tuple[str, ...], sizes: tuple[int, ...], paths: tuple[str, ...]) -> list[Cell]:
    whole = [*isotone_cells(sizes or SIZES), *peers.cells(sizes or SIZES)]
    known = {cell.variant for cell in whole}
    for variant in only:
        if variant not in known:
            raise InputError(f"there is no variant {variant}; there are {', '.join(sorted(known))}")
    cells = [cell for cell in chosen(whole, only, sizes, paths) if cell.path in peers.paths]
    if not cells:
        raise InputError("nothing is left to measure: " + "; ".join(peers.notes or ["no variant on these paths"]))
    return cells


@click.command("tune")
@click.option("--seconds", type=click.FloatRange(min=0.05), default=1.5, show_default=True, help="Of each measurement.")
@click.option(
    "--repetitions", type=click.IntRange(min=1), default=3, show_default=True, help="How often each is measured."
)
@json_option
def tune_command(*, seconds: float, repetitions: int, as_json: bool) -> int:
    """Find the documented settings with which Corosync is fastest, so that it is compared at its best.

    \b
    Examples:
      isotone bench tune
    """
    found = find_peers("corosync", None)
    rows = tune(Effort(seconds=seconds), repetitions, _say)
    del found
    if as_json:
        print_json({"settings": rows})
        return 0
    for row in rows:
        case = f"{row.size:>6,} B, packing {row.packing:>6,}"
        click.echo(f"{row.rate:>12,.0f} messages/s  {row.cpu_us:8.1f} µs  {case}  {row.settings}")
    return 0


# --- parts ---------------------------------------------------------------------------------------------------------


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in _names(text))
    except ValueError:
        raise InputError(f"sizes are numbers with commas between them, not {text!r}") from None
    if any(not SIZE_MIN <= number <= SIZE_MAX for number in numbers):
        raise InputError(f"messages have {SIZE_MIN} to {SIZE_MAX} bytes")
    return numbers


def _paths(text: str) -> tuple[str, ...]:
    names = _names(text)
    for name in names:
        if name not in PATHS:
            raise InputError(f"there is no path {name}; there are {', '.join(PATHS)}")
    return names


def _say(note: str) -> None:
    click.echo(note, err=True)


def _print(summary: Summary) -> None:
    console = results()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    console.print(rows_table(summary.rows))
    for title, table in (
        ("ours over the better peer", ratios_table(summary.ratios) if summary.ratios else None),
        ("latency, changes, rest", figures_table(summary.figures) if summary.figures else None),
        ("goals", goals_table(summary.goals)),
    ):
        if table is not None:
            console.print(f"\n{title}", style="bold")
            console.print(table)
    for note in summary.notes:
        console.print(f"note: {note}", markup=False)


def _write(text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from None
