"""Little data stays in one place, and is made without a worker."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.little import as_one, in_several, is_in_one, rows_of

FORM = "run string, place int, witness array<struct<node: string, index: bigint>>, is_good boolean"
ROWS = [("a", 1, [("d1", 7)], True), ("b", None, None, False), ("a", 3, [], None)]


def _plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


def test_rows_are_as_they_were_told(spark: SparkSession) -> None:
    made = rows_of(spark, ROWS, FORM)
    assert made.collect() == spark.createDataFrame(ROWS, FORM).collect()
    assert made.schema == spark.createDataFrame(ROWS, FORM).schema
    assert "LocalTableScan" in _plan(made)
    nothing = rows_of(spark, [], FORM)
    assert (nothing.collect(), nothing.schema) == ([], made.schema)


def test_what_is_in_one_place_is_not_moved(spark: SparkSession) -> None:
    rows = spark.range(8).repartition(3).localCheckpoint(eager=True)
    kept = as_one(rows).localCheckpoint(eager=True)
    both = kept.groupBy((F.col("id") % 2).alias("id")).count().join(kept.hint("merge"), on="id", how="inner")
    assert "Exchange" not in _plan(both)
    assert sorted(row["id"] for row in both.collect()) == [0, 1]


def test_in_other_sessions_rows_stay_where_they_are(spread: SparkSession) -> None:
    rows = spread.range(8)
    assert as_one(rows) is rows


def test_a_session_for_more_than_little_has_several_partitions(spark: SparkSession) -> None:
    other = spark.newSession()
    assert is_in_one(other)
    for _ in range(2):
        in_several(other)
        assert not is_in_one(other)
    assert is_in_one(spark)
