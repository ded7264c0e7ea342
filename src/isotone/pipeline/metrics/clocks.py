"""Clocks side by side, for display alone: by how much each record's time is ahead of a common one.

No message arrives before it is sent, so the least time from one record to another bounds how far their clocks can
differ. Where the clocks as they are contradict no message, they are taken as they are (one machine, a simulation). Else
each record is set into the middle of what its bounds against a common one leave open. No verdict depends on this.

Implements: [DESIGN 5], "clocks aligned only for display". Deviations: none.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.trace.parquet import require_pyarrow

CLOCKS = "run string, node string, incarnation bigint, offset bigint"
RECORDS_MAX = 1000
"""Of a run with more records than this the clocks are taken as they are."""
Record = tuple[str, int]


def clocks(pairs: DataFrame) -> DataFrame:
    """Per record its offset in microseconds, from the least times between records (``pairs``, a few rows per run)."""
    kept = pairs.select("run", "from_node", "from_incarnation", "node", "incarnation", F.col("least").cast("bigint"))
    return kept.groupBy("run").applyInArrow(aligned, CLOCKS)


def aligned(table: Any) -> Any:
    """In a task: the offsets of the records of one run."""
    arrow = require_pyarrow()
    rows = table.to_pylist()
    least: dict[tuple[Record, Record], int] = {}
    for row in rows:
        key = ((row["from_node"], row["from_incarnation"]), (row["node"], row["incarnation"]))
        least[key] = min(row["least"], least.get(key, row["least"]))
    run = rows[0]["run"]
    told = [
        {"run": run, "node": node, "incarnation": incarnation, "offset": offset}
        for (node, incarnation), offset in sorted(offsets(least).items())
    ]
    form = arrow.schema(
        [("run", arrow.string()), ("node", arrow.string()), ("incarnation", arrow.int64()), ("offset", arrow.int64())]
    )
    return arrow.Table.from_pylist(told, schema=form)


def offsets(least: dict[tuple[Record, Record], int]) -> dict[Record, int]:
    """How far each record's clock is ahead; ``least`` gives the least time from a send here to its receipt there."""
    records = sorted({record for pair in least for record in pair})
    if len(records) > RECORDS_MAX or all(time >= 0 for time in least.values()):
        return dict.fromkeys(records, 0)
    first = records[0]
    above = _bounds(first, least)  # offset of a record, at most
    below = _bounds(first, {(there, here): time for (here, there), time in least.items()})  # and at least, negated
    return {record: _middle(above.get(record), below.get(record)) for record in records}


def _middle(above: int | None, below: int | None) -> int:
    if above is not None and below is not None:
        return (above - below) // 2
    if above is not None:
        return above
    return 0 if below is None else -below


def _bounds(start: Record, least: dict[tuple[Record, Record], int]) -> dict[Record, int]:
    """The tightest bound along any chain of messages from one record to each other."""
    found = {start: 0}
    for _ in range(len(least) + 1):
        changed = False
        for (here, there), time in least.items():
            if here in found and (there not in found or found[here] + time < found[there]):
                found[there] = found[here] + time
                changed = True
        if not changed:
            break
    return found
