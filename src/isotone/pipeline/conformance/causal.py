"""Causal order, where the survey cannot vouch for it: by stamps again, the rest by the fold of the plain checkers.

The causal past of a send is a vector over all senders, closed over chains of messages as long as the run, and the
witness needs its heights; joins and windows reach it only round by round. But stamps grow along causality, and where
they do in the rows that are there, windows tell whether anything can be broken at all
(`isotone.pipeline.conformance.overtaking`), and within which stretches of stamps. Of a run that lost rows nothing more
is asked. Of others, whether there was a chance to break it: so where a process delivers a causal message behind an
earlier one of its sender. What is left is read in order of time: the messages of a stretch, or the run. A task holds
what the checkers hold, not all that it reads.

Implements: [Spread 2.12.2]. Deviations: as one stream through one task goes a run whose stamps do not grow along
causality, or whose rows do not agree about a bundle; a stretch in which a process delivers something that a causal
message before may have known of; and a run without losses whose causal messages are each the first of their senders at
their receivers, for the chance to break it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.core.services import Service
from isotone.pipeline.conformance.lives import CLIENT_KINDS, DAEMON_KINDS
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.orders import along_senders, follows
from isotone.pipeline.conformance.overtaking import doubts
from isotone.pipeline.conformance.terms import CAUSAL, CLIENTS, DAEMONS, SIDE, kept
from isotone.pipeline.schema import WITNESS
from isotone.spec.check import Checker, Report, State
from isotone.spec.properties import BY_ID, Boundary
from isotone.trace.columns import entry_of
from isotone.trace.events import Gap, Row
from isotone.trace.parquet import require_pyarrow

_ID = "EVS-2.12.2"
_SIDES = {Boundary.CLIENTS: CLIENTS, Boundary.DAEMONS: DAEMONS}
_KINDS = (*CLIENT_KINDS, *DAEMON_KINDS, "crash", "gap", "truncated")
_COLUMNS = (
    "run", "node", "incarnation", "index", "at", "kind", "clients", "groups", "service", "sender", "first", "count",
    "stamp", "view", "members", "transitional", "lost", "reason",
)  # fmt: skip
_MESSAGES = ("send", "deliver", "ssend", "sdeliver")
WHOLE = 0
"""Instead of the number of a stretch."""
_UNBROKEN = tuple(state for state in State if state is not State.VIOLATED)
_FOUND = f"run string, boundary int, witness {WITNESS}, is_unknown boolean"


class Sorted(NamedTuple):
    """Runs to read in order as a whole, stretches of others, and where the order could have been broken in these."""

    whole: DataFrame
    stretches: DataFrame | None
    exercised: DataFrame


def causal_order(n: Normal) -> DataFrame:
    """2.12.2: after a causal message nothing that precedes it."""
    return told_of(n.rows, sort_runs(n))


def told_of(rows: DataFrame, runs: Sorted) -> DataFrame:
    """What is found, given what is to be read in order."""
    blank = {"witness": F.lit(None).cast(WITNESS), "is_unknown": F.lit(False)}
    found = runs.exercised.withColumns(blank).unionByName(_read_in_order(rows, runs))
    return found.groupBy(*SIDE).agg(F.min("witness").alias("witness"), F.max("is_unknown").alias("is_unknown"))


def sort_runs(n: Normal) -> Sorted:
    """What stamps clear, and what they do not."""
    unruly, stretches = doubts(n.rows)
    clear = n.runs.where("NOT is_lossy").select("run").join(F.broadcast(unruly), on="run", how="left_anti")
    clear = kept(clear)
    if clear.isEmpty():
        return Sorted(unruly, stretches, n.rows.select("run", F.lit(CLIENTS).alias("boundary")).where(F.lit(False)))
    chances = kept(_chances(n).join(F.broadcast(clear), on="run", how="left_semi"))
    unsure = chances.where("NOT is_exercised").select("run").distinct()
    exercised = chances.join(F.broadcast(unsure), on="run", how="left_anti").select(*SIDE)
    if stretches is not None:
        stretches = stretches.join(F.broadcast(unsure), on="run", how="left_anti")
    return Sorted(kept(unruly.unionByName(unsure)), stretches, exercised)


def _chances(n: Normal) -> DataFrame:
    """Sides with causal messages; whether one of them came behind an earlier message of its sender."""
    causal = along_senders(n).where(F.col("service") >= CAUSAL)
    return causal.groupBy(*SIDE).agg(F.bool_or(follows()).alias("is_exercised"))


def _read_in_order(rows: DataFrame, runs: Sorted) -> DataFrame:
    """The verdicts of the plain checkers, in a task for each run and each stretch."""
    some = rows.where(F.col("kind").isin(*_KINDS)).select(*_COLUMNS)
    told = some.join(F.broadcast(runs.whole), on="run", how="left_semi").withColumn("stretch", F.lit(WHOLE))
    if runs.stretches is not None:
        told = told.unionByName(rows_of_stretches(some, runs.stretches))
    order = Window.partitionBy("run", "stretch", "node").orderBy("incarnation", "index")
    timed = told.withColumn("at", F.max("at").over(order))
    key = ("run", "stretch")
    streams = timed.repartition(*key).sortWithinPartitions(*key, "at", "node", "incarnation", "index")
    return streams.mapInArrow(judge_streams, _FOUND)


def rows_of_stretches(rows: DataFrame, stretches: DataFrame) -> DataFrame:
    """The messages of the stretches, each beside all that is no message; one number for stretch and boundary."""
    kind = F.col("kind")
    is_send = kind.isin("send", "ssend")
    number = (2 * F.col("stretch") + F.col("boundary")).alias("stretch")
    said = rows.where(kind.isin(*_MESSAGES)).select(
        *_COLUMNS,
        F.when(kind.isin("send", "deliver"), CLIENTS).otherwise(DAEMONS).alias("boundary"),
        F.when(is_send, F.get("clients", F.lit(0))).otherwise(F.col("sender")).alias("_sender"),
    )
    wanted = stretches.withColumnRenamed("sender", "_sender")
    mine = said.join(wanted, on=[*SIDE, "_sender", "first"], how="inner").select(*_COLUMNS, number)
    numbers = F.broadcast(stretches.select("run", number).distinct())
    rest = rows.where(kind.isin(*_KINDS) & ~kind.isin(*_MESSAGES)).select(*_COLUMNS)
    return mine.unionByName(rest.join(numbers, on="run", how="inner"))


def judge_streams(batches: Iterable[Any]) -> Iterator[Any]:
    """In a task: runs and stretches one behind the other, each in order of time."""
    stream: _Stream | None = None
    for batch in batches:
        for row in batch.to_pylist():
            if stream is None or (row["run"], row["stretch"]) != (stream.run, stream.stretch):
                if stream is not None:
                    yield stream.told()
                stream = _Stream(row["run"], row["stretch"])
            stream.feed(_row(row))
    if stream is not None:
        yield stream.told()


class _Stream:
    """A run or a stretch of one. A stretch is as a run that lost the rest: nobody waits for that."""

    def __init__(self, run: str, stretch: int) -> None:
        self.run = run
        self.stretch = stretch
        self._checker = Checker(tuple(_SIDES))
        self._records: set[tuple[str, int]] = set()

    def feed(self, row: Row) -> None:
        record = (row.node, row.incarnation)
        if self.stretch != WHOLE and record not in self._records:
            self._records.add(record)
            self._checker.feed(Row(*record, -1, row.at, Gap(1)))
        self._checker.feed(row)

    def told(self) -> Any:
        """What is found; of a stretch only what is broken."""
        report = self._checker.finish()
        return _told(self.run, report, (State.NOT_EXERCISED,) if self.stretch == WHOLE else _UNBROKEN)


def _row(told: dict[str, Any]) -> Row:
    nothing = [0] * max(told["count"] or 0, 0)  # what was in a message is another property's matter
    stamp = told["stamp"] or {"lamport": 0, "name": "", "incarnation": 0}
    columns = {
        **{name: told[name] for name in ("kind", "clients", "groups", "sender", "members", "transitional", "reason")},
        "service": None if told["service"] is None else Service(told["service"]).name,
        "first_sequence": told["first"],
        "lengths": nothing,
        "digests": nothing,
        "lamport": stamp["lamport"],
        "stamper": _daemon(stamp),
        "view": None if told["view"] is None else _view(told["view"]),
        "cause": "network",
        "subject": "",
        "extra": f'{{"lost": {told["lost"] or 0}}}',
    }
    return Row(told["node"], told["incarnation"], told["index"], told["at"], entry_of(columns))


def _daemon(told: dict[str, Any]) -> str:
    return f"{told['name']}#{told['incarnation']}"


def _view(told: dict[str, Any]) -> dict[str, Any]:
    here, following, stamp = told["daemon_view"], told["next_daemon_view"], told["stamp"]
    return {
        "epoch": here["epoch"], "coordinator": _daemon(here),
        "next_epoch": following["epoch"], "next_coordinator": _daemon(following),
        "lamport": stamp["lamport"], "stamper": _daemon(stamp),
    }  # fmt: skip


def _told(run: str, report: Report, unsaid: Collection[State]) -> Any:
    arrow = require_pyarrow()
    found = []
    for boundary, side in _SIDES.items():
        verdict = report.verdicts[BY_ID[_ID].label(boundary)]
        if verdict.state not in unsaid:
            events = verdict.violation.witness if verdict.violation else None
            told = events and [dict(zip(("node", "incarnation", "index"), each, strict=True)) for each in events]
            is_unknown = verdict.state is State.NOT_JUDGED
            found.append({"run": run, "boundary": side, "witness": told, "is_unknown": is_unknown})
    place = arrow.struct([("node", arrow.string()), ("incarnation", arrow.int64()), ("index", arrow.int64())])
    form = arrow.schema([
        ("run", arrow.string()), ("boundary", arrow.int32()), ("witness", arrow.list_(place)),
        ("is_unknown", arrow.bool_()),
    ])  # fmt: skip
    return arrow.RecordBatch.from_pylist(found, schema=form)
