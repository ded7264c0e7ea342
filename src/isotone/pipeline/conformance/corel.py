"""COReL's promises: the plain checker itself, over the rows of the replicas of a run, in one task for each run.

What a server had at a moment is a fold over its whole record, for red messages are reordered and yellow ones taken
back; and every promise compares such folds of all servers with the one green order. But a replica writes a row for a
batch of messages, not for each at each receiver: these rows are few, and only they come together. They are counted
first; a run with more than a task should hold is named, and not judged.

Implements: [DESIGN 4], [COReL 5.4]. Deviations: the one check that takes all rows of its kind of a run into a task.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.core.errors import InputError
from isotone.pipeline.schema import WITNESS
from isotone.spec.check.corel import CorelChecker
from isotone.spec.check.corel.checker import ENTRIES
from isotone.spec.corel_properties import corel_labels
from isotone.spec.verdicts import State, Verdict
from isotone.trace.columns import entry_of
from isotone.trace.events import Row
from isotone.trace.parquet import require_pyarrow
from isotone.trace.vocabulary import kind_of

ROWS_MAX = 2_000_000
"""Of one run that are judged in a task."""
_VERDICTS = f"run string, label string, state string, witness {WITNESS}, place int"
_BITS = (1 << 64) - 1
_KINDS = tuple(kind_of(entry) for entry in ENTRIES)


def judge_replicas(silver: DataFrame, runs: DataFrame, place: int) -> DataFrame | None:
    """A verdict for each of COReL's promises and each run that has replicas, placed behind the others.

    ``runs`` tells of each run whether rows of it were lost, how it ended, and who reached whom then.
    """
    if "extra" not in silver.columns:  # a table that an earlier version made
        return None
    rows = silver.where(F.col("kind").isin(*_KINDS) & F.col("extra").isNotNull()).select(
        "run", "node", "incarnation", "index", "kind", "extra", "servers", "digests", F.col("stamp.lamport")
    )
    counts = {row["run"]: row["count"] for row in rows.groupBy("run").count().collect()}
    if not counts:
        return None
    large = sorted(run for run, count in counts.items() if count > ROWS_MAX)
    for run in large:
        told = f"the run {run!r} has {counts[run]} rows of replicas: COReL's promises are judged up to {ROWS_MAX}"
        warnings.warn(told, stacklevel=2)
    about = F.broadcast(runs.select("run", "is_lossy", "quiet", "components"))
    small = rows.where(~F.col("run").isin(*large)).join(about, on="run", how="inner")
    unjudged = [each for run in large for each in _told(run, _unjudged())]
    found = small.groupBy("run").applyInArrow(_judge, _VERDICTS)
    found = found.unionByName(silver.sparkSession.createDataFrame(unjudged, _VERDICTS)) if unjudged else found
    return found.withColumn("place", F.col("place") + place)


def _judge(table: Any) -> Any:
    """In a task: the rows of one run."""
    told = _told(table.column("run")[0].as_py(), _verdicts(table))
    return require_pyarrow().Table.from_pylist(told, schema=_form())


def _told(run: str, verdicts: Mapping[str, Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "run": run,
            "label": label,
            "state": verdict.state.value,
            "witness": _events(verdict),
            "place": place,
        }
        for place, (label, verdict) in enumerate(verdicts.items())
    ]


def _verdicts(table: Any) -> dict[str, Verdict]:
    first = table.slice(0, 1).to_pylist()[0]
    components = tuple(map(tuple, first["components"] or ()))
    checker = CorelChecker()
    try:
        for batch in table.to_batches():
            for row in batch.drop_columns(["run", "is_lossy", "quiet", "components"]).to_pylist():
                checker.feed(_row(row))
        return checker.finish(lossy=first["is_lossy"], liveness=_liveness(first), components=components)
    except (InputError, ValueError, TypeError, LookupError, ArithmeticError):  # rows that no version of ours wrote
        return _unjudged()


def _liveness(run: Mapping[str, Any]) -> State | None:
    """As `isotone.spec.check.checker` has it: what becomes of promises that are owed at the end."""
    if run["quiet"] is False:
        return State.NOT_JUDGED
    return State.NOT_EXERCISED if run["components"] is None or run["quiet"] is None else None


def _row(columns: dict[str, Any]) -> Row:
    digests = columns["digests"]
    unsigned = None if digests is None else [digest & _BITS for digest in digests]
    entry = entry_of({**columns, "digests": unsigned})
    return Row(columns["node"], columns["incarnation"], columns["index"], 0, entry)


def _unjudged() -> dict[str, Verdict]:
    return dict.fromkeys(corel_labels(), Verdict(State.NOT_JUDGED))


def _events(verdict: Verdict) -> list[dict[str, Any]] | None:
    if verdict.violation is None:
        return None
    return [dict(zip(("node", "incarnation", "index"), event)) for event in verdict.violation.witness]


def _form() -> Any:
    arrow = require_pyarrow()
    text, long = arrow.string(), arrow.int64()
    event = arrow.struct([("node", text), ("incarnation", long), ("index", long)])
    names = {"run": text, "label": text, "state": text, "witness": arrow.list_(event), "place": arrow.int32()}
    return arrow.schema(list(names.items()))
