"""The end of the demo: the pipeline over the record that was just made, its report, and the bank's money on Spark."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from isotone.cli.demo_bank import ARCHIVE, TABLE, TOGETHER, Balances, archived, described
from isotone.cli.demo_record import SETTLED
from isotone.cli.output import print_text
from isotone.core.errors import InputError, MachineError
from isotone.sim.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = "report.html"
LOG = "spark.log"
_MODULES = ("checking", "stages", "report.page")
INSTALL = "pip install 'isotone[pipeline]'"


class NoReportError(Exception):
    """This machine lacks something that the pipeline needs; the text says what."""


class Counted(NamedTuple):
    """What Spark says of the bank, and whether it is as it should be."""

    told: str
    is_right: bool


def judge_on_spark(directory: Path, say: Callable[[str], object] = print_text) -> tuple[Summary, Counted]:
    """Judge and measure all that the demo recorded on Spark, write the report and count the bank's money.

    Each step is told when it is done.
    """
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
        counted = count_money(spark, directory)
        tell("the accounts are added up")
    except (InputError, MachineError) as error:
        raise NoReportError(str(error)) from None
    return found, counted


def count_money(spark: SparkSession, directory: Path) -> Counted:
    """The total of all accounts at every position of the bank's log, and the accounts at its end."""
    from isotone.pipeline.log.databases import row_changes, rows_as_of, table_of_rows, tables_in
    from isotone.pipeline.log.source import register
    from isotone.pipeline.log.totals import totals
    from isotone.replicated.database.change_log import FOLDER

    read = archived(directory)
    register(spark)
    log = spark.read.format("isotone").option("archive", str(directory / ARCHIVE / FOLDER)).load()
    changes = row_changes(log).persist()
    moved = totals(changes, TABLE, "balance").orderBy("position").collect()
    rows = rows_as_of(changes)
    ((database, form, _),) = tables_in(rows)
    accounts = {row["owner"]: row["balance"] for row in table_of_rows(rows, database, form).orderBy("owner").collect()}
    changes.unpersist()
    return counted([(row["position"], row["total"]) for row in moved], accounts, read)


def counted(totals: Sequence[tuple[int, int]], accounts: Balances, read: Balances) -> Counted:
    """Positions with their totals, in order; the accounts at the last, on Spark and as the tellers read them."""
    told = f"the bank on Spark at position {totals[-1][0]}: {described(accounts)}"
    if accounts != read:
        return Counted(f"{told}; WRONG: the tellers read {described(read)}", is_right=False)
    for position, total in totals:
        if total != TOGETHER:
            return Counted(f"{told}; WRONG: {total} at position {position}", is_right=False)
    moves = f"{len(totals)} positions that moved money, from {totals[0][0]} on"
    return Counted(f"{told}; {TOGETHER} at each of the {moves}", is_right=True)


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
