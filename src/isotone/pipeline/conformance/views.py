"""Views: each process's own, and those of two compared.

Implements: [Spread 2.2], [Spread 2.3], [Spread 2.4], [Spread 2.8.1], [Spread 2.20]. Deviations: D-first-view,
D-agreement.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.stays import FIRST, KNOWN, UNKNOWN, located_signals
from isotone.pipeline.conformance.terms import PLACE, SIDE, SIGNAL, event, findings, two_first, witness

VIEW = ("run", "boundary", "group", "view", "members")


def self_inclusion(n: Normal) -> DataFrame:
    """2.2: who installs a view is in it."""
    outside = n.stays.where(~F.array_contains("members", F.col("process")))
    return findings(n.stays, outside.select(*SIDE, witness(event())))


def local_monotonicity(n: Normal) -> DataFrame:
    """2.3: ids grow under one name."""
    later = n.stays.where("highest IS NOT NULL")
    place = F.struct(F.col("highest.node").alias("node"), -F.col("highest.incarnation"), -F.col("highest.index"))
    broken = later.where(F.col("highest.view") >= F.col("view"))
    return findings(
        later,
        broken.select(*SIDE, witness(place.cast("struct<node: string, incarnation: bigint, index: bigint>"), event())),
    )


def first_transitional_set(n: Normal) -> DataFrame:
    """2.4.1: one comes alone to a first view."""
    firsts = n.stays.where(F.col("origin") == FIRST)
    broken = firsts.where(F.col("transitional") != F.array("process"))
    return findings(firsts, broken.select(*SIDE, witness(event())))


def transitional_subset(n: Normal) -> DataFrame:
    """2.4.2: the transitional set lies within both views."""
    later = n.stays.where(F.col("origin") == KNOWN)
    common = F.array_intersect("members", "previous_members")
    broken = later.where(F.size(F.array_except("transitional", common)) > 0)
    return findings(later, broken.select(*SIDE, witness(event())))


def _arrivals(n: Normal) -> DataFrame:
    """Installations that can be compared; a first view has no previous one, and is like nobody's."""
    came = n.stays.where(F.col("is_regular") & (F.col("origin") != UNKNOWN))
    previous = F.when(F.col("origin") == KNOWN, F.col("previous"))
    return came.select(*VIEW, *PLACE[2:5], "index", "transitional", "origin", previous.alias("previous"))


def transitional_exact(n: Normal) -> DataFrame:
    """2.4.3: two are in each other's sets exactly when they came from the same view."""
    came = _arrivals(n)
    everyone = came.groupBy(*VIEW).agg(F.array_sort(F.collect_set("process")).alias("everyone"))
    later = came.where("previous IS NOT NULL").groupBy(*VIEW, "previous")
    company = later.agg(F.array_sort(F.collect_set("process")).alias("together"))
    known = came.join(everyone, on=list(VIEW), how="inner").join(company, on=[*VIEW, "previous"], how="left")
    is_first = F.col("previous").isNull()
    alone = F.array("process")
    expected = F.when(is_first, alone).otherwise(F.col("together"))
    found = F.array_intersect("transitional", "everyone")
    found = F.when(is_first, F.array_union(found, alone)).otherwise(found)
    wrong = F.array_union(F.array_except(found, expected), F.array_except(expected, found))
    judged = known.withColumn("wrong", wrong)
    accused = judged.where(F.size("wrong") > 0).select(
        *VIEW, event().alias("mine"), F.explode("wrong").alias("process")
    )
    others = came.select(*VIEW, "process", event().alias("theirs"))
    broken = accused.join(others, on=[*VIEW, "process"], how="inner")
    exercised = judged.where((F.size("everyone") > 1) | ~is_first)
    return findings(exercised, broken.select(*SIDE, witness(F.col("mine"), F.col("theirs"))))


def transitional_agreed(n: Normal) -> DataFrame:
    """2.4.4: who come together have equal sets."""
    came = _arrivals(n).where("previous IS NOT NULL").withColumn("event", event())
    key = (*VIEW, "previous")
    exercised = came.groupBy(*key).count().where("count > 1")
    return findings(exercised, two_first(came, key, "transitional"))


def one_signal(n: Normal) -> DataFrame:
    """2.8.1: at most one signal in a view."""
    signals = located_signals(n.touches.where(F.col("code") == SIGNAL), n.turns).where("at IS NOT NULL")
    several = signals.groupBy(*PLACE, "at").agg(F.array_sort(F.collect_list("index")).alias("all"))
    broken = several.where(F.size("all") > 1)
    told = witness(event(F.get("all", F.lit(0))), event(F.get("all", F.lit(1))))
    return findings(several, broken.select(*SIDE, told))


def membership_agreement(n: Normal) -> DataFrame:
    """2.20: one id, one set of members."""
    key = ("run", "boundary", "group", "view")
    installed = n.stays.withColumn("event", event())
    exercised = installed.groupBy(*key).count().where("count > 1")
    return findings(exercised, two_first(installed, key, "members"))
