"""The sink ``writeStream.format("isotone")``: rows of a stream into the ordered log, so that each counts exactly once.

A task *stages* its rows as records of the log, under the query's name and a name of this attempt; nobody counts them
yet. The driver then commits the batch: one record that names the attempts whose rows count, in their order. Of two
commits of one batch the first in the order counts. So rows of tasks that were killed, repeated or run twice count at
most once, also when the driver dies between this commit and Spark's own and the batch comes again with other rows.

Spark numbers batches within a checkpoint, from 0. A commit therefore names the checkpoint too, by the id that Spark
keeps in it: batches of a query that began anew with another checkpoint are further ones, never those that are there.

`committed_rows` reads the rows back. The records themselves begin with `MARK`.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from isotone.core.errors import InputError, IsotoneError, MachineError
from isotone.host.answers import Maybe
from isotone.host.log_client import RemoteLog
from isotone.pipeline.log.options import LogOptions
from isotone.pipeline.log.servers import credential_of
from isotone.replicated.archive.places import require_pyarrow

MARK = b"\x00isotone-sink-1\x00"
"""What a record of a sink begins with; no text and no MessagePack map does."""
QUERY_ID = "sql.streaming.queryId"
CHUNK_BYTES_MAX = 1024 * 1024
APPEND_WITHIN_S = 60.0
GIVE_UP_AFTER_S = 300.0


class Staged(msgspec.Struct, frozen=True, tag="stage"):
    """Rows of one attempt of a task; ``chunk`` counts from 0."""

    query: str
    attempt: str
    chunk: int
    rows: tuple[bytes, ...]


class Committed(msgspec.Struct, frozen=True, tag="commit"):
    """A batch of a checkpoint, with the tasks whose rows count and how many chunks each staged."""

    query: str
    batch: int
    winners: tuple[tuple[str, int], ...]
    checkpoint: str = ""


class TaskDone(WriterCommitMessage):
    """What a task tells the driver, which has no other way to learn its checkpoint."""

    def __init__(self, attempt: str, chunks: int, checkpoint: str) -> None:
        self.attempt, self.chunks, self.checkpoint = attempt, chunks, checkpoint


def encode_record(record: Staged | Committed) -> bytes:
    """As it stands in the log."""
    return MARK + msgspec.msgpack.encode(record)


def decode_record(record: bytes) -> Staged | Committed | None:
    """The inverse; None for a record of somebody else."""
    if not record.startswith(MARK):
        return None
    try:
        return msgspec.msgpack.decode(record[len(MARK) :], type=Staged | Committed)
    except msgspec.MsgspecError:
        return None


class LogSink(DataSourceStreamArrowWriter):
    """Of one query. A row is the bytes of its column ``record``, if it has no other; otherwise it is a JSON object."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        if not options.replicas:
            raise InputError("the sink isotone needs the option replica: host:port of a server of the log")
        if not options.query:
            raise InputError("the sink isotone needs the option query: a name that stays the same at every start")
        self._options = options
        fields = [field.dataType.simpleString() for field in schema.fields if field.name == "record"]
        self._is_plain = schema.names == ["record"] and fields[0] in ("binary", "string")

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """In a task: stage its rows. They are not known to belong to a batch yet, so the driver's commit names them."""
        attempt = uuid.uuid4().hex
        with _Appending(self._options) as appending:
            count = 0
            for rows in _chunks(self._records(iterator)):
                appending.append(encode_record(Staged(self._options.query, attempt, count, rows)))
                count += 1
        return TaskDone(attempt, count, _checkpoint())

    def _records(self, iterator: Iterator[Any]) -> Iterator[bytes]:
        require_pyarrow()
        for batch in iterator:
            if self._is_plain:
                for value in batch.column(0).to_pylist():
                    yield value.encode() if isinstance(value, str) else bytes(value or b"")
            else:
                for row in batch.to_pylist():
                    yield msgspec.json.encode(row)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: this batch is these tasks' rows."""
        done = [each for each in messages if isinstance(each, TaskDone)]
        if not done:
            return  # a batch of no task has no rows
        (checkpoint,) = {each.checkpoint for each in done}
        winners = tuple((each.attempt, each.chunks) for each in done)
        with _Appending(self._options) as appending:
            appending.append(encode_record(Committed(self._options.query, batchId, winners, checkpoint)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is to be taken back: what no commit names never counts."""


def _checkpoint() -> str:
    """In a task: the id of the query, which Spark makes for a new checkpoint and keeps in it."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(QUERY_ID)
    if not found:
        raise MachineError(f"Spark does not say to which checkpoint this task belongs ({QUERY_ID})")
    return str(found)


class _Appending:
    """Appends, with *maybe* answered by the same record again: a record that stands twice counts once."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()

    def __enter__(self) -> _Appending:
        self._log = self._runner.run(self._open())
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._runner.run(self._log.close())
        finally:
            self._runner.close()

    async def _open(self) -> RemoteLog:
        return RemoteLog(self._options.replicas, name="spark-sink", credential=credential_of(self._options))

    def append(self, record: bytes) -> int:
        """Until it is in the order."""
        deadline = time.monotonic() + GIVE_UP_AFTER_S
        while True:
            try:
                return self._runner.run(self._log.append(record, within_s=APPEND_WITHIN_S))
            except (Maybe, MachineError) as error:
                if time.monotonic() > deadline:
                    raise MachineError(f"the log takes nothing: {error}") from error
                self._runner.run(asyncio.sleep(0.2))
            except IsotoneError as error:
                raise MachineError(f"the log refuses what is written: {error}") from error


def _chunks(records: Iterator[bytes]) -> Iterator[tuple[bytes, ...]]:
    rows: list[bytes] = []
    size = 0
    for record in records:
        if rows and size + len(record) > CHUNK_BYTES_MAX:
            yield tuple(rows)
            rows, size = [], 0
        rows.append(record)
        size += len(record)
    if rows:
        yield tuple(rows)


_PARTS = (
    "position bigint, kind string, query string, checkpoint string, batch bigint, attempt string, chunk bigint, "
    "place bigint, count bigint, row binary"
)


def committed_rows(log: DataFrame, query: str) -> DataFrame:
    """The rows that a query committed, from the log as ``format("isotone")`` reads it.

    Columns: position (of the commit), place (within the batch, from 0), row, batch, checkpoint. Their order is that of
    position and place, the same whoever reads them. A commit without all of its rows is an error: they were staged
    before it, and ``log`` may begin too late.
    """
    parts = log.select("position", "record").mapInArrow(_parts, _PARTS).where(F.col("query") == query)
    parts = parts.localCheckpoint(eager=True)  # the log is read once
    commits = parts.where("kind = 'commit'").select("checkpoint", "batch", "attempt", "place", "count", "position")
    first = commits.groupBy("checkpoint", "batch").agg(F.min("position").alias("position"))
    winners = commits.join(first.select("position"), on="position", how="inner")
    staged = parts.where("kind = 'stage'").dropDuplicates(["attempt", "chunk", "place"])
    rows = staged.select("attempt", "chunk", F.col("place").alias("within"), "row")
    joined = winners.where("count > 0").join(rows, on="attempt", how="left")
    chunks = F.sum((F.col("within") == 0).cast("int")).over(Window.partitionBy("position", "attempt"))
    found = joined.where("chunk IS NULL OR chunk < count").withColumn("chunks", F.coalesce(chunks, F.lit(0)))
    found = found.where(F.when(F.col("chunks") == F.col("count"), F.expr("true")).otherwise(_incomplete()))
    order = Window.partitionBy("position").orderBy("place", "chunk", "within")
    numbered = found.withColumn("in_batch", F.row_number().over(order) - F.lit(1))
    place = F.col("in_batch").cast("bigint").alias("place")
    return numbered.select("position", place, "row", "batch", "checkpoint")


def _incomplete() -> Column:
    """Where it is asked for, the query fails."""
    told = F.format_string(
        "rows of the commit at position %d are missing: read the log from where they were staged on", "position"
    )
    return F.raise_error(told).cast("boolean")


def _parts(batches: Iterator[Any]) -> Iterator[Any]:
    """In a task: what the records of sinks hold, a row for each staged row and each winner."""
    arrow = require_pyarrow()
    form = arrow.schema(
        [
            ("position", arrow.int64()),
            ("kind", arrow.string()),
            ("query", arrow.string()),
            ("checkpoint", arrow.string()),
            ("batch", arrow.int64()),
            ("attempt", arrow.string()),
            ("chunk", arrow.int64()),
            ("place", arrow.int64()),
            ("count", arrow.int64()),
            ("row", arrow.binary()),
        ]
    )
    for batch in batches:
        found: list[tuple[Any, ...]] = []
        for position, record in zip(
            batch.column("position").to_pylist(), batch.column("record").to_pylist(), strict=True
        ):
            match decode_record(record):
                case Staged() as staged:
                    found += [
                        (position, "stage", staged.query, None, None, staged.attempt, staged.chunk, place, None, row)
                        for place, row in enumerate(staged.rows)
                    ]
                case Committed() as commit:
                    head = (position, "commit", commit.query, commit.checkpoint, commit.batch)
                    found += [
                        (*head, attempt, None, place, count, None)
                        for place, (attempt, count) in enumerate(commit.winners)
                    ]
        columns = list(zip(*found, strict=True)) if found else [()] * len(form)
        arrays = [arrow.array(column, field.type) for column, field in zip(columns, form, strict=True)]
        yield arrow.RecordBatch.from_arrays(arrays, schema=form)
