"""``isotone sim``: random clusters in virtual time, judged by every property that applies."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from isotone.cli.command_group import CommandGroup
from isotone.cli.output import json_option, print_json, print_text, progress_bar, results
from isotone.cli.tables import print_summary
from isotone.core.errors import InputError, MachineError
from isotone.sim.plan import Plan, Size
from isotone.sim.registry import SYSTEMS, system_named
from isotone.sim.replay import is_seed, plan_of, replay, write_plan
from isotone.sim.run import RunResult
from isotone.sim.shrink import RUNS_MAX, ShrinkState, shrink
from isotone.sim.stack_journal import JournalReplay, is_journal, replay_journal
from isotone.sim.summary import Summary, summarise
from isotone.sim.swarm import default_workers, parse_seeds, replay_command, run_swarm, summarise_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.trace.events import Row
from isotone.trace.jsonl import write_jsonl
from isotone.trace.layout import JSONL_SUFFIX, PARQUET_SUFFIX
from isotone.trace.parquet import require_pyarrow, write_parquet

SHRUNK_DIRECTORY = Path("shrunk")
SHRUNK_SEEDS_MAX = 5
TRACE_FORMATS: Mapping[str, Callable[[Path, str, Sequence[Row]], None]] = {
    JSONL_SUFFIX: write_jsonl,
    PARQUET_SUFFIX: write_parquet,
}

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(
    "sim",
    cls=CommandGroup,
    lazy={"figure": "isotone.cli.figure:figure_command", "trace": "isotone.cli.sim_trace:trace_command"},
)
def sim_commands() -> None:
    """Run simulated clusters: many seeds at once, or one again.

    \b
    Examples:
      isotone sim swarm --seeds 1..50 --stack full
      isotone sim replay 17 --trace run17.jsonl
      isotone sim figure spread-figure-5.4
    """


def setting_options(command: Command) -> Command:
    """The options that shape a run besides its seed."""
    usual = Setting()
    stacks = "; ".join(f"of {name}: {', '.join(system.stacks)}" for name, system in SYSTEMS.items())
    for option in (
        click.option("--size", type=click.Choice([size.value for size in Size]), help="How much happens in a run."),
        click.option("--faults", metavar="all|none|NAME,…", help="Which faults; all: every one that the stack bears."),
        click.option("--nodes", metavar="N|N..M", help="How many nodes; the usual number when left out."),
        click.option(
            "--stack", "--local", "stack", metavar="NAME", help=f"What it runs on, {stacks} (default: the first)."
        ),
        click.option("--system", metavar="NAME", help=f"Which system: {', '.join(SYSTEMS)} (default: {usual.system})."),
    ):
        command = option(command)
    return command


def setting_from(chosen: dict[str, Any]) -> Setting:
    """The setting of a run from the options given; what was left out stays as usual."""
    given = {name: value for name, value in chosen.items() if value is not None}
    if "size" in given:
        given["size"] = Size(given["size"])
    given.setdefault("stack", system_named(given.get("system", Setting().system)).stacks[0])
    return Setting(**given)


shrink_options = (
    click.option("--shrink", "shrinks", is_flag=True, help="Shrink failing plans and write them to files."),
    click.option(
        "--shrink-to",
        type=click.Path(path_type=Path, file_okay=False),
        default=SHRUNK_DIRECTORY,
        show_default=True,
        help="The directory for shrunk plans.",
    ),
    click.option(
        "--shrink-runs", type=click.IntRange(1), default=RUNS_MAX, show_default=True, help="Runs per failure."
    ),
)


def with_shrink_options(command: Command) -> Command:
    """The options of the shrinker."""
    for option in reversed(shrink_options):
        command = option(command)
    return command


# --- swarm ---------------------------------------------------------------------------------------------------------


@sim_commands.command("swarm")
@click.option("--seeds", default="1..20", show_default=True, metavar="N|N..M", help="Which seeds, both ends included.")
@setting_options
@click.option("--workers", type=click.IntRange(1), default=None, help="Processes; one for each core when left out.")
@with_shrink_options
@json_option
def swarm_command(
    *, seeds: str, workers: int | None, shrinks: bool, shrink_to: Path, shrink_runs: int, as_json: bool, **chosen: Any
) -> int:
    """Run one cluster per seed and judge every property that applies.

    A run plays a random workload through random faults, then heals everything and demands that the system becomes
    live. What a seed finds is the same on every machine and with any number of workers.

    \b
    Examples:
      isotone sim swarm --seeds 1..200
      isotone sim swarm --seeds 7 --size small --nodes 3 --faults partition,crash
      isotone sim swarm --seeds 1..2000 --json > swarm.json
    """
    setting = setting_from(chosen)
    wanted = parse_seeds(seeds)
    with swarm_progress(setting, wanted) as heard:
        found = run_swarm(setting, wanted, workers=workers or default_workers(), progress=heard)
    summary = summarise_swarm(setting, found)
    if shrinks:
        summary = _shrink_failures(setting, found, summary, shrink_to, shrink_runs)
    return show_summary(summary, as_json=as_json)


@contextmanager
def swarm_progress(setting: Setting, seeds: range) -> Iterator[Callable[[RunResult], None]]:
    """A bar that counts runs and violations."""
    violations = 0

    with progress_bar(f"{setting.system} on {setting.stack}", len(seeds)) as advance:

        def heard(result: RunResult) -> None:
            nonlocal violations
            violations += len(result.violations)
            advance(f"{violations} violations" if violations else "")

        yield heard


def show_summary(summary: Summary, *, as_json: bool, rows: Sequence[Row] = ()) -> int:
    if as_json:
        print_json(summary)
    else:
        print_summary(results(), summary, {(row.node, row.incarnation, row.index): row for row in rows})
    return summary.exit_code


# --- shrink --------------------------------------------------------------------------------------------------------


def _shrink_failures(
    setting: Setting, found: list[RunResult], summary: Summary, directory: Path, runs_max: int
) -> Summary:
    """Shrink the first violation of the first failing seeds; their replay commands then name the files."""
    replays: dict[int, str] = {}
    system = system_named(setting.system)
    for result in [result for result in found if result.violations][:SHRUNK_SEEDS_MAX]:
        label = result.violations[0].property
        path = shrink_to_file(draw_plan(system, setting, result.seed), label, directory, runs_max)
        replays[result.seed] = replay_file_command(path)
    renamed = tuple(
        msgspec.structs.replace(failure, replay=replays.get(failure.seed, failure.replay))
        if failure.seed is not None
        else failure
        for failure in summary.failures
    )
    return msgspec.structs.replace(summary, failures=renamed)


def shrink_to_file(plan: Plan, label: str, directory: Path, runs_max: int) -> Path:
    """Shrink a failing plan, say how far it went, and write what is left."""
    with progress_bar(f"shrinking seed {plan.seed}", runs_max) as advance:

        def heard(state: ShrinkState) -> None:
            advance(f"{len(state.plan.faults)} faults, {len(state.plan.steps)} steps")

        shrunk = shrink(system_named(plan.system), plan, label, runs_max=runs_max, progress=heard)
    path = directory / f"{plan.system}-{plan.stack}-{plan.seed}-{label}.json"
    write_plan(path, shrunk)
    click.echo(
        f"seed {plan.seed}, {label}: {len(plan.faults)} faults and {len(plan.steps)} steps shrunk to "
        f"{len(shrunk.faults)} and {len(shrunk.steps)}: {path}",
        err=True,
    )
    return path


# --- replay --------------------------------------------------------------------------------------------------------


@sim_commands.command("replay")
@click.argument("target", metavar="SEED|FILE")
@setting_options
@click.option(
    "--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write the trace here: .jsonl or .parquet."
)
@with_shrink_options
@json_option
def replay_run(
    *,
    target: str,
    trace: Path | None,
    shrinks: bool,
    shrink_to: Path,
    shrink_runs: int,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Run one seed, or the plan in a file, and show what was found; or replay the journal of a daemon.

    A seed needs the same options as in the swarm; a file holds everything. A journal is handed to the daemon's stack
    again, and what that does is compared with what it did, byte for byte.

    \b
    Examples:
      isotone sim replay 17
      isotone sim replay 17 --size small --trace run17.jsonl
      isotone sim replay shrunk/evs-oracle-17-EVS-2.7.json
      isotone sim replay /var/lib/isotone/journal/d1-7.journal
    """
    setting = setting_from(chosen)
    if is_journal(Path(target)):
        return show_journal(replay_journal(Path(target)), as_json=as_json)
    write = None if trace is None else trace_writer(trace)
    plan = plan_of(target, setting)
    if not is_seed(target) and any(value is not None for value in chosen.values()):
        raise InputError(f"{target} holds the whole plan; leave out --system, --stack, --nodes, --faults and --size")
    command = replay_command(setting, plan.seed) if is_seed(target) else replay_file_command(target)
    rows: list[Row] = []
    result = replay(plan, sink=rows.append)
    if write is not None:
        write(f"{plan.system}-{plan.stack}-{plan.seed}", rows)
    if shrinks and result.violations:
        path = shrink_to_file(plan, result.violations[0].property, shrink_to, shrink_runs)
        command = replay_file_command(path)
    summary = summarise([result], {result.seed: command})
    if plan.violates and not as_json:
        print_text(f"the plan was shrunk for {plan.violates}\n")
    return show_summary(summary, as_json=as_json, rows=rows)


