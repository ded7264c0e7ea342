"""What clients asked for: joins under way, and leaves that have not taken effect yet.

A small state machine per process and group, folded over its few rows: a request to leave counts until a leave takes
effect; a join is under way until a view is installed.

Implements: the reading of [Spread 2.9.1] and [Spread 2.16]. Deviations: none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import sided
from isotone.pipeline.conformance.terms import ASK, END, INSTALL, JOIN, LEAVE, LOSS, PLACE, PROCESS

RECOVER = "R"
_CODES = {"join": JOIN, "leave": ASK, "recover": RECOVER}
_STATE = (
    "struct<inside: boolean, joining: bigint, leaving: int, "
    "told: array<struct<index: bigint, leaving: int, joining: bigint>>>"
)


def asks(rows: DataFrame, turned: DataFrame) -> DataFrame:
    """After each row that matters: how often more it asked to leave than it left, and since when it waits to join."""
    kind = F.col("kind")
    code = F.coalesce(*(F.when(kind == name, code) for name, code in _CODES.items()))
    asked = (
        sided(rows)
        .where(kind.isin(*_CODES))
        .select(
            *PROCESS[:4],
            F.explode("clients").alias("process"),
            F.get("groups", F.lit(0)).alias("group"),
            "index",
            code.alias("code"),
        )
    )
    asking = asked.select(*PLACE).distinct()
    moves = turned.select(*PLACE, "index", "code").join(asking, on=list(PLACE), how="left_semi")
    history = (
        asked.unionByName(moves)
        .groupBy(*PLACE)
        .agg(F.array_sort(F.collect_list(F.struct("index", "code"))).alias("all"))
    )
    start = F.from_json(F.lit('{"inside": false, "leaving": 0, "told": []}'), _STATE)
    folded = history.select(*PLACE, F.explode(F.aggregate("all", start, _step)["told"]).alias("each"))
    return folded.select(*PLACE, "each.index", "each.leaving", "each.joining")


def _step(state: Column, each: Column) -> Column:
    code, index = each["code"], each["index"]
    inside, joining, leaving = state["inside"], state["joining"], state["leaving"]
    nothing = F.lit(None).cast("bigint")
    new_inside = F.when(code == INSTALL, True).when(code.isin(LEAVE, END, LOSS), False).otherwise(inside)
    new_joining = (
        F.when(code == RECOVER, index)
        .when(code.isin(ASK, END), nothing)
        .when((code == INSTALL) & (leaving == 0), nothing)
        .when((code == JOIN) & (~inside | (leaving > 0)), F.coalesce(joining, index))
        .otherwise(joining)
    )
    new_leaving = (
        F.when(code.isin(END, LOSS), 0)
        .when(code == LEAVE, F.greatest(F.lit(0), leaving - 1))
        .when((code == ASK) & (inside | joining.isNotNull()), leaving + 1)
        .otherwise(leaving)
    )
    told = F.struct(index.alias("index"), new_leaving.cast("int").alias("leaving"), new_joining.alias("joining"))
    return F.struct(
        new_inside.alias("inside"),
        new_joining.alias("joining"),
        new_leaving.cast("int").alias("leaving"),
        F.concat(state["told"], F.array(told)).alias("told"),
    ).cast(_STATE)
