"""Causal order, where the survey cannot vouch for it: by stamps again, the rest by the fold of the plain checkers.

The causal past of a send is a vector over all senders, closed over chains of messages as long as the run, and the
witness needs its heights; joins and windows reach it only round by round. But stamps grow along causality, and where
they do in the rows that are there, windows tell whether anything can be broken at all
(`isotone.pipeline.conformance.overtaking`). Of a run that lost rows nothing more is asked. Of others, whether there was
a chance to break it: so where a process delivers a causal message behind an earlier one of its sender. The runs that
are left are read in order of time. A task holds what the checkers hold, not the run.

Implements: [Spread 2.12.2]. Deviations: as a stream through one task goes a run whose stamps do not grow along
causality, or in which a process delivers something that a causal message before may have known of; and one without
losses whose causal messages are each the first of their senders at their receivers, for the chance to break it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.core.services import Service
from isotone.pipeline.conformance.lives import CLIENT_KINDS, DAEMON_KINDS
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.orders import along_senders, follows
from isotone.pipeline.conformance.overtaking import doubted_runs
from isotone.pipeline.conformance.terms import CAUSAL, CLIENTS, DAEMONS, SIDE, kept
from isotone.pipeline.schema import WITNESS
from isotone.spec.check import Checker, Report, State
from isotone.spec.properties import BY_ID, Boundary
from isotone.trace.columns import entry_of
from isotone.trace.events import Row
from isotone.trace.parquet import require_pyarrow

_ID = "EVS-2.12.2"
_SIDES = {Boundary.CLIENTS: CLIENTS, Boundary.DAEMONS: DAEMONS}
_KINDS = (*CLIENT_KINDS, *DAEMON_KINDS, "crash", "gap", "truncated")
_COLUMNS = (
    "run", "node", "incarnation", "index", "at", "kind", "clients", "groups", "service", "sender", "first", "count",
    "stamp", "view", "members", "transitional", "lost", "reason",
)  # fmt: skip
_FOUND = f"run string, boundary int, witness {WITNESS}, is_unknown boolean"


class Sorted(NamedTuple):
    """Runs to read in order, and sides of others on which the order holds and could have been broken."""

    streamed: DataFrame
    exercised: DataFrame


def causal_order(n: Normal) -> DataFrame:
    """2.12.2: after a causal message nothing that precedes it."""
    return told_of(n.rows, sort_runs(n))


def told_of(rows: DataFrame, runs: Sorted) -> DataFrame:
    """What is found, given which runs are to be read in order."""
    blank = {"witness": F.lit(None).cast(WITNESS), "is_unknown": F.lit(False)}
    return runs.exercised.withColumns(blank).unionByName(_read_in_order(rows, runs.streamed))


def sort_runs(n: Normal) -> Sorted:
    """Which runs stamps clear, and which they do not."""
    doubted = doubted_runs(n.rows)
    whole = n.runs.where("NOT is_lossy").select("run")
    clear = kept(whole.join(F.broadcast(doubted), on="run", how="left_anti"))
    if clear.isEmpty():
        return Sorted(doubted, n.rows.select("run", F.lit(CLIENTS).alias("boundary")).where(F.lit(False)))
    chances = kept(_chances(n).join(F.broadcast(clear), on="run", how="left_semi"))
    unsure = chances.where("NOT is_exercised").select("run").distinct()
    exercised = chances.join(F.broadcast(unsure), on="run", how="left_anti").select(*SIDE)
    return Sorted(kept(doubted.unionByName(unsure)), exercised)


def _chances(n: Normal) -> DataFrame:
    """Sides with causal messages; whether one of them came behind an earlier message of its sender."""
    causal = along_senders(n).where(F.col("service") >= CAUSAL)
    return causal.groupBy(*SIDE).agg(F.bool_or(follows()).alias("is_exercised"))


def _read_in_order(rows: DataFrame, runs: DataFrame) -> DataFrame:
    """Of these runs the verdicts of the plain checkers, a task for each run."""
    order = Window.partitionBy("run", "node").orderBy("incarnation", "index")
    mine = rows.where(F.col("kind").isin(*_KINDS)).select(*_COLUMNS).join(F.broadcast(runs), on="run", how="left_semi")
    timed = mine.withColumn("at", F.max("at").over(order))
    streams = timed.repartition("run").sortWithinPartitions("run", "at", "node", "incarnation", "index")
    return streams.mapInArrow(judge_streams, _FOUND)


def judge_streams(batches: Iterable[Any]) -> Iterator[Any]:
    """In a task: runs one behind the other, each in order of time."""
    run, checker = None, Checker(tuple(_SIDES))
    for batch in batches:
        for row in batch.to_pylist():
            if row["run"] != run:
                if run is not None:
                    yield _told(run, checker.finish())
                run, checker = row["run"], Checker(tuple(_SIDES))
            checker.feed(_row(row))
    if run is not None:
        yield _told(run, checker.finish())


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


def _told(run: str, report: Report) -> Any:
    arrow = require_pyarrow()
    found = []
    for boundary, side in _SIDES.items():
        verdict = report.verdicts[BY_ID[_ID].label(boundary)]
        if verdict.state is not State.NOT_EXERCISED:
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
