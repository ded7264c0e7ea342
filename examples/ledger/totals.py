"""The bank on Spark: its total at every position of the log. ``python examples/ledger/totals.py ARCHIVE``."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.log.databases import row_changes
from isotone.pipeline.log.source import register
from isotone.pipeline.log.totals import totals
from isotone.pipeline.session import session


def changes_of(spark: SparkSession, archive: str) -> DataFrame:
    """The changes of rows, as the archive has them."""
    register(spark)
    log = spark.read.format("isotone").option("archive", f"{archive}/changes").load()
    return row_changes(log)


if __name__ == "__main__":
    found = totals(changes_of(session(None, is_small=True), sys.argv[1]), "account", "balance")
    for row in found.groupBy("total").agg(F.count("*").alias("positions")).collect():
        print(f"total {row['total']} at {row['positions']} positions")
