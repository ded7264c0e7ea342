"""The end of the demo: the pipeline over the record that was just made, its verdicts, and a report of it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from isotone.cli.demo_record import SETTLED
from isotone.cli.output import print_text
from isotone.core.errors import InputError, MachineError
from isotone.sim.summary import Summary

REPORT = "report.html"
LOG = "spark.log"
_MODULES = ("checking", "stages", "report.page")
INSTALL = "pip install 'isotone[pipeline]'"


class NoReportError(Exception):
    """This machine lacks something that the pipeline needs; the text says what."""


def judge_on_spark(directory: Path, say: Callable[[str], object] = print_text) -> Summary:
    """Judge and measure all that the demo recorded on Spark and write the report; each step is told when it is done."""
    try:
        checking, stages, page = (import_module(f"isotone.pipeline.{name}") for name in _MODULES)
    except ImportError as error:
        raise NoReportError(f"{error.name} is not installed ({INSTALL})") from None
    tables = directory / "tables"
    traces = [each for each in (directory / "trace", directory / f"{SETTLED}.jsonl") if each.exists()]
    shutil.rmtree(tables, ignore_errors=True)
    tell = _clock(say)
    try:
        tell("Spark starts, in a Java of its own")
        with _errors_to(directory / LOG):
            spark = checking.session_for(traces, None)
        tell(f"Spark {spark.version} runs")
        done = stages.refresh(spark, traces, tables, advance=tell)
        found: Summary = checking.summary_of(spark, tables, traces, done.present)
        page.write_report(spark, tables, directory / REPORT)
        tell(f"{REPORT} is written")
    except (InputError, MachineError) as error:
        raise NoReportError(str(error)) from None
    return found


def compared(plain: Iterable[Summary], spark: Summary) -> tuple[str, ...]:
    """The properties that the two engines judge differently; the plain one judged one record after the other."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for summary in plain:
        for label, counts in summary.properties.items():
            counted[label].update(counts)
    return tuple(label for label, counts in spark.properties.items() if counted[label] != counts)


def _clock(say: Callable[[str], object]) -> Callable[[str], None]:
    started = time.monotonic()
    return lambda note: (say(f"{time.monotonic() - started:6.1f} s  {note}"), None)[1]


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """What a process that is started meanwhile says of its start goes to a file, not between the lines of the demo."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # it is closed: nothing is disturbed
        yield
        return
    try:
        with suppress(OSError), log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
