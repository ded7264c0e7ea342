"""Packets and bytes by link as the daemons counted them, and what they had to send again.

A daemon records now and then what each of its links has counted since its network began (`linkcount`); the last such
row has it all. A record that was cut lacks what came after it: then a figure is a lower bound.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.form import dimension, measured, undivided
from isotone.pipeline.metrics.messages import Traffic, daemon_sends
from isotone.pipeline.silver import LINK_COUNT

_COUNTS = {
    "link packets sent": ("packets", "packets_sent"),
    "link packets received": ("packets", "packets_received"),
    "link packets resent": ("packets", "packets_resent"),
    "link packets asked for": ("packets", "requests_sent"),
    "link packets twice": ("packets", "duplicates"),
    "link bytes sent": ("bytes", "bytes_sent"),
    "link bytes received": ("bytes", "bytes_received"),
}
"""Metrics by the counts they are; each measurement is one link of one daemon view at one daemon."""
_EXTRA = "link string, protocol string, to array<string>, " + ", ".join(
    f"{count} bigint" for _, count in _COUNTS.values()
)
_USE = ("run", "node", "incarnation", "network", "link", "protocol")


def links(traffic: Traffic) -> list[DataFrame]:
    """What every link carried, the share that was sent again, and what one broadcast of a daemon cost in packets."""
    uses = _uses(traffic.changes).localCheckpoint(eager=True)  # a few rows, of which much is asked
    if uses.isEmpty():
        return []
    told = uses.select("run", "node", "link", "protocol", F.explode(F.array(*_figures())).alias("told"))
    flat = told.select("run", "node", "link", "protocol", "told.*")
    counts = measured(
        flat, F.col("metric"), F.col("unit"), F.col("value"), F.col("weight"),
        undivided(), _link(), dimension("node", F.col("node")), dimension("protocol", F.col("protocol")),
    )  # fmt: skip
    return [counts, *_per_broadcast(uses, daemon_sends(traffic))]


def _uses(rows: DataFrame) -> DataFrame:
    counted = rows.where(F.col("kind") == LINK_COUNT).withColumn("of", F.from_json("extra", _EXTRA))
    flat = counted.select("run", "node", "incarnation", "network", "of.*")
    return flat.groupBy(*_USE).agg(*(F.max(count).alias(count) for _, count in _COUNTS.values()))


def _figures() -> list[Column]:
    counts = [_figure(metric, unit, F.col(count), F.lit(1)) for metric, (unit, count) in _COUNTS.items()]
    again = F.when(F.col("packets_sent") > 0, F.col("packets_resent") / F.col("packets_sent"))
    return [*counts, _figure("link share resent", "share", again, F.col("packets_sent"))]


def _figure(metric: str, unit: str, value: Column, weight: Column) -> Column:
    return F.struct(
        F.lit(metric).alias("metric"),
        F.lit(unit).alias("unit"),
        value.cast("double").alias("value"),
        weight.cast("bigint").alias("weight"),
    )


def _link() -> Column:
    return dimension("link", F.concat(F.col("node"), F.lit(" on "), F.col("link")))


def _per_broadcast(uses: DataFrame, sends: DataFrame) -> list[DataFrame]:
    """Packets and bytes of all links over what daemons sent to their daemon views."""
    totals = uses.groupBy("run").agg(F.sum("packets_sent").alias("packets"), F.sum("bytes_sent").alias("bytes"))
    both = totals.join(sends, on="run", how="inner")
    return [
        measured(both, f"link {what} per broadcast", what, F.col(what) / F.col("sends"), F.col("sends"), undivided())
        for what in ("packets", "bytes")
    ]
