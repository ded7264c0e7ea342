"""The tables that commands print: verdicts, failures, what the runs were like."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isotone.sim.summary import Failure, Summary
from isotone.spec.check.layers import ALL_PROPERTIES
from isotone.spec.verdicts import EventId
from isotone.trace.events import Row
from isotone.trace.jsonl import jsonl_line

FAILURES_SHOWN_MAX = 20
WITNESS_SHOWN_MAX = 12


def property_name(label: str) -> str:
    """The short name of the property behind a label."""
    known = ALL_PROPERTIES.get(label.removesuffix("@S"))
    return known.name if known else ""


def verdict_table(properties: Mapping[str, Mapping[str, int]]) -> Table:
    """One line per property: in how many runs it held, broke, or was not put to the test."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("property")
    table.add_column("name", no_wrap=True, overflow="ellipsis")
    for title in ("holds", "violated", "not exercised", "not judged"):
        table.add_column(title, justify="right")
    for label, counts in properties.items():
        violated = counts["violated"]
        table.add_row(
            label,
            property_name(label),
            str(counts["holds"]),
            f"[bold red]{violated}[/]" if violated else "0",
            str(counts["not_exercised"]),
            str(counts["not_judged"]),
        )
    return table


def legend(properties: Mapping[str, Mapping[str, int]]) -> str:
    """What the table's words mean, of those that occur in it."""
    said = ["numbers are runs; docs/glossary.md has the properties in short"]
    if any(label.endswith("@S") for label in properties):
        said.append("@S: the promise among daemons; without it: to clients")
    if any(counts["not_exercised"] for counts in properties.values()):
        said.append("not exercised: nothing happened that could have broken it")
    if any(counts["not_judged"] for counts in properties.values()):
        said.append("not judged: only rows that are missing, or the end of the run, could tell")
    return "\n".join(said)


Rows = Mapping[EventId, Row]


def witness_line(event: EventId, rows: Rows) -> str:
    """An event of a witness: its id, and the row itself where it is known."""
    node, incarnation, index = event
    row = rows.get(event)
    return f"{node}#{incarnation} event {index}" if row is None else jsonl_line(row).decode()


def print_summary(console: Console, summary: Summary, rows: Rows | None = None) -> None:
    """Everything that a swarm or a check found, for people; witnesses are shown in full where their rows are given."""
    if not summary.runs and not summary.failures:
        console.print("nothing was judged")
        return
    console.print(verdict_table(summary.properties))
    console.print(legend(summary.properties), style="dim")
    if summary.distribution:
        console.print()
        console.print(_distribution_table(summary))
    if summary.choices:
        told = ", ".join(f"{name} {count}" for name, count in summary.choices.items())
        console.print(f"\nfree choices taken: {escape(told)}")
    for name, share in summary.bounds.items():
        console.print(f"bound {name}: at most {share:.1%} of it was needed")
    console.print()
    print_failures(console, summary, rows)
    runs = f"{summary.runs} run{'' if summary.runs == 1 else 's'}"
    if summary.violations:
        console.print(f"[bold red]{runs}, {summary.violations} violation{'' if summary.violations == 1 else 's'}[/]")
    elif summary.unjudged:
        of = runs if summary.unjudged == summary.runs else f"{summary.unjudged} of {runs}"
        console.print(f"[bold yellow]nothing could be judged of {of}: rows are missing[/]")
    else:
        console.print(f"[green]{runs}, no violation[/]")


def print_failures(console: Console, summary: Summary, rows: Rows | None = None) -> None:
    """Each failure with its explanation, its witness and the command that shows it again."""
    for failure in summary.failures[:FAILURES_SHOWN_MAX]:
        _print_failure(console, failure, rows or {})
    left = len(summary.failures) - FAILURES_SHOWN_MAX
    if left > 0:
        console.print(f"… and {left} more; --json lists all of them\n")


def _print_failure(console: Console, failure: Failure, rows: Rows) -> None:
    where = f"seed {failure.seed}: " if failure.seed is not None else ""
    console.print(f"[bold red]{where}{failure.property}[/] {property_name(failure.property)}")
    console.print(f"  {escape(failure.explanation)}")
    for event in failure.witness[:WITNESS_SHOWN_MAX]:
        console.print(f"    {escape(witness_line(event, rows))}", soft_wrap=True)
    if len(failure.witness) > WITNESS_SHOWN_MAX:
        console.print(f"    … and {len(failure.witness) - WITNESS_SHOWN_MAX} more events")
    if failure.replay:
        console.print(f"  replay: {escape(failure.replay)}")
    console.print()


def _distribution_table(summary: Summary) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("per run")
    for title in ("least", "median", "most"):
        table.add_column(title, justify="right")
    for name, spread in summary.distribution.items():
        values = (spread.min, spread.median, spread.max)
        table.add_row(name.replace("_", " "), *(_number(value) for value in values))
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
