"""What a picture of a run needs: who was in which view when, with the crashes, restarts and cuts, in common time.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.messages import CHANGES, Traffic

TIMELINE = (
    "run string, node string, incarnation bigint, index bigint, at bigint, kind string, clients array<string>, "
    "group string, view string, members array<string>, reason string, components array<array<string>>"
)


def timeline(traffic: Traffic) -> DataFrame:
    """The rows that change something for a node; one more at the end of each record."""
    told = traffic.changes.where(F.col("kind").isin(*CHANGES)).select(
        "run", "node", "incarnation", "index", "at", "kind", "clients", F.get("groups", F.lit(0)).alias("group"),
        _view_text().alias("view"), "members", "reason", "components",
    )  # fmt: skip
    ends = traffic.lives.select("run", "node", "incarnation", F.col("last").alias("at"), F.lit("last").alias("kind"))
    return told.unionByName(ends, allowMissingColumns=True)


def _view_text() -> Column:
    """A short name: the daemon view, and the stamp of the change within it."""
    view = F.col("view.daemon_view")
    told = F.concat(view["epoch"].cast("string"), F.lit("!"), view["name"])
    later = F.col("view.next_daemon_view")
    stamp = F.col("view.stamp")
    told = F.when(
        later["epoch"] > 0, F.concat(told, F.lit("→"), later["epoch"].cast("string"), F.lit("!"), later["name"])
    ).otherwise(told)
    told = F.when(stamp["lamport"] > 0, F.concat(told, F.lit(" +"), stamp["lamport"].cast("string"))).otherwise(told)
    return F.when(F.col("view").isNotNull(), told)
