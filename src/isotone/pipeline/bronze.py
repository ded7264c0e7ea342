"""Bronze: trace files as they were written, of any mix of nodes, runs and forms, as one table.

A file that cannot be read is named with the reason and left out; a part of a record up to where it is damaged. Large
Parquet files are read in several tasks.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.core.errors import InputError
from isotone.pipeline import schema
from isotone.pipeline.files import read_chunks, read_notes
from isotone.trace.layout import PARQUET_SUFFIX
from isotone.trace.parquet import require_pyarrow
from isotone.trace.reader import trace_files

GROUPS_PER_TASK = 32
FILES_PER_TASK = 16
_CHUNK = "path string, first int, last int"


class Problem(NamedTuple):
    """A file, and why it was not read to its end."""

    path: str
    reason: str


class Bronze(NamedTuple):
    """What was read: ``rows`` has rows and notes of files, ``notes`` these alone; ``missing``: what was not opened."""

    rows: DataFrame
    notes: DataFrame
    missing: tuple[Problem, ...]
    is_final: bool
    """Whether the files are of a form that nobody adds to, so that they are the same when they are read again."""


def read_bronze(spark: SparkSession, paths: Iterable[Path]) -> Bronze:
    """All trace files at and below these paths."""
    missing: list[Problem] = []
    files = list(found_files(paths, missing))
    chunks = [chunk for path in files for chunk in _chunks(path)]
    count = max(1, -(-len(chunks) // FILES_PER_TASK))
    slices = max(count, min(len(chunks), spark.sparkContext.defaultParallelism), 1)
    listed = spark.createDataFrame(chunks, _CHUNK).repartition(slices)
    rows, notes = (listed.mapInArrow(each, schema.BRONZE) for each in (read_chunks, read_notes))
    return Bronze(rows, notes, tuple(missing), all(path.suffix == PARQUET_SUFFIX for path in files))


def kept(bronze: Bronze, *, rows_too: bool) -> Bronze:
    """The same, with the notes at hand; with the rows too where they are needed more than once, or may change.

    To read a file twice costs less than to keep its rows.
    """
    if not rows_too and bronze.is_final:
        return bronze._replace(notes=together(bronze.notes))
    rows = bronze.rows.localCheckpoint(eager=True)
    return bronze._replace(rows=rows, notes=together(rows.where(is_note())))


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
                yield each


def _chunks(path: Path) -> list[tuple[str, int, int]]:
    if path.suffix != PARQUET_SUFFIX:
        return [(str(path), 0, 0)]
    arrow = require_pyarrow()
    try:
        count = arrow.parquet.read_metadata(path).num_row_groups
    except (arrow.ArrowException, OSError, ValueError):
        count = 0  # the task that reads it will say why it cannot
    ends = range(0, max(count, 1), GROUPS_PER_TASK)
    return [(str(path), first, first + GROUPS_PER_TASK) for first in ends]
