"""The bank on Spark: its total at every position of the log. ``python examples/ledger/totals.py ARCHIVE``."""

from __future__ import annotations

import sys

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from isotone.pipeline.log.databases import row_changes
from isotone.pipeline.log.source import register
from isotone.pipeline.session import session


def changes_of(spark: SparkSession, archive: str) -> DataFrame:
    """The changes of accounts, a row for each."""
    register(spark)
    log = spark.read.format("isotone").option("archive", f"{archive}/changes").load()
    return row_changes(log).where("table = 'account' AND kind IN ('insert', 'update', 'delete')")


def totals(changes: DataFrame) -> DataFrame:
    """Position and total of all balances there, for each position that changed an account."""

    def balance(row: str) -> Column:
        return F.coalesce(F.get_json_object(row, "$.balance").cast("bigint"), F.lit(0))

    moved = changes.groupBy("position").agg(F.sum(balance("new") - balance("old")).alias("moved"))
    up_to_here = Window.orderBy("position").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return moved.select("position", F.sum("moved").over(up_to_here).alias("total"))


if __name__ == "__main__":
    found = totals(changes_of(session(None, is_small=True), sys.argv[1]))
    for row in found.groupBy("total").agg(F.count("*").alias("positions")).collect():
        print(f"total {row['total']} at {row['positions']} positions")
