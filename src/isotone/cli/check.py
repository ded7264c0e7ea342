"""``isotone check``: every checker over recorded traces, of simulations or of real daemons."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click

from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.cli.tables import print_summary
from isotone.core.errors import InputError, MachineError
from isotone.sim.run import verdicts_and_violations
from isotone.sim.summary import Failure, Summary, count_verdicts, failure_of
from isotone.spec.check import check
from isotone.trace.reader import read_runs

_T = TypeVar("_T")


@click.command("check")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="TRACES…")
@click.option(
    "--engine",
    type=click.Choice(("python", "spark")),
    default="python",
    show_default=True,
    help="the streaming checkers on one core, or a Spark cluster (isotone[pipeline])",
)
@click.option("--master", metavar="URL", help="where Spark runs (default: local[*], all cores of this machine)")
@json_option
def check_command(traces: tuple[Path, ...], engine: str, master: str | None, as_json: bool) -> int:
    """Judge every property over recorded traces.

    TRACES are files (.jsonl, .parquet, .spool) or directories of them. Files of one run are read as one record,
    whatever machine they come from. A verdict that would need lost rows is "not judged".

    \b
    Examples:
      isotone sim replay 17 --trace run17.jsonl
      isotone check run17.jsonl
      isotone check /var/lib/isotone/trace --json
    """
    if engine == "spark":
        return _check_on_spark(traces, master, as_json=as_json)
    if master is not None:
        raise InputError("--master goes with --engine spark")
    summary = check_traces(traces)
    if as_json:
        print_json(summary)
    else:
        print_summary(results(), summary)
    return summary.exit_code


def _check_on_spark(traces: tuple[Path, ...], master: str | None, *, as_json: bool) -> int:
    try:
        from isotone.pipeline import checking
        from isotone.pipeline.conformance.registry import MISSING
    except ImportError:
        raise MachineError("the engine spark needs pyspark: install isotone[pipeline]") from None
    checked = checking.check_traces(traces, master)
    for problem in checked.problems:
        click.echo(f"isotone: {problem.path}: {problem.reason}", err=True)
    if MISSING:
        missing = ", ".join(MISSING)
        click.echo(f"isotone: this engine does not judge {missing} and COReL yet; --engine python does", err=True)
    if as_json:
        print_json(checked.summary)
    else:
        print_summary(results(), checked.summary)
    return checked.exit_code


def check_traces(traces: Sequence[Path]) -> Summary:
    """Check every run that the files hold."""
    verdicts: list[dict[str, str]] = []
    failures: list[Failure] = []
    command = shlex.join(["isotone", "check", *map(str, traces)])
    with progress_bar("runs checked", total=None) as advance:
        for run, rows in readable(read_runs(traces)):
            states, violations = verdicts_and_violations(check(readable(rows)))
            verdicts.append(states)
            failures += [failure_of(violation, seed=None, replay=command) for violation in violations]
            advance(run)
    if not verdicts:
        raise InputError(f"no trace found in {', '.join(map(str, traces))}")
    return Summary(
        runs=len(verdicts),
        violations=len(failures),
        properties=count_verdicts(verdicts),
        failures=tuple(failures),
        bounds={},
    )


def readable(parts: Iterable[_T]) -> Iterator[_T]:
    """The same; what a file makes its reader stumble over is the file's fault."""
    iterator = iter(parts)
    while True:
        try:
            part = next(iterator)
        except StopIteration:
            return
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise InputError(f"the traces cannot be read: {type(error).__name__}: {error}") from error
        yield part
