"""What a program's equations say about recorded values, computed by Spark: the oracle for what rings produced.

By Theorem 2.2 every result of the top ring is an aggregation over the nodes' own values, whatever rings are between.
From the record it is known which values stand behind a result: `sources` follows them down to the nodes, and
`expected` applies each operator once to all of them.

Implements: [Flows 2.5, Theorem 2.2], [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F

from isotone.pipeline.little import rows_of
from isotone.trace import flows as trace
from isotone.trace.events import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEPTH_MAX = 12
PARTS = (
    "ring string, number long, round long, member string, counts boolean, below string, below_number long, "
    "below_round long, place int, amount long, elements array<string>"
)
RESULTS = "number long, round long, place int, amount long, elements array<string>, up_to long"
VERSION = ("top_number", "top_round")


def _flat(plain: Any) -> tuple[int | None, list[str]]:
    """A value as a number, or as the texts of its elements."""
    if isinstance(plain, bool | int):
        return int(plain), []
    match plain:
        case ["s", _, *bounds]:
            return None, [str(each) for each in _numbers(bounds)]
        case ["p", *entries]:
            return None, [f"{entry[0]}:{number}" for entry in entries for number in _numbers(entry[1:])]
    raise AssertionError(plain)


def _numbers(bounds: list[int]) -> list[int]:
    return [each for first, last in zip(bounds[::2], bounds[1::2]) for each in range(first, last + 1)]


def parts_of(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """What members added, one row for each flow."""
    found: list[tuple[Any, ...]] = []
    for row in rows:
        entry = row.entry
        if not isinstance(entry, trace.Contributed):
            continue
        origin = entry.origin.split(" ")
        below, version = (origin[1], origin[2].split(".")) if origin[0] == "ring" else (None, [None, None])
        numbers = [None if each is None else int(each) for each in version]
        for place, plain in enumerate(msgspec.json.decode(entry.values)):
            if plain is not None:
                head = (
                    entry.ring,
                    entry.number,
                    entry.round,
                    entry.member,
                    entry.standing != "beside",
                    below,
                    *numbers,
                )
                found.append((*head, place, *_flat(plain)))
    return rows_of(spark, found, PARTS)


def results_of(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Results of the top ring; ``up_to`` where a set was truncated."""
    found: list[tuple[Any, ...]] = []
    for row in rows:
        entry = row.entry
        if isinstance(entry, trace.Aggregated) and entry.top:
            for place, plain in enumerate(msgspec.json.decode(entry.values)):
                limit = plain[1] if isinstance(plain, list) and plain[0] == "s" and plain[1] >= 0 else None
                found.append((entry.number, entry.round, place, *_flat(plain), limit))
    return rows_of(spark, found, RESULTS)


def sources(parts: DataFrame, results: DataFrame) -> DataFrame:
    """For each result of the top ring and each flow, the values of nodes behind it."""
    tops = results.select("number", "round", "place").distinct()
    top_ring = parts.select("ring").agg(F.min(F.struct(F.length("ring"), "ring")).alias("least")).select("least.ring")
    frontier = (
        parts.join(top_ring, "ring", "inner")
        .join(tops, ["number", "round", "place"], "inner")
        .withColumns({"top_number": F.col("number"), "top_round": F.col("round"), "path": F.col("counts")})
    )
    leaves = frontier.where(F.col("below").isNull())
    for _ in range(DEPTH_MAX):
        frontier = frontier.where(F.col("below").isNotNull()).select(
            *VERSION,
            F.col("path").alias("path_above"),
            F.col("below").alias("ring"),
            F.col("below_number").alias("number"),
            F.col("below_round").alias("round"),
            "place",
        )
        frontier = frontier.join(parts, ["ring", "number", "round", "place"], "inner").withColumn(
            "path", F.col("path_above") & F.col("counts")
        )
        frontier = frontier.drop("path_above").cache()
        if frontier.isEmpty():
            break
        leaves = leaves.unionByName(frontier.where(F.col("below").isNull()).select(leaves.columns))
    return leaves.select(*VERSION, "place", "member", "path", "amount", "elements")


def expected(leaves: DataFrame, rules: dict[str, Any]) -> DataFrame:
    """One value for each result and flow, by the operator of the flow over all sources at once."""
    operators = [rule[1] for rule in rules["regular"]]
    guarded = [place for place, rule in enumerate(rules["regular"]) if rule[3]]
    counted = leaves.where(F.col("path") | ~F.col("place").isin(guarded))
    smallest = [place for place, name in enumerate(operators) if name in ("min", "all")]
    amount = F.when(F.col("place").isin(smallest), F.min("amount")).otherwise(F.max("amount"))
    amounts = counted.groupBy(*VERSION, "place").agg(amount.alias("amount"), F.count("*").alias("nodes"))
    common = [place for place, name in enumerate(operators) if name == "intersect"]
    elements = (
        counted.select(*VERSION, "place", F.explode("elements").alias("element"))
        .groupBy(*VERSION, "place", "element")
        .agg(F.count("*").alias("having"))
        .join(amounts, [*VERSION, "place"], "inner")
        .where(~F.col("place").isin(common) | (F.col("having") == F.col("nodes")))
        .groupBy(*VERSION, "place")
        .agg(F.collect_list("element").alias("elements"))
    )
    return amounts.join(elements, [*VERSION, "place"], "left").select(*VERSION, "place", "amount", "elements", "nodes")


def differences(results: DataFrame, wanted: DataFrame) -> DataFrame:
    """Results that are not what the equations say; of a truncated set, what is above its limit does not count."""
    none = F.array().cast("array<string>")
    limit = F.coalesce(F.col("up_to"), F.lit(2**62))
    kept = F.filter(
        F.coalesce("wanted_elements", none), lambda each: F.coalesce(each.try_cast("long"), F.lit(0)) <= limit
    )
    joined = results.join(
        wanted.withColumnsRenamed(
            {"top_number": "number", "top_round": "round", "amount": "wanted", "elements": "wanted_elements"}
        ),
        ["number", "round", "place"],
        "left",
    )
    wrong_amount = ~F.col("amount").eqNullSafe(F.col("wanted"))
    wrong_elements = ~F.array_sort(F.col("elements")).eqNullSafe(F.array_sort(kept))
    return joined.where(wrong_amount | wrong_elements).select("number", "round", "place", "amount", "wanted", "nodes")
