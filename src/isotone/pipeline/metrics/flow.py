"""What was sent, delivered and carried: over time, by node, service and link, per broadcast; repeats; who lags.

Here are messages; packets, and what had to be sent again, are in `links`. *Repeated* is what the reliable network
below (`nmcast`, `nreceive`) handed to a daemon more than once.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.metrics.form import dimension, measured, undivided
from isotone.pipeline.metrics.messages import Traffic, by_size, daemon_sends, service_name, who
from isotone.pipeline.silver import daemon_name


def _time() -> Column:
    seconds = F.col("step") / F.lit(1_000_000)
    return dimension("time", F.format_number(seconds, 3), seconds, F.col("width_us") / F.lit(1_000_000))


def _node() -> Column:
    return dimension("node", F.col("node"))


def _service() -> Column:
    return dimension("service", service_name(), F.col("service"))


def _link(here: Column, there: Column) -> Column:
    return dimension("link", F.concat(here, F.lit(" → "), there))


def flow(traffic: Traffic) -> list[DataFrame]:
    """Messages (``count``) and bytes (``total``) sent, delivered, and carried from node to node."""
    size, times = F.col("each.size"), F.col("each.times")
    sent = measured(
        by_size(traffic.sends), who("sent"), "bytes", size, times, undivided(), _time(), _node(), _service()
    )
    delivered = measured(
        by_size(traffic.receipts), who("delivered"), "bytes", size, times * F.col("receivers"),
        undivided(), _time(), _node(), _service(),
    )  # fmt: skip
    known = traffic.receipts.where("sent_at IS NOT NULL")
    carried = measured(
        by_size(known.where("sent_node != node")), who("carried"), "bytes", size, times,
        undivided(), _link(F.col("sent_node"), F.col("node")),
    )  # fmt: skip
    return [sent, delivered, carried, _per_broadcast(known), _lag(known)]


def _per_broadcast(known: DataFrame) -> DataFrame:
    """Bytes that reach other nodes for one send."""
    away = F.when(F.col("sent_node") != F.col("node"), F.col("bytes")).otherwise(0)
    spread = known.groupBy("run", "boundary", "sender", "first", "service").agg(F.sum(away).alias("carried"))
    return measured(
        spread, who("carried per broadcast"), "bytes", F.col("carried"), F.lit(1), undivided(), _service()
    )  # fmt: skip


def _lag(known: DataFrame) -> DataFrame:
    """How much later than the first node each node delivers a bundle."""
    bundle = Window.partitionBy("run", "boundary", "sender", "first")
    behind = known.withColumn("behind", F.col("at") - F.min("at").over(bundle))
    return measured(behind, who("lag"), "us", F.col("behind"), F.col("count"), undivided(), _node())


def network(traffic: Traffic) -> list[DataFrame]:
    """Messages of the network below, by link and per broadcast; what came more than once. Mostly it is not recorded."""
    if traffic.lives.where("multicasts > 0 OR received > 0").isEmpty():
        return []
    message = ("run", "network", "sender", "first")
    times = traffic.network.groupBy(*message, "node").agg(F.count("*").alias("times")).localCheckpoint(eager=True)
    by_link = _link(daemon_name(F.col("sender")), F.col("node"))
    links = measured(times, "network received", "messages", F.lit(1), F.col("times"), undivided(), by_link)
    repeated = measured(
        times.where("times > 1"), "network repeated", "messages", F.col("times") - 1, F.lit(1), undivided(), by_link
    )
    receipts = times.groupBy(*message).agg(F.sum("times").alias("receipts"))
    per_multicast = measured(receipts, "network receipts per multicast", "messages", F.col("receipts"), F.lit(1),
                             undivided())  # fmt: skip
    return [links, repeated, per_multicast, _per_send(traffic)]


def _per_send(traffic: Traffic) -> DataFrame:
    counts = traffic.lives.groupBy("run").agg(F.sum("multicasts").alias("multicasts")).where("multicasts > 0")
    both = counts.join(daemon_sends(traffic), on="run", how="inner")
    ratio = F.col("multicasts") / F.col("sends")
    return measured(both, "network multicasts per broadcast", "messages", ratio, F.lit(1), undivided())
