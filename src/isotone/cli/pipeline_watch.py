"""``isotone pipeline watch``: traces judged while they grow, minute by minute, until a violation or an interrupt."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isotone.cli.check import name_problems
from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import MachineError

if TYPE_CHECKING:
    from isotone.pipeline.live_verdicts import Look

LOOK_EVERY_S = 1
US_PER_MS = 1000.0


@click.command("watch")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="TRACES…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory of the tables."
)
@click.option("--every", "every_s", type=click.IntRange(1), default=5, show_default=True, help="Seconds between looks.")
@click.option("--fail-fast", is_flag=True, help="End with exit code 1 at the first violation.")
@click.option("--once", is_flag=True, help="Look at what is there now, and end.")
@click.option("--master", metavar="URL", help="Where Spark runs (default: local[*], all cores of this machine).")
@json_option
def watch_command(
    *,
    traces: tuple[Path, ...],
    out: Path,
    every_s: int,
    fail_fast: bool,
    once: bool,
    master: str | None,
    as_json: bool,
) -> int:
    """Judge TRACES while they grow: verdicts, latency and lag by minute, and a line at each violation with its witness.

    A streaming query reads what is new into the tables of DIR, as isotone pipeline run does, and judges again the runs
    that have grown; DIR/minutes has a row for each minute. A violation is told once. Interrupt it to end it.

    \b
    Examples:
      isotone pipeline watch /var/lib/isotone/trace --out tables
      isotone pipeline watch traces --out tables --fail-fast
      isotone pipeline watch traces --out tables --once --json

    Exit codes: 0 no violation in what is new (--once), 1 a violation (--fail-fast, --once), 3 the machine lacks
    something, 130 interrupted.
    """
    if find_spec("pyspark") is None:
        raise MachineError("the pipeline needs pyspark: pip install 'isotone[pipeline]'")
    from isotone.pipeline.failures import failures_named
    from isotone.pipeline.live_verdicts import watch
    from isotone.pipeline.session import session

    violated = threading.Event()

    def tell(look: Look) -> None:
        _print(look, as_json=as_json)
        if look.new:
            violated.set()

    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    with failures_named():
        query = watch(session(master, is_small=True), traces, out, trigger=trigger, tell=tell)
        while not query.awaitTermination(LOOK_EVERY_S):
            if fail_fast and violated.is_set():
                query.stop()
    return EXIT_VIOLATION if violated.is_set() else 0


def _print(look: Look, *, as_json: bool) -> None:
    if as_json:
        violations = [
            {"property": each.property, "told": each.explanation, "witness": each.witness} for each in look.new
        ]
        print_json({"runs": look.runs, "properties": look.summary.properties, "minutes": look.minutes,
                    "violations": violations, "problems": [each._asdict() for each in look.problems]})  # fmt: skip
        return
    name_problems(look.problems)
    for run in look.runs:
        last = next((row for row in reversed(look.minutes) if row["run"] == run), None)
        print_text(f"run {run}: {'nothing was delivered yet' if last is None else _minute(last)}")
    for each in look.new:
        events = ", ".join(f"{node}#{incarnation} row {index}" for node, incarnation, index in each.witness)
        print_text(f"VIOLATED {each.property}: {each.explanation} ({events})")


def _minute(row: dict[str, Any]) -> str:
    told = f"minute {row['minute']}: {row['delivered']:,} delivered"
    for name in ("latency", "lag"):
        half, most = row[f"{name}_p50_us"], row[f"{name}_p99_us"]
        if half is not None:
            told += f", {name} {half / US_PER_MS:.2f} ms (99 %: {most / US_PER_MS:.2f} ms)"
    return told
