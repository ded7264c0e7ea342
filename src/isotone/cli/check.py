"""``isotone check``: every checker over recorded traces, of simulations or of real daemons."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from isotone.cli.context import read_context
from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.cli.tables import print_summary
from isotone.core.errors import InputError, MachineError
from isotone.sim.run import verdicts_and_violations
from isotone.sim.summary import Failure, Summary, count_verdicts, failure_of, is_unjudged, missing_told
from isotone.spec.check import check
from isotone.trace.events import Row
from isotone.trace.reader import is_still_written, read_runs, rows_of_run, trace_files
from isotone.trace.record import OnUnreadable
from isotone.trace.running import complete_part

_T = TypeVar("_T")


@click.command("check")
@click.argument("traces", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[TRACES…]")
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

    TRACES are files (.jsonl, .parquet, .spool) or directories of them; without any, those of the cluster that
    `isotone up` runs from this directory. Files of one run are read as one record, whatever machine they come from.
    While daemons of this machine still write, what all of them have recorded is judged, and a line says how far that
    goes. A verdict that would need lost rows is "not judged"; records that others name and that are not there are
    named, and the command ends with 5 if nothing could be judged of some run. A file that cannot be read is named and
    left out; the command then ends with 2, or with 1 if a property is violated too.

    \b
    Examples:
      isotone sim replay 17 --trace run17.jsonl
      isotone check
      isotone check run17.jsonl
      isotone check /var/lib/isotone/trace --json
    """
    if not traces:
        context = read_context()
        if context is None:
            raise InputError("no trace: name a file or a directory, or run `isotone up` in this directory")
        traces = (Path(context.trace),)
    if engine == "spark":
        return _check_on_spark(traces, master, as_json=as_json)
    if master is not None:
        raise InputError("--master goes with --engine spark")
    problems: set[tuple[str, str]] = set()
    summary = check_traces(traces, lambda path, error: problems.add((str(path), str(error))))
    name_problems(sorted(problems))
    _print(summary, as_json=as_json)
    return exit_code(summary, problems)


def exit_code(summary: Summary, problems: Collection[object]) -> int:
    """1 when something is violated, else 2 when a file could not be read, else 5 when nothing could be judged."""
    return 1 if summary.violations else 2 if problems else summary.exit_code


def _print(summary: Summary, *, as_json: bool) -> None:
    for told in summary.missing:
        click.echo(f"isotone: {told}", err=True)
    if as_json:
        print_json(summary)
    else:
        print_summary(results(), summary)


def name_problems(problems: Iterable[tuple[str, str]]) -> None:
    """Files that could not be read, and why, to standard error; most reasons begin with the file."""
    for path, reason in problems:
        click.echo(f"isotone: {reason if reason.startswith(path) else f'{path}: {reason}'}", err=True)


def _check_on_spark(traces: tuple[Path, ...], master: str | None, *, as_json: bool) -> int:
    try:
        from isotone.pipeline import checking
        from isotone.pipeline.conformance.registry import MISSING
    except ImportError:
        raise MachineError("the engine spark needs pyspark: install isotone[pipeline]") from None
    with progress_bar("check", total=checking.STEPS) as advance:
        checked = checking.check_traces(traces, master, advance=advance)
    name_problems(checked.problems)
    if MISSING:
        click.echo(f"isotone: this engine does not judge {', '.join(MISSING)}; --engine python does", err=True)
    _print(checked.summary, as_json=as_json)
    return exit_code(checked.summary, checked.problems)


def check_traces(traces: Sequence[Path], skip_unreadable: OnUnreadable | None = None) -> Summary:
    """Check every run that the files hold; a file that cannot be read is an `InputError`, or a call of the other."""
    verdicts: list[dict[str, str]] = []
    failures: list[Failure] = []
    missing: list[str] = []
    skipped: list[Path] = []

    def skip(path: Path, error: InputError) -> None:
        if skip_unreadable is None:
            raise error
        skipped.append(path)
        skip_unreadable(path, error)

    command = shlex.join(["isotone", "check", *map(str, traces)])
    named = list(_named(traces, skip))
    is_live = is_still_written(named)
    with progress_bar("runs checked", total=None) as advance:
        for run, rows in readable(read_runs(named, skip_unreadable=skip)):
            report = check(readable(_complete(run, named) if is_live else rows))
            states, violations = verdicts_and_violations(report)
            missing += missing_told(run, report.missing)
            verdicts.append(states)
            failures += [failure_of(violation, seed=None, replay=command) for violation in violations]
            advance(run)
    if not verdicts and not skipped:
        raise InputError(f"no trace found in {', '.join(map(str, traces))}")
    return Summary(
        runs=len(verdicts),
        violations=len(failures),
        properties=count_verdicts(verdicts),
        failures=tuple(failures),
        bounds={},
        unjudged=sum(map(is_unjudged, verdicts)),
        missing=tuple(missing),
    )


def _complete(run: str, paths: Sequence[Path]) -> Iterable[Row]:
    """The rows of a run, up to its last complete moment if it is still written."""
    read = partial(rows_of_run, paths, run, skip_unreadable=lambda path, error: None)  # they were named already
    part = complete_part(read)
    if part is None:
        return read()
    told = f"{run} is still written: judged {part.rows - part.left_out:,} of {part.rows:,} rows"
    rest = "; the others wait for rows of senders that are not written yet" if part.left_out else ""
    click.echo(f"isotone: {told}{rest}", err=True)
    return part.rows_of(read)


def _named(traces: Iterable[Path], skip: OnUnreadable) -> Iterator[Path]:
    """Those that are named as traces are, or are directories."""
    for path in traces:
        try:
            if not path.is_dir():
                list(trace_files([path]))
        except InputError as error:
            skip(path, error)
        else:
            yield path


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
