"""Deliveries that wait for each other's sends in a circle, which no run can make.

A node stamps above all that it has delivered, so along a circle some send has a stamp that is not above what its node
had delivered before it. Where no send is like that there is no circle, and nothing more is looked at. Else the rows
whose stamps lie between such a send's and what came before it are put into order as the plain checkers do. Such
stretches that overlap are one: stamps grow along a circle but for sends like that, so it cannot lead from one stretch
to another that lies above or below.

Implements: [Spread 2.6], "a send precedes its deliveries". Deviations: the rows of a stretch come together in a task.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import BUNDLE, few, no_findings
from isotone.pipeline.schema import WITNESS
from isotone.spec.check.sequencer import Need, Sequencer
from isotone.trace.events import Connected, Row
from isotone.trace.parquet import require_pyarrow

_FOUND = f"run string, boundary int, witness {WITNESS}"
_STEP = ("run", "boundary", "node", "incarnation", "index", "is_send", "sender", "first", "last")


def circles(n: Normal) -> DataFrame:
    """The witnesses of all circles."""
    stamps = n.pieces.where("sent IS NOT NULL AND NOT is_early").groupBy(*BUNDLE).agg(F.min("stamp").alias("stamp"))
    sends = n.sends.withColumn("bundle", F.col("first")).join(stamps, on=list(BUNDLE), how="inner")
    sends = sends.select(*_STEP[:5], F.lit(True).alias("is_send"), "sender", "first", "last", "stamp")
    rows = n.pieces.select(*_STEP[:5], F.lit(False).alias("is_send"), "sender", "first", "last", "stamp")
    doubts = few(_doubts(rows, sends))
    if doubts.isEmpty():
        return no_findings(rows)
    near = rows.unionByName(sends).join(doubts, on="run", how="inner").where("stamp >= low AND stamp <= high")
    return near.select(*_STEP, "stretch").groupBy("run", "stretch").applyInArrow(put_into_order, _FOUND)


def _doubts(rows: DataFrame, sends: DataFrame) -> DataFrame:
    """Stretches from the stamp of a send that is not above all before it at its node to the highest of these."""
    order = Window.partitionBy("run", "node").orderBy("incarnation", "index")
    before = F.max(F.when(~F.col("is_send"), F.col("stamp"))).over(order)
    known = rows.unionByName(sends).withColumn("before", before).where("is_send AND stamp <= before")
    upwards = Window.partitionBy("run").orderBy("stamp", "before")
    below = F.max("before").over(upwards.rowsBetween(Window.unboundedPreceding, -1))
    begins = (below.isNull() | (F.col("stamp") > below)).cast("int")
    stretches = known.select("run", "stamp", "before", begins.alias("begins"))
    up_to_here = upwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = stretches.withColumn("stretch", F.sum("begins").over(up_to_here))
    return numbered.groupBy("run", "stretch").agg(F.min("stamp").alias("low"), F.max("before").alias("high"))


class _Waiting:
    """The rows of a stretch of one run: who waits for whom."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = {(step["node"], step["incarnation"], step["index"]): step for step in steps}
        self._open: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for step in steps:
            if step["is_send"]:
                self._open.setdefault((step["boundary"], step["sender"]), []).append(step)
        self.found: list[dict[str, Any]] = []
        self._sequencer = Sequencer(self._take, self._need)

    def run(self) -> None:
        for node, incarnation, index in sorted(self._steps):
            self._sequencer.feed(Row(node, incarnation, index, 0, Connected("")))
        self._sequencer.flush(self._sends, self._circle, self._send)

    def _step(self, row: Row) -> dict[str, Any]:
        return self._steps[(row.node, row.incarnation, row.index)]

    def _need(self, row: Row) -> Need | None:
        step = self._step(row)
        if step["is_send"]:
            return None
        waited = self._open.get((step["boundary"], step["sender"]), ())
        if any(each["first"] <= step["last"] and each["node"] != row.node for each in waited):
            return Need(step["boundary"], step["sender"], step["first"], step["last"])
        return None

    def _sends(self, row: Row) -> Need | None:
        step = self._step(row)
        return Need(step["boundary"], step["sender"], step["first"], step["last"]) if step["is_send"] else None

    def _take(self, row: Row) -> None:
        if self._step(row)["is_send"]:
            self._send(row)

    def _send(self, row: Row) -> None:
        """In its place, or before it where a circle is broken."""
        step = self._step(row)
        waited = self._open[(step["boundary"], step["sender"])]
        if step in waited:
            waited.remove(step)
            self._sequencer.wake(step["boundary"], step["sender"])

    def _circle(self, rows: list[Row]) -> None:
        first = self._step(rows[0])
        events = sorted({(row.node, row.incarnation, row.index) for row in rows})
        told = [dict(zip(("node", "incarnation", "index"), each, strict=True)) for each in events]
        self.found.append({"run": first["run"], "boundary": first["boundary"], "witness": told})


def put_into_order(table: Any) -> Any:
    """In a task: the circles among these rows of a stretch of one run."""
    arrow = require_pyarrow()
    waiting = _Waiting(table.to_pylist())
    waiting.run()
    place = arrow.struct([("node", arrow.string()), ("incarnation", arrow.int64()), ("index", arrow.int64())])
    form = arrow.schema([("run", arrow.string()), ("boundary", arrow.int32()), ("witness", arrow.list_(place))])
    return arrow.Table.from_pylist(waiting.found, schema=form)
