"""What is given to the queries: silver without requests that were refused, and with the ends of missing records.

A join of a private group is refused; so is a send whose sequence does not follow that of the send before, unless rows
were lost in between. A record that others name and that has no row is one that broke off before its first row.

Implements: docs/contracts.md, boundary B4; docs/protocols/checking.md, input. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.conformance.terms import kept
from isotone.pipeline.schema import RECORD
from isotone.pipeline.silver import daemon_incarnation, daemon_name

_SESSION = (*RECORD, "client")
_FOLD = "struct<high: bigint, refused: array<bigint>>"


def given(silver: DataFrame) -> DataFrame:
    """All transformations."""
    is_private = F.get("groups", F.lit(0)).startswith("#")
    taken = _without_refused(silver.where(~(F.col("kind") == "join") | ~is_private))
    return _with_missing(taken)


def _without_refused(rows: DataFrame) -> DataFrame:
    sends = rows.where("kind = 'send'").select(
        *RECORD, "index", F.get("clients", F.lit(0)).alias("client"), "first", "count"
    )
    order = Window.partitionBy(*_SESSION).orderBy("index")
    due = F.coalesce(F.lag(F.col("first") + F.col("count")).over(order), F.lit(1))
    odd = kept(sends.withColumn("due", due).where("first != due").select(*_SESSION).distinct())
    if odd.isEmpty():
        return rows
    losses = rows.where("kind IN ('gap', 'truncated')").groupBy(*RECORD).agg(F.min("index").alias("lost"))
    some = sends.join(odd, on=list(_SESSION), how="left_semi").join(losses, on=list(RECORD), how="left")
    strict = some.where("lost IS NULL OR index < lost")
    each = F.array_sort(F.collect_list(F.struct("index", "first", "count")))
    start = F.from_json(F.lit('{"high": 0, "refused": []}'), _FOLD)
    folded = strict.groupBy(*_SESSION).agg(F.aggregate(each, start, _step)["refused"].alias("refused"))
    refused = kept(folded.select(*RECORD, F.explode("refused").alias("index")))
    return rows.join(refused, on=[*RECORD, "index"], how="left_anti")


def _step(state: Column, send: Column) -> Column:
    follows = send["first"] == state["high"] + 1
    refused = F.when(follows, state["refused"]).otherwise(F.concat(state["refused"], F.array(send["index"])))
    high = F.when(follows, send["first"] + send["count"] - 1).otherwise(state["high"])
    return F.struct(high.alias("high"), refused.alias("refused")).cast(_FOLD)


def _with_missing(rows: DataFrame) -> DataFrame:
    """A ``truncated`` row for each record that others name and that is not there."""
    missing = kept(missing_records(rows))
    if missing.isEmpty():
        return rows
    types = {field.name: field.dataType for field in rows.schema.fields}
    zero = F.lit(0).cast("bigint")
    told = {"index": zero, "at": zero, "kind": F.lit("truncated"), "reason": F.lit("no row of it is there")}
    ends = missing.select(*RECORD).withColumns(told)
    return rows.unionByName(
        ends.select(
            *(F.col(name) if name in ends.columns else F.lit(None).cast(types[name]).alias(name) for name in types)
        )
    )


def missing_records(rows: DataFrame) -> DataFrame:
    """Run, node and incarnation of all who are named as members, senders or servers and have no row at all."""
    clients = rows.where("kind IN ('view', 'deliver')").select(
        "run", F.explode(F.concat(_some("members"), F.array_compact(F.array("sender")))).alias("text")
    )
    parts = F.split("text", "#")
    homes = clients.distinct().where((F.size(parts) == 5) & F.get(parts, F.lit(3)).rlike("^[0-9]+$"))
    of_clients = homes.select(
        "run", F.get(parts, F.lit(2)).alias("node"), F.get(parts, F.lit(3)).try_cast("bigint").alias("incarnation")
    )
    daemons = rows.where("kind IN ('sview', 'sdeliver', 'ninit')").select(
        "run",
        F.explode(F.concat(_some("members"), _some("servers"), F.array_compact(F.array("sender")))).alias("text"),
    )
    text = F.col("text")
    of_daemons = daemons.distinct().select(
        "run", daemon_name(text).alias("node"), daemon_incarnation(text, -1).alias("incarnation")
    )
    named = of_clients.unionByName(of_daemons).where("node != '' AND incarnation >= 0").distinct()
    there = rows.select(*RECORD).distinct()
    found = named.join(there, on=list(RECORD), how="left_anti")
    stable = rows.where("kind = 'stable'").select("run", F.explode(F.flatten("components")).alias("node")).distinct()
    nodes = there.select("run", "node").distinct()
    silent = stable.join(nodes, on=["run", "node"], how="left_anti").withColumn("incarnation", F.lit(1).cast("bigint"))
    return found.unionByName(silent).distinct()


def _some(name: str) -> Column:
    return F.coalesce(F.col(name), F.array().cast("array<string>"))
