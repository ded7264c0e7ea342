"""The report: one page from gold, whole in itself, for a browser without network and without scripts.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from isotone import __version__
from isotone.core.errors import InputError, MachineError
from isotone.pipeline.gold import metric_rows, timeline_rows
from isotone.pipeline.report.exhibits import exhibits
from isotone.pipeline.report.markup import card, figure, page, run_name, section, text
from isotone.pipeline.report.measures import latency_section, other_section, throughput_section
from isotone.pipeline.report.tally import Tally, tallied
from isotone.pipeline.report.verdicts import verdict_section
from isotone.pipeline.report.views import DRAWN, OF_GROUPS, Lanes, lanes, moments_of, picture
from isotone.pipeline.stages import TIMELINE, unfinished
from isotone.pipeline.tables import manifests, read_table, reading
from isotone.spec.verdicts import State

RESULTS = Path("results")
STEPS = 3
"""How often a report says what it is at."""
LINKS = (
    ("views", "What happened"),
    ("verdicts", "Verdicts"),
    ("latency", "Latency"),
    ("throughput", "Throughput"),
    ("measures", "Other measures"),
    ("thesis", "Tables and figures"),
)
Rows = Sequence[dict[str, Any]]
Advance = Callable[[str], None]


class Built(NamedTuple):
    """The page as text, how many runs it is about, and which tables and figures of the thesis have no result."""

    markup: str
    runs: int
    missing: tuple[str, ...]


def write_report(
    spark: SparkSession,
    tables: Path,
    target: Path,
    *,
    results: Path | None = None,
    advance: Advance = lambda note: None,
) -> Built:
    """Read the gold tables and write the page; what was there is replaced by a rename."""
    with reading(tables):
        tally = tallied(spark, tables)
        if tally is None:
            raise InputError(f"{tables} has no verdicts: run isotone pipeline run first")
        advance(f"verdicts of {len(tally.runs)} runs read")
        metrics = metric_rows(spark, tables, tally.drawn)
        timeline = timeline_rows(spark, tables, tally.drawn, where=_is_drawn(spark, tables, tally.drawn))
        advance(f"metrics and views of {len(tally.drawn)} runs read")
        left = unfinished(tables)
    committed = results or (RESULTS if RESULTS.is_dir() else None)
    built = build(tally, metrics, timeline, committed, left)
    _replace(target, built.markup)
    advance("page written")
    return built


def _is_drawn(spark: SparkSession, tables: Path, runs: Sequence[str]) -> Column:
    """Of the timeline no more than is drawn: views of groups only of runs that have none of daemons."""
    kind, measured = F.col("kind"), [run for run in runs if run in manifests(tables / TIMELINE)]
    if not measured:
        return kind.isin(*DRAWN)
    of_daemons = read_table(spark, tables / TIMELINE, measured).where(kind == "sview").select("run").distinct()
    others = set(measured).difference(row["run"] for row in of_daemons.collect())
    return kind.isin(*DRAWN) | (kind.isin(*OF_GROUPS) & F.col("run").isin(*sorted(others)))


def _replace(target: Path, told: str) -> None:
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(told, encoding="utf-8")
        os.replace(aside, target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise MachineError(f"cannot write {target}: {error.strerror}") from None


def build(
    tally: Tally, metrics: Rows, timeline: Rows, results: Path | None, unfinished_runs: Sequence[str] = ()
) -> Built:
    """The page, from what was read."""
    runs, drawn = tally.runs, tally.drawn
    shown = exhibits(results)
    parts = [
        _unfinished(unfinished_runs),
        _cards(tally, timeline),
        _views(drawn, timeline, len(runs)),
        verdict_section(tally),
        latency_section(drawn, metrics),
        throughput_section(drawn, metrics),
        other_section(drawn, metrics),
        '<h2 id="thesis" style="margin:34px 0 0">The thesis’ tables and figures, from our own runs</h2>',
        shown.markup,
    ]
    names = ", ".join(map(run_name, runs[:4])) + (f" and {len(runs) - 4} more" if len(runs) > 4 else "")
    foot = f"isotone {text(__version__)}. Clocks are set side by side for display only; no verdict uses them."
    title = "Isotone: what happened, and whether it was right"
    return Built(page(title, f"Runs: {names}", LINKS, "".join(parts), foot), len(runs), shown.missing)


def _unfinished(runs: Sequence[str]) -> str:
    if not runs:
        return ""
    told = f"{len(runs)} runs have rows that are not judged and measured yet: run isotone pipeline run again."
    return f'<p class="note">{told}</p>'


def _cards(tally: Tally, timeline: Rows) -> str:
    broken = tally.count(State.VIOLATED)
    nodes = len({(row["run"], row["node"]) for row in timeline if row["node"]})
    cards = [
        card(str(len(tally.runs)), "runs judged"),
        card(str(broken), "properties violated", "bad" if broken else "good"),
        card(str(tally.count(State.HOLDS)), "verdicts hold"),
        card(str(tally.count(State.NOT_EXERCISED, State.NOT_JUDGED)), "not exercised or not judged"),
        card(f"{nodes}", "nodes drawn"),
        card(f"{tally.messages['sent']:,}", "messages sent by clients"),
        card(f"{tally.messages['delivered']:,}", "deliveries to clients"),
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _views(runs: Sequence[str], timeline: Rows, count: int) -> str:
    body = (
        '<p class="note">A lane for each node, a bar for each view that it was in; one colour is one view, the number '
        "of its members in brackets. Where colours part, the network was partitioned.</p>"
    )
    for place, run in enumerate(runs):
        shown = lanes([row for row in timeline if row["run"] == run])
        if shown.bars:
            body += f"<h3>{text(run_name(run))}</h3>"
            left = f" Not drawn: {shown.left}." if shown.left else ""
            caption = f"Views of {shown.of} in run {run_name(run)}.{left}"
            body += figure(f"views-{place}", picture(f"views-{place}", shown), caption) + _sentences(shown)
        else:
            body += f"<h3>{text(run_name(run))}</h3><p>No view was installed.</p>"
    if count > len(runs):
        body += f'<p class="note">{count - len(runs)} more runs are in the tables.</p>'
    return section("views", "What happened", body)


def _sentences(shown: Lanes) -> str:
    """The same in words, folded: who was in which view from when on, crashes, starts, injected faults."""
    told = moments_of(shown)
    lines = "".join(f"<tr><td class='n'>{moment:.3f} s</td><td>{text(what)}</td></tr>" for moment, what in told)
    return f"<details><summary>In words: {len(told)} moments</summary><table>{lines}</table></details>" if told else ""
