"""The lines of all sites as a table that Spark keeps: ``python table.py HOST:PORT,… DIRECTORY [ARCHIVE]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from isotone.pipeline.log.source import register
from isotone.pipeline.session import session

COLUMNS = "site string, number bigint, line string"
ROWS, CHECKPOINT = "rows", "checkpoint"


def keep(spark: SparkSession, servers: str, place: Path, archive: str = "", **trigger: Any) -> StreamingQuery:
    """Write what the log has, as it grows, to Parquet files by site."""
    register(spark)
    source = {"replica": servers, "decode": "json", "columns": COLUMNS} | ({"archive": archive} if archive else {})
    rows = spark.readStream.format("isotone").options(**source).load().where("site IS NOT NULL")
    writer = rows.select("position", "site", "number", "line").writeStream.format("parquet").partitionBy("site")
    writer = writer.option("path", str(place / ROWS)).option("checkpointLocation", str(place / CHECKPOINT))
    return writer.trigger(**trigger).start()


def lines(spark: SparkSession, place: Path) -> DataFrame:
    """Each line once, with its position in the one order.

    A site sends a number when the one before is acknowledged. So of what stands in the log twice the first has a number
    above all that the site had before, and the second has not.
    """
    before = Window.partitionBy("site").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    rows = spark.read.parquet(str(place / ROWS)).withColumn("highest", F.max("number").over(before))
    return rows.where("highest IS NULL OR number > highest").drop("highest")


if __name__ == "__main__":
    started = session(None, is_small=True)
    keep(started, sys.argv[1], Path(sys.argv[2]), *sys.argv[3:], processingTime="1 second").awaitTermination()
