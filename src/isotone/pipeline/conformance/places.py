"""In which view a message may be delivered: not before that of its send, not after its sender came back, all in one.

Implements: [Spread 2.9], [Spread 2.18], [Spread 2.19]. Deviations: D-other-side.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.stays import FIRST
from isotone.pipeline.conformance.terms import (
    BUNDLE,
    HOME,
    MESSAGE,
    PROCESS,
    RELIABLE,
    SEND,
    SIDE,
    comparable,
    event,
    findings,
    is_daemons,
    sane_from,
    two_first,
    witness,
)


def same_view_delivery(n: Normal) -> DataFrame:
    """2.18: all who deliver a message deliver it in one view of a group; at EVS-C before the signals."""
    bound = n.inside.where((F.col("service") >= RELIABLE) & (is_daemons() | ~F.col("is_late")))
    key = (*MESSAGE, "group")
    who = F.struct("node", "incarnation", "process")
    summary = bound.groupBy(*key).agg(
        F.min("stay.view").alias("low"),
        F.max("stay.view").alias("high"),
        F.min(who).alias("one"),
        F.max(who).alias("other"),
    )
    exercised = summary.where("one != other")
    suspects = summary.where("low != high").select(*key)
    told = bound.join(suspects, on=list(key), how="left_semi")
    told = told.select(*key, F.col("stay.view").alias("view"), event().alias("event"))
    return findings(exercised, two_first(told, key, "view"))


def sane_view_delivery(n: Normal) -> DataFrame:
    """2.9.1 and 2.19.1: not delivered in a view before that of the send."""
    sent = n.placed.where((F.col("code") == SEND) & F.col("stay").isNotNull() & (F.col("service") >= sane_from()))
    homes = n.homes.select(*HOME, "loss")
    asked = F.coalesce(F.col("leaves") > 0, F.lit(False)) | F.coalesce(F.col("loss") < F.col("index"), F.lit(False))
    counts = (
        sent.join(homes, on=list(HOME), how="left")
        .where(is_daemons() | ~asked)
        .select(*SIDE, "sender", F.col("first").alias("bundle"), "group", F.col("stay.view").alias("sent_view"))
    )
    delivered = n.inside.where((F.col("service") >= sane_from()) & F.col("sent").isNotNull())
    views = delivered.groupBy(*BUNDLE, "group", F.col("stay.view").alias("view"), "sent").agg(
        F.min(event()).alias("event")
    )
    judged = views.join(counts, on=[*BUNDLE, "group"], how="inner")
    broken = judged.where(F.col("view") < F.col("sent_view")).select(*SIDE, witness(F.col("sent"), F.col("event")))
    return findings(judged, broken)


def sane_after_return(n: Normal) -> DataFrame:
    """2.9.2 and 2.19.2: messages of a session that ended are delivered before the view of its name's return."""
    latest = _latest(n.inside.where("sent IS NOT NULL"))
    judged = latest.join(_returns(n), on=[*SIDE, "sender", "group"], how="inner")
    broken = judged.where(F.col("place") >= comparable(F.col("back.view")))
    back = F.struct(
        F.col("back.node").alias("node"),
        F.col("back.incarnation").alias("incarnation"),
        F.col("back.index").alias("index"),
    )
    return findings(judged, broken.select(*SIDE, witness(F.col("best.event"), back, F.col("best.sent"))))


def _latest(delivered: DataFrame) -> DataFrame:
    """Per sender and group: the highest view in which a message was delivered, and its first delivery there."""
    key = (*SIDE, "sender", "group")
    views = delivered.groupBy(*key, F.col("stay.view").alias("view")).agg(
        F.min(F.struct(event().alias("event"), "sent")).alias("best")
    )
    placed = views.groupBy(*key, comparable(F.col("view")).alias("place")).agg(F.min("best").alias("best"))
    return placed.groupBy(*key).agg(F.max("place").alias("place"), F.max_by("best", "place").alias("best"))


def _returns(n: Normal) -> DataFrame:
    """Per ended session and group: the first view that a later session of the name installed."""
    ended = n.processes.where("NOT is_ghost AND end IS NOT NULL").select(
        *SIDE,
        "name",
        F.col("process").alias("sender"),
        F.struct("incarnation", F.col("end").alias("index")).alias("ended"),
    )
    firsts = n.stays.where((F.col("origin") == FIRST) & ~F.col("is_ghost")).select(
        *SIDE, "name", *PROCESS[4:], "group", F.struct("incarnation", "index", "view", "node").alias("back")
    )
    later = firsts.join(ended, on=[*SIDE, "name"], how="inner").where(
        (F.col("process") != F.col("sender")) & (F.struct("back.incarnation", "back.index") > F.col("ended"))
    )
    return later.groupBy(*SIDE, "sender", "group").agg(F.min("back").alias("back"))
