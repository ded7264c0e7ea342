"""A stream that a test kills, an archive into the log: ``-m tests.pipeline.log.copying ARCHIVE REPLICA PLACE``."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.log.source import register
from isotone.pipeline.session import session

QUERY, AT_ONCE = "copy", 40


def copy(spark: SparkSession, archive: Path, replica: str, place: Path, starting: str = "earliest") -> None:
    """Go on to the end that the archive has now.

    What goes into the log is different at each attempt: behind each record stands a number that is drawn.
    """
    register(spark)
    source = {"archive": str(archive), "maxRecordsPerBatch": str(AT_ONCE), "startingPosition": starting}
    drawn = F.concat(F.col("record"), F.lit(b"|"), F.rand().cast("string").cast("binary"))
    rows = spark.readStream.format("isotone").options(**source).load().select(drawn.alias("record"))
    writer = rows.writeStream.format("isotone").options(replica=replica, query=QUERY)
    writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    copy(session("local[2]", is_small=True), Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
