"""What makes little data quick: rows that need no Python process to be made, and rows that need not be moved to meet.

In a session for little data (`isotone.pipeline.session`) a table is one partition. Where everything is in one place
Spark plans no exchange for joins, groups and windows, and each exchange costs a stage, tasks and files.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from isotone.trace.parquet import require_pyarrow

PARTITIONS = "spark.sql.shuffle.partitions"
ONE_BYTES_MAX = 1 << 20
"""Trace files of more bytes together are judged sooner by two cores than by one."""
SEVERAL = "2"


def as_one(rows: DataFrame) -> DataFrame:
    """The same rows; in a session for little data in one partition."""
    return rows.coalesce(1) if is_in_one(rows.sparkSession) else rows


def is_in_one(spark: SparkSession) -> bool:
    """Whether tables of this session are one partition."""
    return spark.conf.get(PARTITIONS) == "1"


def in_several(spark: SparkSession) -> None:
    """From now on tables of this session are more than one partition."""
    if is_in_one(spark):
        spark.conf.set(PARTITIONS, SEVERAL)


def rows_of(spark: SparkSession, rows: Iterable[Sequence[Any]], form: str) -> DataFrame:
    """A table of these rows. Unlike Spark's own way from a list it is plain data, and no worker has to unpickle it."""
    columns = StructType.fromDDL(form)
    assert isinstance(columns, StructType)
    told = to_arrow_schema(columns)
    arrow = require_pyarrow()
    values = list(zip(*rows, strict=True)) or [() for _ in columns.names]
    arrays = [arrow.array(list(some), type=field.type) for some, field in zip(values, told, strict=True)]
    return spark.createDataFrame(arrow.Table.from_arrays(arrays, schema=told), columns)
