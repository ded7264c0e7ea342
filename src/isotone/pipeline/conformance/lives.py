"""Who is there: runs, homes (node and incarnation) and processes, with their ends and their losses.

Implements: [Spread 2.2.2], Assumptions 2.1 and 2.2. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import (
    CLIENTS,
    DAEMONS,
    HOME,
    NEVER,
    PROCESS,
    home_incarnation,
    home_node,
    lasting_name,
)

CLIENT_KINDS = ("connect", "disconnect", "join", "leave", "send", "deliver", "view", "transsig", "selfleave")
DAEMON_KINDS = ("ssend", "sdeliver", "sview", "stranssig", "recover")


def sided(rows: DataFrame) -> DataFrame:
    """The rows of clients and daemons with their boundary; the one group of the daemons is the empty one."""
    kind = F.col("kind")
    of_daemons = kind.isin(*DAEMON_KINDS)
    both = rows.where(of_daemons | kind.isin(*CLIENT_KINDS))
    boundary = F.when(of_daemons, DAEMONS).otherwise(CLIENTS).alias("boundary")
    groups = F.when(of_daemons, F.array(F.lit(""))).otherwise(F.col("groups")).alias("groups")
    return both.select(boundary, groups, *(name for name in rows.columns if name != "groups"))


def runs(rows: DataFrame) -> DataFrame:
    """Per run: whether rows were lost, whether its end was stable and quiet, its components."""
    driver = F.col("node") == ""
    order = F.struct("incarnation", "index")
    stable = driver & (F.col("kind") == "stable")
    found = rows.groupBy("run").agg(
        F.bool_or(F.col("kind").isin("gap", "truncated")).alias("is_lossy"),
        F.max_by("components", F.when(stable, order)).alias("components"),
        F.max(F.when(stable, order)).alias("stable_at"),
        F.max(F.when(driver & (F.col("kind") == "end"), order)).alias("end_at"),
        F.max_by("quiet", F.when(driver & (F.col("kind") == "end"), order)).alias("last_quiet"),
    )
    late = F.col("stable_at").isNull() | (F.col("end_at") > F.col("stable_at"))
    quiet = F.when(F.col("end_at").isNotNull() & late, F.col("last_quiet"))
    settled = F.coalesce(F.col("stable_at").isNotNull() & quiet, F.lit(False))
    return found.select("run", "is_lossy", "components", quiet.alias("quiet"), settled.alias("is_settled"))


def homes(rows: DataFrame) -> DataFrame:
    """Per node and incarnation: the crash, the first loss, whether a later incarnation is there."""
    kind, index = F.col("kind"), F.col("index")
    found = (
        rows.where("node != ''")
        .groupBy(*HOME)
        .agg(
            F.min(F.when(kind == "crash", index)).alias("crash"),
            F.min(F.when(kind.isin("gap", "truncated"), index)).alias("loss"),
        )
    )
    newest = F.max("incarnation").over(Window.partitionBy("run", "node"))
    return found.withColumn("is_last", F.col("incarnation") == newest)


def losses(rows: DataFrame) -> DataFrame:
    """Every place where rows of a home are missing."""
    return rows.where(F.col("kind").isin("gap", "truncated")).select(*HOME, "index")


def processes(rows: DataFrame, home: DataFrame) -> DataFrame:
    """Every process by what is recorded of it, deliveries apart: its name, its end, whether it is a ghost."""
    named = sided(rows).where(~F.col("kind").isin("deliver", "sdeliver"))
    touched = named.select(*PROCESS[:4], F.explode("clients").alias("process"), "kind", "index")
    met = touched.groupBy(*PROCESS).agg(
        F.min("index").alias("met"),
        F.min(F.when(F.col("kind") == "disconnect", F.col("index"))).alias("disconnect"),
    )
    return met.join(home, on=list(HOME), how="left").select(
        *PROCESS,
        lasting_name(F.col("process")).alias("name"),
        is_ghost().alias("is_ghost"),
        _end().alias("end"),
        "loss",
        "crash",
    )


def is_ghost() -> Column:
    """Recorded at a node that is not its own."""
    text = F.col("process")
    return (home_node(text) != F.col("node")) | (home_incarnation(text) != F.col("incarnation"))


def _end() -> Column:
    """The first end; where rows were lost and the node went on, somewhere behind them all."""
    crash = F.when(F.col("met") <= F.col("crash"), F.col("crash"))
    unseen = F.when(F.col("loss").isNotNull() & ~F.col("is_last"), F.lit(NEVER))
    return F.least(F.col("disconnect"), crash, unseen)


def boundary_homes(rows: DataFrame, home: DataFrame) -> DataFrame:
    """Homes as one boundary knows them: where something happened at it, or they crashed, or lost rows."""
    both = F.explode(F.array(F.lit(CLIENTS), F.lit(DAEMONS))).alias("boundary")
    ended = rows.where(F.col("kind").isin("crash", "gap", "truncated") & (F.col("node") != "")).select(both, *HOME)
    seen = sided(rows).select("boundary", *HOME).unionByName(ended).distinct()
    newest = F.max("incarnation").over(Window.partitionBy("boundary", "run", "node"))
    known = seen.withColumn("is_newest", F.col("incarnation") == newest)
    over = F.col("crash").isNotNull() | (F.col("loss").isNotNull() & ~F.col("is_last"))
    return known.join(home, on=list(HOME), how="left").withColumn("is_over", over)
