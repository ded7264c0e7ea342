"""The reliable network below: who may use it, that it loses, alters and repeats nothing, and that it ends.

Implements: [Spread 2.21], [Spread 2.22], [Spread 2.23]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import SIDE, findings, two_first, witness
from isotone.pipeline.silver import daemon_name

_MESSAGE = ("run", "boundary", "network", "sender", "first")


def _traffic() -> Column:
    return F.col("kind").isin("nmcast", "nreceive")


def server_set(n: Normal) -> DataFrame | None:
    """2.21."""
    uses = n.uses
    if uses is None:
        return None
    traffic = uses.where(_traffic())
    starts = uses.where(F.col("kind") == "ninit")
    again = starts.groupBy(*SIDE, "network").count().where("count > 1")
    differing = two_first(starts, (*SIDE, "network"), "servers").select(*SIDE, "witness")
    outside = traffic.where("NOT is_inside AND NOT is_doubtful")
    peers = F.array("daemon", F.coalesce("sender", "daemon"))
    strangers = traffic.where("is_inside").where(F.size(F.array_except(peers, F.col("use.servers"))) > 0)
    wrong = outside.unionByName(strangers).select(*SIDE, witness(F.col("use.event"), F.col("event")))
    exercised = traffic.select(*SIDE).unionByName(again.select(*SIDE))
    return findings(exercised, differing.unionByName(wrong).unionByName(_never_began(n, uses)))


def _settled(n: Normal) -> DataFrame:
    return n.runs.where("is_settled AND NOT is_lossy").select("run", "components")


def _broken(uses: DataFrame) -> DataFrame:
    """Networks with a failed link or a crashed server."""
    failed = uses.where(F.col("kind") == "linkfailed").select(*SIDE, "network")
    crashed = uses.where("kind = 'crash' AND use IS NOT NULL").select(*SIDE, F.col("use.network").alias("network"))
    return failed.unionByName(crashed).distinct()


def _users(uses: DataFrame) -> DataFrame:
    """Who uses which network at the end."""
    order = F.struct("incarnation", "index")
    turning = uses.where(F.col("kind").isin("ninit", "crash", "gap", "truncated"))
    last = turning.groupBy(*SIDE, "node").agg(
        F.max_by(F.struct("kind", "daemon", "network", "servers", "event"), order).alias("last")
    )
    return last.where("last.kind = 'ninit'").select(
        *SIDE, "node", "last.daemon", "last.network", "last.servers", "last.event"
    )


def _never_began(n: Normal, uses: DataFrame) -> DataFrame:
    """A living server within reach that never began what one still uses with it."""
    users = _users(uses).join(_settled(n), on="run", how="inner")
    users = users.join(_broken(uses), on=[*SIDE, "network"], how="left_anti")
    component = F.get(F.filter("components", lambda each: F.array_contains(each, F.col("node"))), F.lit(0))
    wanted = users.select(*SIDE, "network", "event", component.alias("near"), F.explode("servers").alias("daemon"))
    began = uses.where("kind = 'ninit'").select(*SIDE, "network", "daemon").distinct()
    home = F.concat("node", F.lit("#"), F.col("incarnation").cast("string")).alias("daemon")
    crashed = uses.where("kind = 'crash'").select(*SIDE, home).distinct()
    missing = wanted.join(began, on=[*SIDE, "network", "daemon"], how="left_anti").join(
        crashed, on=[*SIDE, "daemon"], how="left_anti"
    )
    near = F.coalesce(F.array_contains("near", daemon_name(F.col("daemon"))), F.lit(False))
    return missing.where(near).select(*SIDE, witness(F.col("event")))


def network_end(n: Normal) -> DataFrame | None:
    """2.23: nothing between a failed link and the next start."""
    uses = n.uses
    if uses is None:
        return None
    exercised = uses.where((F.col("kind") == "linkfailed") & F.col("is_inside"))
    broken = uses.where(_traffic() & F.col("is_inside") & F.col("failed").isNotNull())
    return findings(exercised, broken.select(*SIDE, witness(F.col("failed"), F.col("event"))))


# --- 2.22 ------------------------------------------------------------------------------------------------------------


def reliable_multicast(n: Normal) -> DataFrame | None:
    """2.22: received once and unaltered by all, unless a link fails or a server crashes."""
    uses = n.uses
    if uses is None:
        return None
    sent = _multicasts(uses)
    received = uses.where("kind = 'nreceive' AND (is_inside OR is_doubtful)")
    order = Window.partitionBy(*_MESSAGE, "daemon").orderBy("incarnation", "index")
    turned = received.withColumn("turn", F.row_number().over(order))
    twice = turned.where("turn = 2").select(*SIDE, witness(F.col("event")))
    known = turned.where("turn = 1").join(sent, on=list(_MESSAGE), how="left")
    owed = F.col("to").isNull() | F.array_contains("to", F.col("daemon"))
    altered = known.where(F.col("sent").isNotNull() & owed & (F.col("digest") != F.col("sent_digest")))
    early = known.where(
        (F.col("daemon") == F.col("sender")) & (F.col("sent.node") == F.col("node")) & (F.col("event") < F.col("sent"))
    )
    whole = n.runs.where("NOT is_lossy").select("run")
    unsent = known.where("sent IS NULL").join(whole, on="run", how="left_semi").select(*SIDE, witness(F.col("event")))
    wrong = altered.unionByName(early).select(*SIDE, witness(F.col("sent"), F.col("event")))
    awaited, lost = _owed(n, uses, sent, turned)
    exercised = received.select(*SIDE).unionByName(awaited.select(*SIDE))
    return findings(exercised, twice.unionByName(wrong).unionByName(unsent).unionByName(lost))


def _multicasts(uses: DataFrame) -> DataFrame:
    """The first multicast of each sequence, and to whom it is owed."""
    sends = uses.where("kind = 'nmcast'").withColumn("sender", F.col("daemon"))
    to = F.when(F.col("is_inside"), F.col("use.servers"))
    first = F.min(F.struct("event", F.col("digest").alias("digest"), to.alias("to")))
    return (
        sends.groupBy(*_MESSAGE)
        .agg(first.alias("first_send"))
        .select(
            *_MESSAGE,
            F.col("first_send.event").alias("sent"),
            F.col("first_send.digest").alias("sent_digest"),
            F.col("first_send.to").alias("to"),
        )
    )


def _owed(n: Normal, uses: DataFrame, sent: DataFrame, received: DataFrame) -> tuple[DataFrame, DataFrame]:
    """At a quiet end: what servers that still use the network did not receive from those that do."""
    users = _users(uses).select(*SIDE, "network", "daemon").distinct()
    whole = sent.where("to IS NOT NULL").join(_settled(n).select("run"), on="run", how="left_semi")
    whole = whole.join(_broken(uses), on=[*SIDE, "network"], how="left_anti")
    senders = users.withColumnRenamed("daemon", "sender")
    awaited = whole.join(senders, on=[*SIDE, "network", "sender"], how="left_semi")
    wanted = awaited.select(*_MESSAGE, "sent", F.explode("to").alias("daemon"))
    wanted = wanted.join(users, on=[*SIDE, "network", "daemon"], how="left_semi")
    lost = wanted.join(received.select(*_MESSAGE, "daemon"), on=[*_MESSAGE, "daemon"], how="left_anti")
    return awaited, lost.select(*SIDE, witness(F.col("sent")))
