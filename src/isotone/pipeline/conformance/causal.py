"""Causal order, where the survey cannot vouch for it: the run as one stream, through the fold of the plain checkers.

The causal past of a send is a vector over all senders, closed over chains of messages as long as the run, and the
witness needs its heights; joins and windows reach it only round by round. The survey proves the property by stamps:
they grow along causality, so nothing is wrong where no node delivers anything below a causal message, or below what the
sender of one knew (`isotone.pipeline.conformance.survey.past`). The runs that are left are read in order of time. A
task holds what the checkers hold, not the run.

Implements: [Spread 2.12.2]. Deviations: a run that the survey cannot clear goes through one task, as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.core.services import Service
from isotone.pipeline.conformance.lives import CLIENT_KINDS, DAEMON_KINDS
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS
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


def causal_order(n: Normal) -> DataFrame:
    """2.12.2: after a causal message nothing that precedes it."""
    order = Window.partitionBy("run", "node").orderBy("incarnation", "index")
    rows = n.rows.where(F.col("kind").isin(*_KINDS)).select(*_COLUMNS)
    timed = rows.withColumn("at", F.max("at").over(order))
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