def show_journal(found: JournalReplay, *, as_json: bool) -> int:
    """What the replay of a journal found."""
    if as_json:
        print_json(found)
    else:
        same = f"the same actions as far as {found.compared} events were compared"
        verdict = same if found.differs_at is None else f"OTHER actions by event {found.differs_at}"
        print_text(f"{found.daemon}: {found.events} events, {verdict}; digest {found.digest}\n")
        if found.torn:
            print_text(f"the journal is not whole: {found.torn}\n")
    return found.exit_code


def trace_writer(path: Path) -> Callable[[str, Sequence[Row]], None]:
    """Writes a run with its rows in the format that the file's name asks for, which this machine must be able to."""
    if path.suffix not in TRACE_FORMATS:
        known = " or ".join(TRACE_FORMATS)
        raise click.BadParameter(f"{str(path)!r} must end in {known}.", param_hint="'--trace'")
    if path.suffix == PARQUET_SUFFIX:
        require_pyarrow()

    def write(run: str, rows: Sequence[Row]) -> None:
        try:
            TRACE_FORMATS[path.suffix](path, run, rows)
        except OSError as error:
            raise MachineError(f"cannot write {path}: {error.strerror or error}") from error

    return write


def replay_file_command(path: Path | str) -> str:
    """What to type to see the plan of a file again."""
    return shlex.join(["isotone", "sim", "replay", str(path)])
