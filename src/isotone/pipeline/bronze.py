"""Bronze: trace files as they were written, of any mix of nodes, runs and forms, as one table.

A file that cannot be read is named with the reason and left out; a part of a record up to where it is damaged. Large
Parquet files are read in several tasks.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.core.errors import InputError
from isotone.pipeline import schema
from isotone.pipeline.files import read_chunks
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
    """What was read: ``rows`` has rows, parts and problems (by kind); ``missing`` what was not even opened."""

    rows: DataFrame
    missing: tuple[Problem, ...]


def read_bronze(spark: SparkSession, paths: Iterable[Path]) -> Bronze:
    """All trace files at and below these paths."""
    chunks: list[tuple[str, int, int]] = []
    missing: list[Problem] = []
    for path in found_files(paths, missing):
        chunks += _chunks(path)
    count = max(1, -(-len(chunks) // FILES_PER_TASK))
    slices = max(count, min(len(chunks), spark.sparkContext.defaultParallelism), 1)
    listed = spark.createDataFrame(chunks, _CHUNK).repartition(slices)
    return Bronze(listed.mapInArrow(read_chunks, schema.BRONZE), tuple(missing))


def problems(bronze: Bronze) -> tuple[Problem, ...]:
    """Every file that was not read to its end, by name."""
    found = bronze.rows.where(F.col("kind") == schema.PROBLEM).select("file", "reason").distinct().collect()
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
