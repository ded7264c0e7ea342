"""Bundles compared over all records at once: one sum per bundle and group says whether everyone had it alike.

A bundle is *plain* when all members of the view in which it was sent had it in that view, before its signal: it can
break nothing that compares processes. Only the rest, the *loose* ones at the ends of views, goes on row by row.

Implements: [Spread 2.6], [Spread Definition 2.7], and the easy part of what compares processes. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import AGREED, DAEMONS, RELIABLE, SAFE

_BUNDLE = ("run", "boundary", "sender", "first")
_KEY = (*_BUNDLE, "group")


def bundles(told: DataFrame) -> DataFrame:
    """One row per bundle and group."""
    is_send = F.col("is_send")
    delivered = ~is_send
    stamper = F.xxhash64("stamper", "stamper_incarnation")
    summed = (
        told.where("facts IS NULL")
        .groupBy(*_KEY)
        .agg(
            F.count(F.when(is_send, 1)).alias("sends"),
            F.count(F.when(delivered, 1)).alias("rows"),
            F.min("form").alias("form"),
            (F.min("form") != F.max("form")).alias("is_misfit"),
            F.coalesce(F.min("content") != F.max("content"), F.lit(False)).alias("is_altered"),
            F.max("service").alias("service"),
            F.max("count").alias("count"),
            F.min(F.when(delivered, F.col("lamport"))).alias("lamport"),
            F.max(F.when(delivered, F.col("lamport"))).alias("high"),
            F.min(F.when(delivered, stamper)).alias("stamper"),
            F.max(F.when(delivered, stamper)).alias("high_stamper"),
            F.max("floor").alias("floor"),
            F.min(F.when(delivered, F.col("view"))).alias("view"),
            F.max(F.when(delivered, F.col("view"))).alias("high_view"),
            F.max(F.when(is_send, F.col("view"))).alias("sent_view"),
            F.max("is_late").alias("is_late"),
            F.max("is_counting").alias("is_counting"),
            F.sum("holders").alias("holders"),
            F.max("size").alias("size"),
        )
    )
    return summed.select(
        *_KEY, "form", "count", "service", "lamport", "stamper", "floor", "size", "rows", "is_counting",
        (F.col("sends") + F.col("rows")).alias("told"),
        (F.col("sent_view") != 0).alias("is_inside"), _is_wrong().alias("is_wrong"), "is_altered",
        (_is_plain() & ~_is_wrong() & ~F.col("is_altered")).alias("is_plain"),
    )  # fmt: skip


def _is_wrong() -> Column:
    """Not as it was sent, sent twice, of several stamps, or not above what its node had delivered."""
    several = (F.col("lamport") != F.col("high")) | (F.col("stamper") != F.col("high_stamper"))
    late = F.coalesce(F.col("floor") >= F.col("lamport"), F.lit(False))
    return (
        (F.col("sends") > 1) | F.col("is_misfit") | late
        | ((F.col("service") >= RELIABLE) & F.coalesce(several, F.lit(False)))
    )  # fmt: skip


def _is_plain() -> Column:
    unheard = (F.col("rows") == 0) & (F.col("sent_view") == 0)
    together = (F.col("view") == F.col("high_view")) & ~F.col("is_late") & (F.col("holders") == F.col("size"))
    there = F.col("sent_view").isin(0) | (F.col("sent_view") == F.col("view"))
    return (F.col("service") < RELIABLE) | F.coalesce(unheard | ((F.col("rows") > 0) & together & there), F.lit(False))


def notes(bundle: DataFrame) -> DataFrame:
    """Per run and boundary in a few rows: what is wrong, and what the plain bundles exercised."""
    sender = Window.partitionBy("run", "boundary", "sender").orderBy("first")
    heard = bundle.where("rows > 0")
    earlier = {
        "before": "lamport", "early": "first", "early_count": "count", "early_form": "form", "other": "stamper",
    }  # fmt: skip
    before = heard.withColumns({name: F.lag(column).over(sender) for name, column in earlier.items()})
    falling = F.coalesce((F.col("before") >= F.col("lamport")) & (F.col("early") != F.col("first")), F.lit(False))
    stamped = (F.col("before") != F.col("lamport")) | (F.col("other") != F.col("stamper"))
    torn = (F.col("early_form") != F.col("form")) | ((F.col("service") >= RELIABLE) & stamped)
    is_torn = F.coalesce((F.col("early") == F.col("first")) & torn, F.lit(False))
    into = (F.col("early") != F.col("first")) & (F.col("early") + F.col("early_count") > F.col("first"))
    is_overlapping = F.coalesce(into, F.lit(False))
    strong = F.col("is_plain") & (F.col("service") >= RELIABLE)
    is_sane = F.col("service") >= F.when(F.col("boundary") == DAEMONS, RELIABLE).otherwise(AGREED)
    counting = strong & is_sane & F.col("is_inside") & F.col("is_counting")
    summed = before.groupBy("run", "boundary", "sender").agg(
        F.max(falling | is_torn | is_overlapping).alias("is_wrong"),  # torn: another one in another of its groups
        F.min("lamport").alias("lamport"),
        F.max(strong & (F.col("size") > 1)).alias("is_shared"),
        F.max(counting).alias("is_placed"),
        F.max(strong & (F.col("service") == SAFE) & (F.col("size") > 1)).alias("is_safe"),
        F.min(F.when(F.col("told") == F.col("rows"), F.col("first"))).alias("unsent"),
    )
    broken = bundle.where("is_wrong OR is_altered").select("run", "boundary", "is_wrong", "is_altered").distinct()
    return summed.unionByName(_twice(heard), allowMissingColumns=True).unionByName(broken, allowMissingColumns=True)


def _twice(heard: DataFrame) -> DataFrame:
    """Runs in which two bundles have one stamp."""
    reliable = heard.where(F.col("service") >= RELIABLE)
    who = F.xxhash64("sender", "first")
    shared = reliable.groupBy("run", "boundary", "lamport", "stamper").agg(
        F.min(who).alias("one"), F.max(who).alias("other")
    )
    return shared.where("one != other").select("run", "boundary", F.lit(True).alias("is_wrong")).distinct()


def keys(bundle: DataFrame, heights: DataFrame) -> DataFrame:
    """The bundles that an exact comparison of processes needs: the loose ones, and those of these stamps."""
    stamper = F.xxhash64("height.name", "height.incarnation")
    wanted = heights.select("run", "boundary", F.col("height.lamport").alias("lamport"), stamper.alias("stamper"))
    found = bundle.join(F.broadcast(wanted.distinct()), on=["run", "boundary", "lamport", "stamper"], how="left_semi")
    return bundle.where("NOT is_plain").select(*_BUNDLE).unionByName(found.select(*_BUNDLE)).distinct()


def loose(told: DataFrame, bundle: DataFrame) -> DataFrame:
    """The rows of bundles that are not plain."""
    return told.where("facts IS NULL").join(bundle.where("NOT is_plain").select(*_KEY), on=list(_KEY), how="left_semi")


def crowded(bundle: DataFrame, most: int) -> DataFrame:
    """Runs with more rows of loose bundles than that."""
    counts = bundle.where("NOT is_plain").groupBy("run").agg(F.sum("told").alias("_told"))
    return counts.where(F.col("_told") > most).select("run")
