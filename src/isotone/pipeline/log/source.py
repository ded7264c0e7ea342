"""The data source ``isotone``: the ordered log as a batch and as a stream; offsets are positions.

`register(session)` makes ``spark.read.format("isotone")`` and ``readStream`` known to a session.

Implements: [DESIGN 5], tables and streams. Deviations: D-filters the options ``from`` and ``to`` choose what is read,
filters on the position do not: Spark 4.3.0 keeps what a pushed filter left to read with the DataFrame, and gives that
to each other query of it, which then lacks rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from isotone.core.errors import InputError, MachineError
from isotone.pipeline.log.decoding import parse_columns, with_columns
from isotone.pipeline.log.options import LogOptions, parse_options
from isotone.pipeline.log.reading import Extent, Piece, batches, extent, pieces, read_piece
from isotone.pipeline.log.servers import ANSWER_WITHIN_S, Servers

NAME = "isotone"
SCHEMA = StructType(
    [
        StructField("position", LongType(), nullable=False),
        StructField("message", StringType(), nullable=False),
        StructField("sender", StringType(), nullable=False),
        StructField("record", BinaryType(), nullable=False),
    ]
)
LOOK_EVERY_S = 0.1
"""Spark asks for the latest position a hundred times a second; archive and servers are asked so often."""


def register(session: SparkSession) -> None:
    """Make the source known to this session."""
    session.dataSource.register(IsotoneSource)


class LogPartition(InputPartition):
    """What one task reads, and from where."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(msgspec.msgpack.encode(piece))

    def piece(self) -> Piece:
        """As it was planned."""
        return msgspec.msgpack.decode(self.value, type=Piece)


class IsotoneSource(DataSource):
    """``format("isotone")``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options))

    @classmethod
    def name(cls) -> str:
        """As ``format`` takes it."""
        return NAME

    def schema(self) -> StructType:
        """Position, message, sender, record, and the decoded columns."""
        if not self._options.decode:
            return SCHEMA
        return StructType([*SCHEMA.fields, *parse_columns(self._options.columns).fields])

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch."""
        return LogReader(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream."""
        return LogStreamReader(self._options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The sink. In mode ``complete`` each batch would replace all rows before it; nothing in a log is replaced."""
        from isotone.pipeline.log.sink import LogSink

        if overwrite:
            raise InputError("the sink isotone appends rows: outputMode is append, not complete")
        return LogSink(self._options, schema)


def _rows(options: LogOptions, partition: InputPartition) -> Iterator[Any]:
    """In a task."""
    assert isinstance(partition, LogPartition)
    piece = partition.piece()
    if piece.first > piece.last:
        return
    found: Iterable[Any] = batches(read_piece(piece, options))
    if options.decode:
        found = with_columns(found, options.decode, parse_columns(options.columns))
    yield from found


class LogReader(DataSourceReader):
    """All of the log, or a range of positions, as it is when the query is planned."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of positions. What was asked for and is not there is an error."""
        there = extent(self._options)
        first = self._options.first if self._options.first is not None else there.first
        last = self._options.last if self._options.last is not None else there.last
        found = [] if first > last else pieces(there, first, last, fail_on_loss=self._options.fail_on_loss)
        return [LogPartition(piece) for piece in found or [Piece(1, 0)]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range."""
        return _rows(self._options, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows; an offset is the last position that was read."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._servers = Servers(options)
        self._there: Extent | None = None
        self._looked_at = self._answered_at = 0.0
        self._end: int | None = None  # where ``availableNow`` ends

    def prepareForTriggerAvailableNow(self) -> None:
        """What there is now, in as many batches as the limit makes of it."""
        self._end = self._look(now=True).last

    def initialOffset(self) -> dict[str, int]:
        """Before the first position that is wanted."""
        there = self._look(now=True)
        match self._options.starting:
            case int(position):
                if position < there.first and self._options.fail_on_loss:
                    raise InputError(
                        f"position {position} was cut away: the oldest is {there.first}; startingPosition=earliest "
                        "begins there, failOnDataLoss=false goes on without what is gone"
                    )
                return {"position": max(position, there.first) - 1}
            case "latest":
                return {"position": there.last}
        return {"position": there.first - 1}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The last position, or as far as the limit goes."""
        last = self._look().last if self._end is None else self._end
        if isinstance(limit, ReadMaxRows):
            last = min(last, start["position"] + limit.max_rows)
        return {"position": max(last, start["position"])}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As the option says."""
        return ReadAllAvailable() if self._options.records_max is None else ReadMaxRows(self._options.records_max)

    def reportLatestOffset(self) -> dict[str, int]:
        """For the progress of the query."""
        return {"position": self._look().last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The positions behind ``start`` up to ``end``."""
        first, last = start["position"] + 1, end["position"]
        if first > last:
            return []
        there = self._look_for(last)
        return [LogPartition(piece) for piece in pieces(there, first, last, fail_on_loss=self._options.fail_on_loss)]

    def _look_for(self, last: int) -> Extent:
        """The server that told of this position may be gone by now; it is in the order, so others come to have it."""
        give_up_at = time.monotonic() + ANSWER_WITHIN_S
        while (there := self._look(now=True)).last < last and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY_S)
        return there

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range."""
        return _rows(self._options, partition)

    def stop(self) -> None:
        """The query ended."""
        self._servers.close()

    def _look(self, *, now: bool = False) -> Extent:
        """Servers that are all away for a moment end no query: until they are back it knows what it knew."""
        at = time.monotonic()
        if now or self._there is None or at - self._looked_at > LOOK_EVERY_S:
            try:
                self._there, self._answered_at = extent(self._options, self._servers), at
            except MachineError:
                if self._there is None or at - self._answered_at > ANSWER_WITHIN_S:
                    raise
            self._looked_at = time.monotonic()
        return self._there
