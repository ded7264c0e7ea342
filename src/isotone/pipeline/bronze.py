"""Bronze: trace files as they were written, of any mix of nodes, runs and forms, as one table.

A file that cannot be read is named with the reason and left out; a part of a record up to where it is damaged. Large
Parquet files are read in several tasks. They are read twice, for what is told of them and for their rows: that costs
less than to keep the rows. Who uses the rows counts them, for a file may fail, or be removed, in between.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.core.errors import InputError
from isotone.pipeline import schema
from isotone.pipeline.files import read_chunks, read_notes
from isotone.pipeline.little import as_one, is_in_one, rows_of
from isotone.trace.layout import PARQUET_SUFFIX
from isotone.trace.parquet import require_pyarrow
from isotone.trace.reader import require_target, trace_files

GROUPS_PER_TASK = 32
FILES_PER_TASK = 16
BYTES_PER_TASK = 1 << 20
"""At least so many, whatever the number of files: what comes behind has as many tasks, and each has its price."""
_CHUNK = "path string, first int, last int"
_ALL = (1 << 31) - 1
"""More row groups than a file has."""


class Problem(NamedTuple):
    """A file, and why it was not read to its end."""

    path: str
    reason: str


Chunk = tuple[str, int, int]
"""A file and which of its row groups: from the first up to the last, without that."""


class ChangedError(Exception):
    """The rows that came are not those that were told of: a file was cut, replaced or removed since."""


class Bronze(NamedTuple):
    """What was read: ``rows`` has rows and notes of files, ``notes`` these alone; ``missing``: what was not opened."""

    rows: DataFrame
    notes: DataFrame
    missing: tuple[Problem, ...]
    chunks: tuple[Chunk, ...]


def read_bronze(spark: SparkSession, paths: Iterable[Path]) -> Bronze:
    """All trace files at and below these paths."""
    missing: list[Problem] = []
    chunks = tuple(chunk for path in found_files(paths, missing) for chunk in _chunks(path))
    return Bronze(*_read(spark, chunks), tuple(missing), chunks)


def _read(spark: SparkSession, chunks: Sequence[Chunk]) -> tuple[DataFrame, DataFrame]:
    """Rows and notes, and notes alone."""
    by_count = -(-len(chunks) // FILES_PER_TASK)
    by_bytes = -(-sum(map(_size, {path for path, _, _ in chunks})) // BYTES_PER_TASK)
    slices = max(min(by_count, by_bytes), min(len(chunks), spark.sparkContext.defaultParallelism), 1)
    if is_in_one(spark):
        listed = as_one(rows_of(spark, chunks, _CHUNK))
    else:  # not by `rows_of`: of plain data Spark knows the size, and would take that of a list of files for theirs
        listed = spark.createDataFrame(list(chunks), _CHUNK).repartition(slices)
    return listed.mapInArrow(read_chunks, schema.BRONZE), listed.mapInArrow(read_notes, schema.BRONZE)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0  # the task that reads it will say why it cannot


def kept(bronze: Bronze, *, rows_too: bool) -> Bronze:
    """The same, with the notes at hand; with the rows too, or only those of files that somebody may still add to.

    Rows that are kept are those that the notes tell of; others may have changed when they are read.
    """
    spark = bronze.rows.sparkSession
    is_final = {chunk: not rows_too and chunk[0].endswith(PARQUET_SUFFIX) for chunk in bronze.chunks}
    parts = [
        _kept(spark, some, rows_too=not final)
        for final in (True, False)
        if (some := [chunk for chunk in bronze.chunks if is_final[chunk] is final])
    ]
    if not parts:
        return bronze._replace(notes=together(bronze.notes))
    rows, notes = (reduce(DataFrame.unionByName, each) for each in zip(*parts, strict=True))
    return bronze._replace(rows=rows, notes=notes)


def _kept(spark: SparkSession, chunks: Sequence[Chunk], *, rows_too: bool) -> tuple[DataFrame, DataFrame]:
    """Rows and notes; a file in which something is wrong is read by one task, which stops there."""
    rows, notes = _read(spark, chunks)
    if rows_too:
        rows = rows.localCheckpoint(eager=True)
        notes = rows.where(is_note())
    notes = together(notes)
    count = Counter(path for path, _, _ in chunks)
    divided = [path for path in count if count[path] > 1]
    if divided:
        wrong = notes.where((F.col("kind") == schema.PROBLEM) & F.col("file").isin(*divided))
        damaged = {row["file"] for row in wrong.select("file").distinct().collect()}
        if damaged:
            whole = [(path, 0, _ALL) for path in sorted(damaged)]
            return _kept(spark, [*(each for each in chunks if each[0] not in damaged), *whole], rows_too=rows_too)
    return rows, notes


def together(notes: DataFrame) -> DataFrame:
    """Notes in one place: they are few, and a task for each of many partitions would cost more than they do."""
    return notes.repartition(1).localCheckpoint(eager=True)


def is_note() -> Column:
    """Of a row of bronze."""
    return F.col("kind").startswith("_")


def problems(bronze: Bronze) -> tuple[Problem, ...]:
    """Every file that was not read to its end, by name."""
    found = bronze.notes.where(F.col("kind") == schema.PROBLEM).select("file", "reason").distinct().collect()
    return tuple(sorted({*bronze.missing, *(Problem(row["file"], row["reason"]) for row in found)}))


def found_files(paths: Iterable[Path], missing: list[Problem]) -> Iterator[Path]:
    """The trace files at and below these paths, each once; paths that are none go to ``missing``."""
    seen: set[Path] = set()
    for path in paths:
        try:
            found = [each.absolute() for each in trace_files([path])]
        except InputError as error:
            missing.append(Problem(str(path), str(error)))
            continue
        for each in found:
            if each not in seen:
                seen.add(each)
                try:
                    require_target(each)
                except InputError as error:
                    missing.append(Problem(str(each), str(error)))
                else:
                    yield each


def _chunks(path: Path) -> list[Chunk]:
    if path.suffix != PARQUET_SUFFIX:
        return [(str(path), 0, 0)]
    arrow = require_pyarrow()
    try:
        count = arrow.parquet.read_metadata(path).num_row_groups
    except (arrow.ArrowException, OSError, ValueError):
        count = 0  # the task that reads it will say why it cannot
    ends = range(0, max(count, 1), GROUPS_PER_TASK)
    return [(str(path), first, first + GROUPS_PER_TASK) for first in ends]
