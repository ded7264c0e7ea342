"""``isotone bench quick``, ``saturate`` and ``recorded``: measurements with an answer."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.quick import WARN_ABOVE, Comparison, compared, quick, read_quick, write_quick
from isotone.bench.lan.recorded import Recorded, recorded
from isotone.bench.lan.saturate import Saturated, saturate
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text

BASELINE = Path("results/bench-quick.json")
FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("quick")
@click.option("--baseline", type=FILE, default=BASELINE, show_default=True, help="The committed result.")
@click.option("--write", is_flag=True, help="Make it the baseline instead of comparing.")
@click.option("--strict", is_flag=True, help="End with 1 on a warning.")
@json_option
def quick_command(*, baseline: Path, write: bool, strict: bool, as_json: bool) -> int:
    """Compare CPU per message with the committed result, as a ratio to a calibration loop; warn when it grew.

    \b
    Examples:
      isotone bench quick
      isotone bench quick --write         on a quiet machine, to be committed
    """
    before = None if write else read_quick(baseline)  # what is missing is told before anything is measured
    now = quick(_say)
    if before is None:
        write_quick(now, baseline)
        print_text(f"written to {baseline}: " + ", ".join(f"{row.size} B {row.cpu_us:.2f} µs" for row in now.rows))
        return 0
    found = compared(now, before)
    if as_json:
        print_json({"now": now, "before": before, "compared": found})
    else:
        print_text("\n".join(map(_line, found)))
    return EXIT_VIOLATION if strict and any(each.warns for each in found) else 0


def _line(each: Comparison) -> str:
    told = f"{each.variant} {each.size:,} B: {each.cpu_us:.2f} µs per message, {each.change:.2f} times the committed"
    if each.warns:
        return f"warning: {told}, above {WARN_ABOVE:g}: a message costs more than it did"
    return told


@click.command("saturate")
@click.option("--minutes", type=click.FloatRange(min=0.01), default=10.0, show_default=True, help="How long.")
@click.option("--spin/--no-spin", default=True, help="Busy processes beside the load, so that no core is ever idle.")
@json_option
def saturate_command(*, minutes: float, spin: bool, as_json: bool) -> int:
    """Saturate the machine and see whether a daemon is excluded that was never away for 500 ms.

    \b
    Examples:
      isotone bench saturate --minutes 1

    Exit codes: 0 no wrong exclusion, 1 there was one, or a member heard another order.
    """
    found = saturate(Cell(), minutes * 60, _say, spin=spin)
    if as_json:
        print_json(found)
    else:
        print_text(saturated_text(found))
    return 0 if found.is_good else EXIT_VIOLATION


def saturated_text(found: Saturated) -> str:
    """In words."""
    lines = [
        f"{found.minutes:g} minutes, processors busy {found.busy:.0%}, {found.messages:,} messages heard by all",
        f"wrong exclusions: {found.wrong_exclusions}",
    ]
    for each in found.daemons:
        timeouts = f"{each.silence_timeout_ms_least:.0f} to {each.silence_timeout_ms_most:.0f} ms"
        lines.append(
            f"{each.name}: longest gap between wake-ups {each.longest_gap_ms:.0f} ms, "
            f"{len(each.views)} new daemon views, excluded {each.excluded} times, its timeouts for others {timeouts}"
        )
    return "\n".join(lines)


@click.command("recorded")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="How long to send.")
@click.option(
    "--size", type=click.IntRange(min=17, max=1024 * 1024), default=64, show_default=True, help="Bytes of a message."
)
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the trace in this directory.")
@json_option
def recorded_command(*, seconds: float, size: int, keep: Path | None, as_json: bool) -> int:
    """Run at full speed, then judge every property over the recorded trace.

    \b
    Examples:
      isotone bench recorded --seconds 5

    Exit codes: 0 no gap, no violation, nothing not judged; 1 otherwise.
    """
    with TemporaryDirectory(prefix="isotone-bench-") as held:
        found = recorded(Cell(size=size), seconds, keep or Path(held), _say)
    if as_json:
        print_json(found)
    else:
        print_text(recorded_text(found))
    return 0 if found.is_good else EXIT_VIOLATION


def recorded_text(found: Recorded) -> str:
    """In words."""
    verdicts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(found.verdicts.items()))
    lines = [
        f"{found.seconds:g} s, {found.messages:,} messages, {found.rate:,.0f} a second, {found.rows:,} rows of trace",
        f"gaps: {found.gaps}; properties: {verdicts}",
    ]
    lines += [f"violated: {name}" for name in found.violated] + [f"not judged: {name}" for name in found.not_judged]
    return "\n".join(lines)


def _say(note: str) -> None:
    click.echo(note, err=True)
