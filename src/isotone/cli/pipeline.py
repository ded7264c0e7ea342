"""``isotone pipeline``: traces of any size on Spark: verdicts, metrics, a report; and sweeps of simulations."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isotone.cli.check import exit_code, name_problems
from isotone.cli.command_group import CommandGroup
from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.cli.tables import print_summary
from isotone.core.errors import InputError, MachineError

if TYPE_CHECKING:
    from isotone.pipeline.stages import Refreshed
    from isotone.pipeline.tables import Held

_REPORT = "report.html"
_traces = click.argument(
    "traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="TRACES…"
)
_out = click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory of the tables."
)
_master = click.option(
    "--master", metavar="URL", help="Where Spark runs (default: local[*], all cores of this machine)."
)


_LAZY = {
    "tables": "isotone.cli.pipeline_objects:tables_command",
    "watch": "isotone.cli.pipeline_watch:watch_command",
}


@click.group("pipeline", cls=CommandGroup, lazy=_LAZY)
def pipeline_commands() -> None:
    """Traces of any size, on Spark: verdicts, metrics and a report; sweeps of simulations. Needs isotone[pipeline].

    \b
    Examples:
      isotone pipeline run traces --out tables
      isotone pipeline run traces --out /shared/tables --master spark://host:7077
      isotone pipeline report tables --to report.html
      isotone pipeline sweep sweep.toml --out sweep
      isotone pipeline tables /srv/archive --out tables
      isotone pipeline watch traces --out tables --fail-fast

    Exit codes: 0 fine, 1 a property is violated, 2 a file could not be read, 3 the machine lacks something,
    130 interrupted.
    """


@pipeline_commands.command("run")
@_traces
@_out
@_master
@click.option("--report/--no-report", default=True, show_default=True, help="Write DIR/report.html too.")
@json_option
def run_command(*, traces: tuple[Path, ...], out: Path, master: str | None, report: bool, as_json: bool) -> int:
    """Read what is new in TRACES into the tables of DIR, judge and measure it, and write a report.

    Files that were read before and have not changed are not read again; a run with new files is made anew, and keeps
    the rows of files that are gone. What cannot be read is named and left out. One process at a time may write to DIR.

    \b
    Examples:
      isotone pipeline run traces --out tables
      isotone pipeline run /var/lib/isotone/trace --out tables --json
    """
    stages = _pipeline("stages")
    checking = _pipeline("checking")
    with _writing(traces, out) as held:
        spark = checking.session_for(traces, master, out=out)
        # With --json there are none: spark-submit writes what a program says on standard error to standard output.
        with progress_bar("pipeline", total=stages.STEPS + 1, in_lines=not as_json) as advance:
            done = stages.refresh(spark, traces, out, held=held, advance=advance)
            held.share()
            summary = checking.summary_of(spark, out, traces, done.present)
            advance("told")
        _tell(done)
        if as_json:
            print_json(summary)
        else:
            print_summary(results(), summary)
        if report and summary.runs:  # after what was found: that cannot fail with the page
            _pipeline("report.page").write_report(spark, out, out / _REPORT)
    if not as_json:
        _say_where(out, report=report and summary.runs > 0)
    return exit_code(summary, done.problems)


def _say_where(out: Path, *, report: bool) -> None:
    told = f"tables in {out}" + (f", report in {out / _REPORT}" if report else "")
    click.echo(told)


@pipeline_commands.command("metrics")
@_traces
@_out
@_master
@json_option
def metrics_command(*, traces: tuple[Path, ...], out: Path, master: str | None, as_json: bool) -> int:
    """Measure only: latency, throughput, view changes, silences, traffic and skew of the runs in TRACES.

    \b
    Examples:
      isotone pipeline metrics traces --out tables
      isotone pipeline metrics traces --out tables --json
    """
    stages = _pipeline("stages")
    with _writing(traces, out) as held:
        spark = _pipeline("checking").session_for(traces, master, out=out)
        with progress_bar("pipeline", total=stages.STEPS, in_lines=not as_json) as advance:
            done = stages.refresh(spark, traces, out, judging=False, held=held, advance=advance)
            held.share()
            rows = _pipeline("gold").metric_rows(spark, out, done.present)
    _tell(done)
    if as_json:
        print_json({"metrics": rows})
    else:
        from isotone.cli.pipeline_tables import print_metrics

        print_metrics(results(), rows)
    return 2 if done.problems else 0


@pipeline_commands.command("report")
@click.argument("tables", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="The page (default: DIR/report.html).")
@click.option(
    "--results",
    "committed",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where the results of figures and benches are (default: results/ here, if it is there).",
)
@_master
@json_option
def report_command(*, tables: Path, to: Path | None, committed: Path | None, master: str | None, as_json: bool) -> int:
    """Write one page about the runs in the tables of DIR: verdicts, views over time, latency, throughput, figures.

    \b
    Examples:
      isotone pipeline report tables
      isotone pipeline report tables --to /tmp/report.html --results results
      isotone pipeline report tables --json
    """
    page = _pipeline("report.page")
    if not _pipeline("tables").manifests(tables / _pipeline("stages").VERDICTS):
        raise InputError(f"{tables} has no verdicts: run isotone pipeline run first")
    spark = _pipeline("session").session(master, is_small=True)
    target = to or tables / _REPORT
    with progress_bar("report", total=page.STEPS, in_lines=not as_json) as advance:
        built = page.write_report(spark, tables, target, results=committed, advance=advance)
    if as_json:
        print_json({"page": str(target), "runs": built.runs, "missing": built.missing})
    else:
        click.echo(f"report in {target}")
    return 0


@pipeline_commands.command("sweep")
@click.argument("spec", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="SPEC.toml")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory of the results."
)
@_master
@json_option
def sweep_command(*, spec: Path, out: Path, master: str | None, as_json: bool) -> int:
    """Run simulations as Spark tasks: every combination of what SPEC.toml varies, at every seed.

    What DIR holds already is not run again. A simulation that fails is a row with the command that replays it, and its
    trace is kept in DIR/traces.

    \b
    A file that varies faults and nodes over 200 seeds:
      seeds = "1..200"
      stack = ["oracle", "full"]
      size = ["small"]
      faults = ["all", "none"]
      nodes = ["3", "5..9"]

    \b
    Examples:
      isotone pipeline sweep sweep.toml --out sweep
    """
    from isotone.cli.pipeline_tables import print_swept

    planned = _pipeline("sweep_spec")
    wanted = list(planned.simulations(planned.read_spec(spec)))
    with _pipeline("tables").writing(out):
        spark = _pipeline("session").session(master, is_wide=True)
        with progress_bar("batches", total=None) as advance:
            swept = _pipeline("sweeping").sweep(spark, wanted, out.absolute(), advance=advance)
    if as_json:
        print_json(swept._asdict() | {"failures": [each._asdict() for each in swept.failures]})
    else:
        print_swept(results(), swept)
    code: int = swept.exit_code
    return code


@pipeline_commands.command("figure")
@click.argument("name", type=click.Choice(["flows-10"]), metavar="NAME")
@click.option("--daemons", type=click.IntRange(8), default=32_768, show_default=True, help="The largest system.")
@click.option("--seeds", default="1", show_default=True, help="Such as 1..5; the mean over them is told.")
@click.option("--probes", type=click.IntRange(1), default=12, show_default=True, help="Phases to wait for.")
@_master
@json_option
def figure_command(*, name: str, daemons: int, seeds: str, probes: int, master: str | None, as_json: bool) -> None:
    """Measure a figure of simulations as Spark tasks, one for each point and seed.

    \b
    Examples:
      isotone pipeline figure flows-10 --master local[2]
    """
    from isotone.cli.figure import print_figure
    from isotone.sim.figures.catalogue import Figure, findings_of
    from isotone.sim.swarm import parse_seeds

    spark = _pipeline("session").session(master, is_wide=True)
    measure = _pipeline("flow_figures")
    began = time.monotonic()
    rows = measure.figure_rows(measure.means(measure.phase_sweep(spark, daemons, list(parse_seeds(seeds)), probes)))
    told = {"daemons": daemons, "seeds": seeds, "probes": probes, "took_s": round(time.monotonic() - began)}
    figure = Figure(name, told, rows, findings_of(name, rows))
    if as_json:
        print_json(figure)
    else:
        print_figure(results(), figure)


def _writing(traces: tuple[Path, ...], out: Path) -> AbstractContextManager[Held]:
    """The lock of the tables, before Spark is started; nothing is made where there is no trace."""
    _pipeline("checking").require_traces(traces)
    lock: AbstractContextManager[Held] = _pipeline("tables").writing(out)
    return lock


def _pipeline(name: str) -> Any:
    """A module of the pipeline, or an error that says what to install."""
    from importlib import import_module

    try:
        return import_module(f"isotone.pipeline.{name}")
    except ImportError as error:
        raise MachineError(f"the pipeline needs {error.name}: pip install 'isotone[pipeline]'") from None


def _tell(done: Refreshed) -> None:
    """What could not be read, and what else is to be known of the runs."""
    name_problems(done.problems)
    for note in done.notes:
        click.echo(f"isotone: {note}", err=True)
