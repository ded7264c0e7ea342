"""What a column of a replicated table adds up to, at every position of the log.

Implements: [DESIGN 5], tables as of one position. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def totals(changes: DataFrame, table: str, column: str) -> DataFrame:
    """``position`` and ``total`` for each position that changed this table; ``changes`` as `row_changes` gives them."""

    def amount(row: str) -> Column:
        return F.coalesce(F.get_json_object(row, f"$.{column}").cast("bigint"), F.lit(0))

    rows = changes.where((F.col("table") == table) & F.col("kind").isin("insert", "update", "delete"))
    moved = rows.groupBy("position").agg(F.sum(amount("new") - amount("old")).alias("moved"))
    up_to_here = Window.orderBy("position").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return moved.select("position", F.sum("moved").over(up_to_here).alias("total"))
