"""Clocks side by side, for display alone: by how much each record's time is ahead of a common one.

No message arrives before it is sent, so the least time from one record to another bounds how far their clocks can
differ. Where the clocks as they are contradict no message, they are taken as they are (one machine, a simulation). Else
each record is set into the middle of what its bounds against a common one leave open; one that messages bound from one
side only, so that the fastest of them took no time. No verdict depends on this.

Clocks that drift leave no offsets that suit all messages: then each record is set beside those that it spoke with, and
how far that is from the messages is told as its *error*.

Implements: [DESIGN 5], "clocks aligned only for display". Deviations: none.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.trace.parquet import require_pyarrow

CLOCKS = "run string, node string, incarnation bigint, offset bigint, error bigint"
RECORDS_MAX = 1000
"""Of a run with more records than this the clocks are taken as they are."""
UNDER_WAY_MAX_US = 60_000_000
"""No message takes longer than this, so if all do, and none came back, the clocks are those of different machines."""
Record = tuple[str, int]
Least = dict[tuple[Record, Record], int]
"""The least time from a send here to its receipt there."""


def clocks(pairs: DataFrame) -> DataFrame:
    """Per record its offset in microseconds, from the least times between records (``pairs``, a few rows per run)."""
    kept = pairs.select("run", "from_node", "from_incarnation", "node", "incarnation", F.col("least").cast("bigint"))
    return kept.groupBy("run").applyInArrow(aligned, CLOCKS)


def aligned(table: Any) -> Any:
    """In a task: the offsets of the records of one run."""
    arrow = require_pyarrow()
    rows = table.to_pylist()
    least: Least = {}
    for row in rows:
        key = ((row["from_node"], row["from_incarnation"]), (row["node"], row["incarnation"]))
        least[key] = min(row["least"], least.get(key, row["least"]))
    run, found = rows[0]["run"], offsets(least)
    wrong = errors(least, found)
    told = [
        {"run": run, "node": node, "incarnation": incarnation, "offset": offset, "error": wrong[node, incarnation]}
        for (node, incarnation), offset in sorted(found.items())
    ]
    numbers = [(name, arrow.int64()) for name in ("incarnation", "offset", "error")]
    form = arrow.schema([("run", arrow.string()), ("node", arrow.string()), *numbers])
    return arrow.Table.from_pylist(told, schema=form)


def offsets(least: Least) -> dict[Record, int]:
    """How far each record's clock is ahead."""
    records = sorted({record for pair in least for record in pair})
    if len(records) > RECORDS_MAX or not _is_contradicted(least):
        return dict.fromkeys(records, 0)
    first, back = records[0], {(there, here): time for (here, there), time in least.items()}
    above, below = _bounds({first: 0}, least), _bounds({first: 0}, back)
    both = {record: (above[record] - below[record]) // 2 for record in records if record in above and record in below}
    return _extended(both, records, least, back) or _side_by_side(records, least)


def errors(least: Least, found: dict[Record, int]) -> dict[Record, int]:
    """For each record by how much the offsets contradict what it received; 0 where they suit all messages."""
    wrong = dict.fromkeys(found, 0)
    for (here, there), time in least.items():
        wrong[there] = max(wrong[there], found[there] - found[here] - time)
    return wrong


def _is_contradicted(least: Least) -> bool:
    """Whether clocks taken as they are would have a message arrive early, or all from here to there very late."""
    return any(
        time < 0 or (time > UNDER_WAY_MAX_US and (there, here) not in least) for (here, there), time in least.items()
    )


def _bounds(known: dict[Record, int], least: Least) -> dict[Record, int]:
    """What offsets can be at most, along any chain of messages from what is known; nothing if messages contradict it.

    Without contradiction no chain need be longer than there are records.
    """
    found = dict(known)
    for _ in range(len({record for pair in least for record in pair})):
        is_final = True
        for (here, there), time in least.items():
            if here in found and (there not in found or found[here] + time < found[there]):
                if there in known:
                    return {}
                found[there] = found[here] + time
                is_final = False
        if is_final:
            return found
    return {}


def _extended(known: dict[Record, int], records: list[Record], least: Least, back: Least) -> dict[Record, int]:
    """With those that only send to them or only hear of them, set onto their bounds; nothing if that cannot be."""
    found = known
    while found and len(found) < len(records):
        count = len(found)
        found = _negated(_bounds(_negated(found), back))
        found = _bounds(found, least)
        if len(found) == count:
            found[next(record for record in records if record not in found)] = 0  # it spoke with none of them
    return found


def _negated(known: dict[Record, int]) -> dict[Record, int]:
    return {record: -offset for record, offset in known.items()}


def _side_by_side(records: list[Record], least: Least) -> dict[Record, int]:
    """Where no offsets suit all messages: each record in the middle between it and those that were set before it."""
    near: dict[Record, set[Record]] = {record: set() for record in records}
    for here, there in least:
        near[here].add(there)
        near[there].add(here)
    found: dict[Record, int] = {}
    for start in records:
        found.setdefault(start, 0)  # it spoke with none of those before
        ahead = deque([start])
        while ahead:
            for record in sorted(near[ahead.popleft()] - found.keys()):
                found[record] = _beside(record, near[record] & found.keys(), found, least)
                ahead.append(record)
    return found


def _beside(record: Record, others: set[Record], found: dict[Record, int], least: Least) -> int:
    above = [found[other] + least[other, record] for other in others if (other, record) in least]
    below = [found[other] - least[record, other] for other in others if (record, other) in least]
    if above and below:
        return (min(above) + max(below)) // 2
    return min(above) if above else max(below)
