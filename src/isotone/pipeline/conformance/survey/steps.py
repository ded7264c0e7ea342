"""From silver rows to what one pass over a record needs, and from that pass to a table: Spark and Arrow around it.

Each record is one stream of batches in order, whatever its size; a task holds one batch and the state of one record.

Implements: [DESIGN 5], conformance. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import DAEMON_KINDS
from isotone.pipeline.conformance.survey.facts import encode
from isotone.pipeline.conformance.survey.record import CODES, MESSAGES, OTHER, Record, Told
from isotone.pipeline.conformance.survey.sides import Odd
from isotone.pipeline.conformance.survey.turns import Turn
from isotone.trace.parquet import require_pyarrow

TOLD = (
    "run string, boundary int, sender string, first bigint, group string, is_send boolean, node string, "
    "incarnation bigint, index bigint, form bigint, content bigint, count int, service int, lamport bigint, "
    "stamper string, stamper_incarnation bigint, floor bigint, view bigint, is_late boolean, holders int, size int, "
    "is_counting boolean, cohort int, facts binary, odd string"
)
"""One row per send or delivery row and group; and one per record, with its facts, and why it is odd if it is."""
SEPARATOR = "\0"
"""Between names that travel as one text."""
_TAKEN = (
    "sender",
    "first",
    "index",
    "form",
    "content",
    "count",
    "service",
    "lamport",
    "stamper",
    "stamper_incarnation",
)
_ENTRY = ("boundary", "group", "is_send", "is_late", "holders", "size", "is_counting", "cohort")


def told(silver: DataFrame) -> DataFrame:
    """Every record read once."""
    steps = _steps(silver).repartition("record").sortWithinPartitions("record", "index")
    return steps.mapInArrow(read_records, TOLD)


def _steps(silver: DataFrame) -> DataFrame:
    """Few and plain columns, for each costs something in every row; what only turns have is one text."""
    kind = F.col("kind")
    place = F.array_position(F.array(*map(F.lit, CODES)), kind).cast("int")
    code = F.when(place > 0, place - 1).otherwise(OTHER)
    is_bulk = kind.isin(*MESSAGES)
    groups = F.when(kind.isin(*DAEMON_KINDS), F.array(F.lit(""))).otherwise(F.col("groups"))
    sender = F.coalesce("sender", F.when(kind.isin("send", "ssend"), F.get("clients", F.lit(0))), F.lit(""))
    turn = F.struct(
        "view", "members", "transitional", "components", "quiet", F.xxhash64("view", "members").alias("hash")
    )
    return (
        silver.where(kind.isin(*CODES) | (F.col("index") == 0))
        .withColumn("groups", groups)
        .select(
            F.xxhash64("run", "node", "incarnation").alias("record"),
            "run", "node", "incarnation", "index", code.alias("code"),
            F.coalesce(F.concat_ws(SEPARATOR, "clients"), F.lit("")).alias("clients"),
            F.coalesce(F.size("clients"), F.lit(0)).alias("clients_count"),
            F.coalesce(F.concat_ws(SEPARATOR, "groups"), F.lit("")).alias("groups"),
            F.coalesce(F.size("groups"), F.lit(0)).alias("groups_count"),
            F.coalesce("service", F.lit(0)).alias("service"), sender.alias("sender"),
            F.coalesce("first", F.lit(0)).alias("first"), F.coalesce("count", F.lit(0)).alias("count"),
            F.xxhash64("service", "groups", "count").alias("form"), "content",
            F.coalesce("stamp.lamport", F.lit(0)).alias("lamport"),
            F.coalesce("stamp.name", F.lit("")).alias("stamper"),
            F.coalesce("stamp.incarnation", F.lit(0)).alias("stamper_incarnation"),
            F.when(~is_bulk, F.to_json(turn)).alias("turn"),
        )
    )  # fmt: skip


class Columns:
    """One batch: what every message row needs as lists, the rest on request."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        for name in ("code", "service", "first", "count", "lamport", "stamper_incarnation", "index"):
            setattr(self, name, batch.column(name).to_numpy().tolist())
        self.sender: list[str] = batch.column("sender").to_pylist()
        self.stamper: list[str] = batch.column("stamper").to_pylist()
        self.clients_text: list[str] = batch.column("clients").to_pylist()
        self.groups_text: list[str] = batch.column("groups").to_pylist()
        self._clients_count: list[int] = batch.column("clients_count").to_numpy().tolist()
        self._groups_count: list[int] = batch.column("groups_count").to_numpy().tolist()

    def value(self, name: str, place: int) -> Any:
        """What stands in a column."""
        return self._batch.column(name)[place].as_py()

    def clients(self, place: int) -> tuple[str, ...]:
        """Whom it happened to."""
        return _texts(self.clients_text[place], self._clients_count[place])

    def groups(self, place: int) -> tuple[str, ...]:
        """The groups of a message, or the one group."""
        return _texts(self.groups_text[place], self._groups_count[place])

    def turn(self, place: int) -> Turn:
        """What only rows other than messages have."""
        return msgspec.json.decode(self.value("turn", place), type=Turn)


