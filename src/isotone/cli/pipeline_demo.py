"""The end of the demo: the pipeline over the record that was just made, and a report of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from isotone.cli.output import progress_bar
from isotone.core.errors import MachineError
from isotone.sim.summary import Summary


def report_on(directory: Path, summary: Summary) -> str:
    """Judge and measure the demo's trace on Spark, write ``report.html``, and say how that went.

    ``summary`` is what the plain checkers found; that both engines found the same is part of what is shown.
    """
    try:
        from isotone.pipeline import checking, stages
        from isotone.pipeline.report.page import write_report
    except ImportError as error:
        return f"no report: {error.name} is not installed (pip install 'isotone[pipeline]')"
    tables, traces, target = directory / "tables", [directory / "trace"], directory / "report.html"
    shutil.rmtree(tables, ignore_errors=True)
    try:
        with progress_bar("pipeline", total=stages.STEPS + 2) as advance:
            spark = checking.session_for(traces, None)
            advance("Spark has started")
            stages.refresh(spark, traces, tables, advance=advance)
            found = checking.summary_of(spark, tables, traces)
            write_report(spark, tables, target)
            advance("told")
    except MachineError as error:
        return f"no report: {error}"
    return f"{_compared(summary, found)}\nreport: {target}"


def _compared(plain: Summary, spark: Summary) -> str:
    differing = [label for label, counts in spark.properties.items() if plain.properties.get(label) != counts]
    if differing:
        return f"Spark judges otherwise: {', '.join(differing)}"
    return f"the pipeline on Spark judges the same in all {len(spark.properties)} properties that it has"
