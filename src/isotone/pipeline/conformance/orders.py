"""The order in which each process delivers, and two processes two agreed messages.

Two orders are not looked for pair by pair: a process that has two messages against one order of all of them is found by
windows over what it delivered, and so are the messages that another has the other way round. Only those that share the
first of their rows are paired. The work grows with what is against that order and the number of different records.

Implements: [Spread 2.11.2], [Spread 2.13.2]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.stamps import doubtful_bundles
from isotone.pipeline.conformance.terms import (
    AGREED,
    BUNDLE,
    FIFO,
    MESSAGE,
    PROCESS,
    RELIABLE,
    SIDE,
    event,
    few,
    findings,
    kept,
    no_findings,
    witness,
)


def _firsts(n: Normal) -> DataFrame:
    return n.deliveries.where((F.col("turn") == 1) & (F.col("service") >= RELIABLE))


def along_senders(n: Normal) -> DataFrame:
    """Reliable deliveries with what the process had of the same sender: the lowest, and the highest that is FIFO."""
    order = Window.partitionBy(*PROCESS, "sender", "is_over").orderBy("index", "first")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    mark = F.max(F.when(F.col("service") >= FIFO, F.struct("last", (-F.col("index")).alias("index")))).over(before)
    low = F.min("first").over(before)
    ends = n.processes.where("end IS NOT NULL").select(*PROCESS, "end")
    over = F.coalesce(F.col("end") < F.col("index"), F.lit(False))  # what an ended process does begins anew
    firsts = _firsts(n).where("sent IS NOT NULL").join(ends, on=list(PROCESS), how="left").withColumn("is_over", over)
    return firsts.select(*PROCESS, "index", "first", "last", "service", mark.alias("mark"), low.alias("low"))


def follows() -> Column:
    """Whether it could have come in a wrong order among those of its sender."""
    return F.coalesce(F.col("low") < F.col("last"), F.lit(False)) | (F.col("first") < F.col("last"))


def fifo_order(n: Normal) -> DataFrame:
    """2.11.2: after a FIFO message no earlier reliable one of its sender."""
    judged = along_senders(n)
    exercised = judged.where((F.col("service") >= FIFO) & follows())
    broken = judged.where(F.col("first") < F.col("mark.last"))
    return findings(exercised, broken.select(*SIDE, witness(event(-F.col("mark.index")), event())))


def _after_agreed(n: Normal) -> DataFrame:
    """Reliable deliveries with the highest agreed stamp that the process had before."""
    order = Window.partitionBy(*PROCESS).orderBy("index", "first")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    agreed = F.max(F.when(F.col("service") >= AGREED, F.struct("stamp", (-F.col("index")).alias("index")))).over(before)
    return _firsts(n).select(*PROCESS, "sender", "bundle", "is_early", "index", "stamp", agreed.alias("agreed"))


def agreed_order(n: Normal) -> DataFrame:
    """2.13.2: stamps grow after agreed messages, and no two are delivered in two orders."""
    judged = _after_agreed(n).where("agreed IS NOT NULL")
    exercised = judged.where(-F.col("agreed.index") != F.col("index"))
    low = few(judged.where(F.col("stamp") < F.col("agreed.stamp")))
    suspects = few(low.select(*BUNDLE, "is_early").unionByName(doubtful_bundles(n)).distinct())
    broken = low.select(*SIDE, witness(event(-F.col("agreed.index")), event()))
    if suspects.isEmpty():
        return findings(exercised, broken)
    return findings(exercised, broken.unionByName(_two_orders(n, suspects)))


def _two_orders(n: Normal, suspects: DataFrame) -> DataFrame:
    """The first witness of two agreed messages, one of a bundle whose stamps are in doubt, in two orders."""
    lines = kept(_lines(n, suspects))
    moved = few(_displaced(lines, PROCESS, "place"))
    if moved.isEmpty():
        return no_findings(lines)
    return _first_crossing(few(_displaced(meetings(lines, moved), (*PROCESS, *_OTHER), "other_index")))


def _lines(n: Normal, suspects: DataFrame) -> DataFrame:
    """What processes delivered, one for all at its home that had the same, with the place of each message.

    Places are an order of all messages: by the stamp that the middle of their deliveries has, then by the first of
    these. If two processes have two messages in two orders, one of them has them against this order.
    """
    named = suspects.withColumn("is_doubtful", F.lit(True))
    agreed = _firsts(n).where(F.col("service") >= AGREED).join(named, on=[*BUNDLE, "is_early"], how="left")
    agreed = agreed.select(
        *PROCESS, "index", F.struct(*MESSAGE[2:]).alias("message"), F.col("stamp.lamport").alias("lamport"),
        F.coalesce("is_doubtful", F.lit(False)).alias("is_doubtful"),
    )  # fmt: skip
    sums = agreed.groupBy(*PROCESS).agg(
        F.bit_xor(F.xxhash64("message", "index")).alias("sum"), F.count("*").alias("count")
    )
    alike = sums.groupBy(*PROCESS[:4], "sum", "count").agg(F.min("process").alias("process"))
    lines = agreed.join(alike, on=list(PROCESS), how="left_semi")
    places = lines.groupBy(*SIDE, "message").agg(
        F.percentile_approx("lamport", 0.5).alias("lamport"), F.min(event()).alias("event")
    )
    places = places.select(*SIDE, "message", F.struct("lamport", "event", "message").alias("place"))
    return lines.drop("lamport").join(places, on=[*SIDE, "message"], how="inner")


def _displaced(lines: DataFrame, line: tuple[str, ...], value: str) -> DataFrame:
    """Messages of a line behind one of a higher value, or before one of a lower, if one of the two is in doubt."""
    frame = (Window.unboundedPreceding, -1)
    before = Window.partitionBy(*line).orderBy("index").rangeBetween(*frame)
    behind = Window.partitionBy(*line).orderBy(-F.col("index")).rangeBetween(*frame)
    here, in_doubt = F.col(value), F.when(F.col("is_doubtful"), F.col(value))
    marked = lines.withColumns(
        {
            "_high": F.when(F.col("is_doubtful"), F.max(here).over(before)).otherwise(F.max(in_doubt).over(before)),
            "_low": F.when(F.col("is_doubtful"), F.min(here).over(behind)).otherwise(F.min(in_doubt).over(behind)),
        }
    )
    return marked.where((F.col("_high") > here) | (F.col("_low") < here)).drop("_high", "_low")


_OTHER = ("other_node", "other_incarnation", "other_process")


def meetings(lines: DataFrame, moved: DataFrame) -> DataFrame:
    """Displaced messages with every other line that has them."""
    named = {name: f"other_{name}" for name in ("node", "incarnation", "process", "index")}
    others = lines.select(*SIDE, "message", *named).withColumnsRenamed(named)
    return moved.join(others, on=[*SIDE, "message"], how="inner").where(
        "NOT (node = other_node AND incarnation = other_incarnation AND process = other_process)"
    )


def _first_crossing(crossed: DataFrame) -> DataFrame:
    """The witnesses that begin with the first row of all: that one is in the first witness."""
    told = crossed.select(
        *PROCESS, *_OTHER, "index", "other_index", "is_doubtful", event().alias("own"),
        event("other_index", "other_node", "other_incarnation").alias("other"),
    )  # fmt: skip
    first = told.groupBy(*SIDE).agg(F.least(F.min("own"), F.min("other")).alias("_first"))
    ones = told.join(first, on=list(SIDE), how="inner").where("own = _first OR other = _first").drop("_first")
    pair = (*PROCESS, *_OTHER)
    renamed = {name: f"_{name}" for name in ones.columns if name not in pair}
    pairs = told.join(F.broadcast(ones.withColumnsRenamed(renamed)), on=list(pair), how="inner").where(
        "index != _index AND other_index != _other_index AND (index < _index) != (other_index < _other_index)"
        " AND (is_doubtful OR _is_doubtful)"
    )
    return pairs.select(*SIDE, witness(F.col("own"), F.col("other"), F.col("_own"), F.col("_other")))