def _texts(text: str, count: int) -> tuple[str, ...]:
    found = tuple(text.split(SEPARATOR)) if count > 0 else ()
    if len(found) != max(count, 0):
        raise Odd("a name with a null character")
    return found


def read_records(batches: Iterable[Any]) -> Iterator[Any]:
    """In a task: records one behind the other, their rows in order."""
    known: int | None = None
    run, record = "", Record("", 0)
    for batch in batches:
        columns = Columns(batch)
        for key, start, stop in _segments(batch.column("record")):
            if key != known:
                if known is not None:
                    yield _facts(run, record)
                run, node, number = (columns.value(name, start) for name in ("run", "node", "incarnation"))
                known, record = key, Record(node, number)
            rows = record.feed(columns, start, stop)
            if rows.rows:
                yield _rows(batch, run, record, rows)
    if known is not None:
        yield _facts(run, record)


def _segments(keys: Any) -> Iterator[tuple[int, int, int]]:
    """Where one record stands in a batch: its key, from where to where."""
    numpy = import_module("numpy")
    found = keys.to_numpy()
    if not len(found):
        return
    starts = [0, *(numpy.flatnonzero(found[1:] != found[:-1]) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(found)], strict=True):
        yield int(found[start]), start, stop


def _rows(batch: Any, run: str, record: Record, told: Told) -> Any:
    arrow = require_pyarrow()
    where = arrow.array(told.rows, arrow.int64())
    which = arrow.array(told.entries, arrow.int64())
    columns = {name: batch.column(name).take(where) for name in _TAKEN}
    entries = record.entries
    for name in _ENTRY:
        columns[name] = arrow.array(getattr(entries, name), _type(name)).take(which)
    columns["view"] = arrow.array(entries.hash, arrow.int64()).take(which)
    columns["floor"] = arrow.array(told.floors, arrow.int64())
    return _batch(run, record, columns, len(told.rows))


def _facts(run: str, record: Record) -> Any:
    arrow = require_pyarrow()
    facts = record.finish()
    about = {
        "facts": arrow.array([encode(facts)], arrow.binary()),
        "odd": arrow.array([facts.odd or None], arrow.string()),
    }
    return _batch(run, record, about, 1)


def _type(name: str) -> Any:
    arrow = require_pyarrow()
    forms = {"group": arrow.string(), "is_send": arrow.bool_(), "is_late": arrow.bool_(), "is_counting": arrow.bool_()}
    return forms.get(name, arrow.int32())


_FORMS = {"string": "string", "bigint": "int64", "int": "int32", "boolean": "bool_", "binary": "binary"}


def _batch(run: str, record: Record, columns: dict[str, Any], count: int) -> Any:
    arrow = require_pyarrow()
    facts = record.facts
    columns["run"] = arrow.repeat(run, count)
    columns["node"] = arrow.repeat(facts.node, count)
    columns["incarnation"] = arrow.repeat(arrow.scalar(facts.incarnation, arrow.int64()), count)
    fields = [each.split(" ") for each in TOLD.split(", ")]
    forms = {name: getattr(arrow, _FORMS[form])() for name, form in fields}
    arrays = [columns.get(name) if name in columns else arrow.nulls(count, form) for name, form in forms.items()]
    return arrow.RecordBatch.from_arrays(arrays, names=list(forms))
